//! Owns the gathering of evidence after a round: what the new primary answers, what the log says, and the report of both. It
//! must not decide what counts as lost; the judge does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use ha_rpc::v1::{ErrorCode, GetRequest, ListRequest};

use super::args::DemoArgs;
use super::clock::ms_between;
use super::cluster::Cluster;
use super::judge::{self, Fold, Promises};
use super::ledger::{Incarnation, Ledger};
use super::report::RoundReport;
use super::takeover::Moments;
use crate::client::{CallError, Client};

/// The kill must come while at least so many calls are in flight.
const IN_FLIGHT_AT_LEAST: u64 = 100;
/// How many readers ask the new primary at the same time.
const READERS: usize = 32;

/// Judges a round whose clients have stopped.
pub(super) async fn judge_round(
    cluster: &Cluster,
    args: &DemoArgs,
    primary: &Arc<Client>,
    ledgers: &[Ledger],
    moments: &Moments,
) -> Result<RoundReport> {
    let promises = Promises::of(ledgers);
    let answers = ask_primary(primary, promises.possible.keys().cloned().collect()).await?;
    let log = judge::read(cluster.kv(), cluster.root(), &cluster.name).await?;
    let fold = Fold::of(&log);
    let verdict = judge::judge(&promises, &fold, &answers);
    let in_flight = in_flight(ledgers, moments.kill_ns);
    let workers = u64::from(args.clients) * u64::from(args.workers);
    ensure!(
        in_flight >= IN_FLIGHT_AT_LEAST.min(workers / 2),
        "only {in_flight} calls were in flight at the kill, which proves little; give more --clients or --workers"
    );
    let report = RoundReport {
        suite: "demo",
        backend: cluster.backend(),
        graceful: args.graceful,
        operations: promises.operations,
        batches: log.batches,
        mean_batch: log.entries.len() as f64 / log.batches.max(1) as f64,
        acknowledged: promises.acknowledged,
        accepted: promises.accepted,
        cut: promises.cut,
        refused: promises.refused,
        either_applied: 0,
        either_lost: 0,
        failovers: 0,
        in_flight,
        acknowledged_before: acknowledged_before(ledgers, moments.kill_ns),
        missing: 0,
        doubled: 0,
        resurrected: 0,
        lost: 0,
        detect_ms: ms_between(moments.kill_ns, moments.won_ns),
        takeover_ms: ms_between(moments.won_ns, moments.first_durable_ns),
        ttl_ms: u64::try_from(cluster.ttl.as_millis()).unwrap_or(u64::MAX),
        findings: Vec::new(),
    };
    Ok(report.judged(verdict))
}

/// What the primary answers for every key that was ever used, and for every other key that it lists.
async fn ask_primary(primary: &Arc<Client>, keys: Vec<String>) -> Result<BTreeMap<Vec<u8>, Option<Incarnation>>> {
    let keys = Arc::new(keys);
    let mut readers = tokio::task::JoinSet::new();
    for first in 0..READERS {
        let (primary, keys) = (Arc::clone(primary), Arc::clone(&keys));
        readers.spawn(async move {
            let mut answers = Vec::new();
            for key in keys.iter().skip(first).step_by(READERS) {
                answers.push((key.as_bytes().to_vec(), get(&primary, key).await?));
            }
            anyhow::Ok(answers)
        });
    }
    let mut answers = BTreeMap::new();
    while let Some(read) = readers.join_next().await {
        answers.extend(read.context("a reader panicked")??);
    }
    let known: BTreeSet<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    let mut start_after = Bytes::new();
    loop {
        let page = primary.list(ListRequest { start_after, ..Default::default() }).await.context("no list")?;
        for object in page.objects.iter().filter(|object| !known.contains(&object.key[..])) {
            answers.insert(object.key.to_vec(), Incarnation::from_slice(&object.incarnation));
        }
        match page.objects.last().filter(|_| page.more) {
            Some(last) => start_after = last.key.clone(),
            None => return Ok(answers),
        }
    }
}

async fn get(primary: &Client, key: &str) -> Result<Option<Incarnation>> {
    let request = GetRequest { key: Bytes::copy_from_slice(key.as_bytes()), ..Default::default() };
    match primary.get(request).await {
        Ok(reply) => Incarnation::from_slice(&reply.incarnation).map(Some).context("a reply names no incarnation"),
        Err(CallError::Refused(detail))
            if matches!(detail.code(), ErrorCode::ObjectNotFound | ErrorCode::ReplicaIsNotReady) =>
        {
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| format!("the new primary does not answer for {key}")),
    }
}

fn in_flight(ledgers: &[Ledger], at_ns: u64) -> u64 {
    ledgers.iter().flat_map(Ledger::calls).filter(|made| made.in_flight_at(at_ns)).count() as u64
}

fn acknowledged_before(ledgers: &[Ledger], at_ns: u64) -> u64 {
    let durable = ledgers.iter().flat_map(Ledger::calls).filter_map(|made| made.durable_ns());
    durable.filter(|durable_ns| *durable_ns <= at_ns).count() as u64
}
