//! Owns the client processes of one round, as their parent sees them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;

use super::args::DemoArgs;
use super::cluster::Cluster;
use super::ledger::Ledger;
use super::process::Process;

/// A worker ends its last call within the client's timeout.
const END_WITHIN: Duration = Duration::from_secs(60);

/// All client processes.
#[derive(Debug)]
pub(super) struct Crowd {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    process: Process,
    acknowledged: Arc<AtomicU64>,
    ledger: PathBuf,
}

impl Crowd {
    /// Starts them all.
    pub(super) fn start(cluster: &Cluster, args: &DemoArgs, endpoints: &[String]) -> Result<Self> {
        let members = (0..args.clients).map(|number| Member::start(cluster, args, endpoints, number));
        Ok(Self { members: members.collect::<Result<_>>()? })
    }

    /// Changes acknowledged as durable so far.
    pub(super) fn acknowledged(&self) -> u64 {
        self.members.iter().map(|member| member.acknowledged.load(Ordering::Relaxed)).sum()
    }

    /// Fails if one of them has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        self.members.iter_mut().try_for_each(|member| member.process.check())
    }

    /// Lets them end their calls, and reads what they wrote down.
    pub(super) async fn stop(mut self) -> Result<Vec<Ledger>> {
        for member in &mut self.members {
            // The end of its input is the signal.
            drop(member.process.child.stdin.take());
        }
        let mut ledgers = Vec::new();
        for member in &mut self.members {
            member.process.end(END_WITHIN).await?;
            ledgers.push(Ledger::read(&member.ledger)?);
        }
        Ok(ledgers)
    }
}

impl Member {
    fn start(cluster: &Cluster, args: &DemoArgs, endpoints: &[String], number: u32) -> Result<Self> {
        let name = format!("client-{number}");
        let ledger = cluster.folder.join(format!("{name}.ledger"));
        let arguments = [
            "demo-client".into(),
            format!("--endpoints={}", endpoints.join(",")),
            format!("--ledger={}", ledger.display()),
            format!("--die-with-parent={}", std::process::id()),
            format!("--name=c{number}"),
            format!("--workers={}", args.workers),
            format!("--seed={}", fastrand::u64(..)),
        ];
        let mut process = Process::start(&name, &cluster.folder, &arguments)?;
        let mut lines = process.lines()?;
        let acknowledged = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&acknowledged);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(count) = line.parse() {
                    counter.store(count, Ordering::Relaxed);
                }
            }
        });
        Ok(Self { process, acknowledged, ledger })
    }
}
