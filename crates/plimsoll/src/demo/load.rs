//! Owns a client process of the demo (`plimsoll demo-client`): workers that call without pause until standard input ends, and
//! the ledger of every call. It must not know that anything will be killed.

mod caller;
mod worker;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;

use super::ledger::Book;
use super::parent::die_with;
use crate::client::{Client, ClientOptions};
use caller::Caller;
use worker::Worker;

/// How the demo starts its client processes.
#[derive(Args, Clone, Debug)]
pub(crate) struct LoadArgs {
    /// `HOST:PORT` of both nodes
    #[arg(long, value_delimiter = ',')]
    endpoints: Vec<String>,
    /// The ledger to write
    #[arg(long)]
    ledger: PathBuf,
    /// Keys start with it
    #[arg(long)]
    name: String,
    /// How many calls run at the same time
    #[arg(long)]
    workers: u32,
    /// End when this process ends without a word
    #[arg(long, value_name = "PID")]
    die_with_parent: u32,
    /// What the workers choose by
    #[arg(long)]
    seed: u64,
}

const REPORT_EVERY: Duration = Duration::from_millis(50);
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs until standard input ends; then lets every worker end its call.
///
/// # Errors
/// When the ledger cannot be written: calls that nobody writes down prove nothing.
pub(crate) async fn run(args: LoadArgs) -> Result<()> {
    die_with(args.die_with_parent)?;
    let book = Arc::new(Book::create(&args.ledger)?);
    let options = ClientOptions { endpoints: args.endpoints.clone(), timeout: CALL_TIMEOUT, tls: None, token: None };
    let client = Client::new(options).map_err(anyhow::Error::msg)?;
    let acknowledged = Arc::new(AtomicU64::new(0));
    let caller = Arc::new(Caller::new(client, book, Arc::clone(&acknowledged)));
    let (stop, stopped) = watch::channel(false);

    let mut workers = tokio::task::JoinSet::new();
    for number in 0..args.workers {
        let seed = args.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(number));
        let worker = Worker::new(Arc::clone(&caller), format!("{}/{number}", args.name), seed);
        workers.spawn(worker.run(stopped.clone()));
    }
    let reporter = tokio::spawn(report(Arc::clone(&acknowledged)));
    let input_ended = async {
        let mut input = tokio::io::stdin();
        let mut nothing = [0; 64];
        while input.read(&mut nothing).await.is_ok_and(|count| count > 0) {}
    };
    tokio::select! {
        () = input_ended => {}
        // A worker ends early only when its ledger fails.
        Some(ended) = workers.join_next() => ended.context("a worker panicked")??,
    }
    stop.send_replace(true);
    while let Some(ended) = workers.join_next().await {
        ended.context("a worker panicked")??;
    }
    reporter.abort();
    say(acknowledged.load(Ordering::Relaxed));
    Ok(())
}

async fn report(acknowledged: Arc<AtomicU64>) {
    let mut ticks = tokio::time::interval(REPORT_EVERY);
    loop {
        ticks.tick().await;
        say(acknowledged.load(Ordering::Relaxed));
    }
}

/// The parent reads the number of acknowledged changes, one a line. A parent that is gone is noticed by the end of the input.
fn say(acknowledged: u64) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{acknowledged}").and_then(|()| out.flush());
}
