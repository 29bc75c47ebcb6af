//! Owns a show of the ways to wait for an entry: its own ticket, the last ticket of many, a callback; and of a lost reply.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ha_kv::KvErrorKind;
use ha_kv::faulty::{Fault, FaultyKv, OpKind, Situation};
use ha_types::{Clock as _, ClusterId, LeaderGuard, MonoTime, SystemClock, SystemEntropy};
use oplog_core::{
    ApplyError, BatchStorage, EntryRef, LogKeys, NewEntry, OpenOptions, OrderedWriter, Outcome, Replica, Seq,
    StateMachine, WriterConfig, WriterEnv, claim_and_verify,
};

/// A state that only counts.
#[derive(Default)]
struct Count(Seq);

impl StateMachine for Count {
    fn last_applied(&self) -> Seq {
        self.0
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        self.0 = entry.seq;
        Ok(())
    }
}

/// The only node leads.
struct Leads;

impl LeaderGuard for Leads {
    fn serve_until(&self) -> Option<MonoTime> {
        Some(MonoTime::from_origin(Duration::MAX))
    }

    fn holds(&self) -> bool {
        true
    }
}

const ENTRY: NewEntry<'static> = NewEntry { op_type: 1, tenant: "default", key: b"key", payload: b"payload" };

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // The kit for tests: a store in memory, and a client of it whose connection fails when told.
    let client = FaultyKv::new(Arc::new(ha_kv::MemoryKv::new()), 1);
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    let log = BatchStorage::open(client.clone(), LogKeys::of(&ClusterId::new("waiting")?), options).await?;
    log.create_first_prefix().await?;
    let clock = Arc::new(SystemClock::new());
    let env = WriterEnv { clock: clock.clone(), entropy: Arc::new(SystemEntropy) };
    let (empty, pause) = (Replica::empty(Count::default()), Duration::from_millis(50));
    let claimed = claim_and_verify(log.clone(), empty, &Leads, &*env.clock, &*env.entropy, pause).await;
    let (_, claimed) = claimed.map_err(|failed| failed.error)?.into_parts();
    let writer = OrderedWriter::start(claimed, WriterConfig::default(), env).map_err(|(_, why)| why)?;

    // One entry: `ready` waits for a place in the queue, `commit` is instant and cannot be taken back, the ticket is a future.
    let ticket = writer.ready().await?.commit(ENTRY)?;
    println!("entry {} is in the queue", ticket.seq());
    assert_eq!(ticket.await, Outcome::Durable);

    // Many: places first, all or none; then commit all and wait for the last. The log is durable in order, so the last one
    // stands for all before it. They share as few transactions as the batch limits allow.
    let before = client.calls(OpKind::Txn);
    let mut last = None;
    for place in writer.reserve_many(100)? {
        last = Some(place.commit(ENTRY)?);
    }
    assert_eq!(last.ok_or("a hundred were committed")?.await, Outcome::Durable);
    println!("100 entries took {} transaction(s)", client.calls(OpKind::Txn) - before);

    // A callback: it runs in order of the sequences, and must be short.
    let (told, tell) = tokio::sync::oneshot::channel();
    writer.ready().await?.commit_with(ENTRY, move |seq, outcome| {
        let _ = told.send((seq, outcome));
    })?;
    println!("the callback was told {:?}", tell.await?);

    // The reply to the next transaction is lost. The writer reads the prefix, sees that the transaction was its own, and the
    // caller learns the truth: nobody has to guess, and nothing is written twice.
    client.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
    let ticket = writer.ready().await?.commit(ENTRY)?;
    let seq = ticket.seq();
    assert_eq!(ticket.await, Outcome::Durable);
    assert_eq!(client.count(Situation::ReplyLost), 1);
    assert_eq!(log.require_prefix().await?.last_seq, seq);
    println!("a lost reply cost a read, entry {seq} is durable");

    // At the end: no more places, and what was committed becomes durable.
    writer.drain(clock.now().saturating_add(Duration::from_secs(30))).await?;
    assert!(writer.reserve().is_err());
    writer.stop().await;
    Ok(())
}

#[cfg(test)]
#[test]
fn runs() {
    main().unwrap();
}
