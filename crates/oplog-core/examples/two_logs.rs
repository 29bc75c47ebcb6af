//! Owns a show of two logs in one process over one store: each has its own keys, claim, sequence and writer.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ha_kv::{MemoryKv, TxnKv};
use ha_types::{ClusterId, LeaderGuard, MonoTime, SystemClock, SystemEntropy};
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

/// This node leads both. Nothing hinders a guard of its own for each log, from two elections.
struct Leads;

impl LeaderGuard for Leads {
    fn serve_until(&self) -> Option<MonoTime> {
        Some(MonoTime::from_origin(Duration::MAX))
    }

    fn holds(&self) -> bool {
        true
    }
}

/// No state is global, so a second log is just a second set of values. The cluster id is a part of every key, and no two ids
/// give a log the keys of another.
async fn open(store: Arc<dyn TxnKv>, cluster: &str) -> Result<(BatchStorage, OrderedWriter), Box<dyn Error>> {
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    let log = BatchStorage::open(store, LogKeys::of(&ClusterId::new(cluster)?), options).await?;
    log.create_first_prefix().await?;
    let env = WriterEnv { clock: Arc::new(SystemClock::new()), entropy: Arc::new(SystemEntropy) };
    let (empty, pause) = (Replica::empty(Count::default()), Duration::from_millis(50));
    let claimed = claim_and_verify(log.clone(), empty, &Leads, &*env.clock, &*env.entropy, pause).await;
    let (_, claimed) = claimed.map_err(|failed| failed.error)?.into_parts();
    let writer = OrderedWriter::start(claimed, WriterConfig::default(), env).map_err(|(_, why)| why)?;
    Ok((log, writer))
}

async fn append(writer: &OrderedWriter, payload: &[u8]) -> Result<Outcome, Box<dyn Error>> {
    Ok(writer.ready().await?.commit(NewEntry { op_type: 1, tenant: "default", key: b"key", payload })?.await)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Arc::new(MemoryKv::new());
    let (red, red_writer) = open(store.clone(), "red").await?;
    let (blue, blue_writer) = open(store, "blue").await?;

    // Both write at once, and each counts its own sequence from 1.
    for payload in ["one", "two", "three"].map(str::as_bytes) {
        let (of_red, of_blue) = tokio::join!(append(&red_writer, payload), append(&blue_writer, payload));
        assert_eq!((of_red?, of_blue?), (Outcome::Durable, Outcome::Durable));
    }

    // What ends one does not touch the other.
    red_writer.stop().await;
    assert!(red_writer.reserve().is_err());
    assert_eq!(append(&blue_writer, b"more").await?, Outcome::Durable);

    let (red, blue) = (red.require_prefix().await?, blue.require_prefix().await?);
    assert_eq!((red.last_seq, blue.last_seq), (Seq::new(3), Seq::new(4)));
    assert_ne!(red.owner, blue.owner, "each was claimed by itself");
    println!("red:  {red}\nblue: {blue}");
    Ok(())
}

#[cfg(test)]
#[test]
fn runs() {
    main().unwrap();
}
