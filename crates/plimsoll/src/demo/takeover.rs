//! Owns the kill and what is measured around it.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use ha_rpc::v1::{Role, StatusRequest};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::clock::now_ns;
use super::cluster::{Cluster, Node, client};
use super::ledger::Ledger;
use super::round::{PATIENCE, mount};

/// When what happened, by the host's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    pub(super) kill_ns: u64,
    pub(super) won_ns: u64,
    pub(super) first_durable_ns: u64,
}

/// Which of the two nodes leads, while the other is a standby that could take over. On a busy machine leadership may have
/// changed hands by itself since the start.
pub(super) async fn leader_of(cluster: &Cluster, nodes: &mut [Node; 2]) -> Result<usize> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let named = cluster.leader().await?;
        let mut roles = [Role::Unspecified; 2];
        for (node, role) in nodes.iter_mut().zip(&mut roles) {
            node.process.check()?;
            let asked =
                client(std::slice::from_ref(&node.address), Duration::from_secs(1))?.status(StatusRequest {}).await;
            *role = asked.map_or(Role::Unspecified, |status| status.role());
        }
        let names = |node: &Node| named.as_deref() == Some(node.address.as_bytes());
        match roles {
            [Role::Leader, Role::Standby] if names(&nodes[0]) => return Ok(0),
            [Role::Standby, Role::Leader] if names(&nodes[1]) => return Ok(1),
            _ => sleep(Duration::from_millis(10)).await,
        }
    }
    bail!("there was no leader with a standby beside it within {PATIENCE:?}")
}

/// Ends the leader and waits until the other node serves. The first durable reply is that to a mount of ours, unless a client
/// got one earlier.
pub(super) async fn take_over(cluster: &Cluster, graceful: bool, victim: &Node, heir: &mut Node) -> Result<Moments> {
    let kill_ns = now_ns();
    victim.process.signal(if graceful { Signal::TERM } else { Signal::KILL })?;
    let deadline = Instant::now() + PATIENCE;
    let won_ns = loop {
        if cluster.leader().await?.as_deref() == Some(heir.address.as_bytes()) {
            break now_ns();
        }
        heir.process.check()?;
        if Instant::now() >= deadline {
            bail!("nobody took over within {PATIENCE:?}; last words of the standby:\n{}", heir.process.last_words());
        }
        sleep(Duration::from_millis(2)).await;
    };
    let admin = client(std::slice::from_ref(&heir.address), PATIENCE)?;
    // Space that the log never knew: what the dead primary had handed out stays untouched for a while.
    let words = || format!("last words of the standby:\n{}", heir.process.last_words());
    mount(&admin, "after").await.with_context(words)?;
    Ok(Moments { kill_ns, won_ns, first_durable_ns: now_ns() })
}

impl Moments {
    /// The same, with the first durable reply that a client got. A primary that hands over still answers after its SIGTERM, so
    /// there only calls count that were sent afterwards.
    pub(super) fn with(self, ledgers: &[Ledger], graceful: bool) -> Self {
        let Self { kill_ns, won_ns, first_durable_ns } = self;
        let changes =
            ledgers.iter().flat_map(Ledger::calls).filter_map(|made| Some((made.sent_ns, made.durable_ns()?)));
        let by_the_new = changes.filter(|(sent_ns, durable_ns)| {
            *durable_ns > won_ns && if graceful { *sent_ns > won_ns } else { *durable_ns > kill_ns }
        });
        let first = by_the_new.map(|(_, durable_ns)| durable_ns).min();
        Self { first_durable_ns: first.map_or(first_durable_ns, |at| at.min(first_durable_ns)), ..self }
    }
}
