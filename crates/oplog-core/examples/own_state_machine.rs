//! Owns a show of a state machine of one's own: a table that is a fold of the log, on a primary and on a follower.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ha_kv::MemoryKv;
use ha_types::{ClusterId, LeaderGuard, MonoTime, SystemClock, SystemEntropy};
use oplog_core::{
    ApplyError, BatchStorage, EntryRef, FollowError, LogKeys, NewEntry, OpenOptions, OrderedWriter, Outcome, Replica,
    Seq, StateMachine, WriterConfig, WriterEnv, catch_up, claim_and_verify,
};

/// The log carries numbers and bytes; what they mean is settled here and nowhere else.
const SET: u8 = 1;
const UNSET: u8 = 2;

#[derive(Debug, Default, PartialEq)]
struct Table {
    at: Seq,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Table {
    /// What one entry means, for the primary and for every follower. An entry that makes no sense is refused *before* anything
    /// is changed. No clock, no randomness, nothing read from outside: the same entries give the same state everywhere.
    fn change(&mut self, seq: Seq, op_type: u8, key: &[u8], payload: &[u8]) -> Result<(), ApplyError> {
        match op_type {
            SET => self.rows.insert(key.into(), payload.into()),
            UNSET => self.rows.remove(key),
            other => return Err(ApplyError { reason: format!("op type {other} is not one of a table") }),
        };
        self.at = seq;
        Ok(())
    }
}

impl StateMachine for Table {
    /// Moved in the same step as the state, so that no entry is applied twice or left out.
    fn last_applied(&self) -> Seq {
        self.at
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        self.change(entry.seq, entry.op_type, entry.key, entry.payload)
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

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // Memory loses everything with its process, so it is asked for in words. A store with a disk needs no such word.
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    let log = BatchStorage::open(Arc::new(MemoryKv::new()), LogKeys::of(&ClusterId::new("tables")?), options).await?;
    log.create_first_prefix().await?;

    // The claim gives the machine back with the proof that it equals the log.
    let env = WriterEnv { clock: Arc::new(SystemClock::new()), entropy: Arc::new(SystemEntropy) };
    let empty = Replica::empty(Table::default());
    let pause = Duration::from_millis(50);
    let claimed = claim_and_verify(log.clone(), empty, &Leads, &*env.clock, &*env.entropy, pause).await;
    let (mut table, claimed) = claimed.map_err(|failed| failed.error)?.into_parts();
    let writer = OrderedWriter::start(claimed, WriterConfig::default(), env).map_err(|(_, why)| why)?;

    // A primary changes its own state the same way, as soon as `commit` has given the entry its sequence. An entry has a payload
    // of at least one byte.
    for (op_type, key, payload) in [(SET, "sky", "blue"), (SET, "grass", "green"), (UNSET, "sky", "-")] {
        let (key, payload) = (key.as_bytes(), payload.as_bytes());
        let ticket = writer.ready().await?.commit(NewEntry { op_type, tenant: "default", key, payload })?;
        table.change(ticket.seq(), op_type, key, payload)?;
        assert_eq!(ticket.await, Outcome::Durable);
    }

    // A follower comes to the same state from the log alone.
    let mut follower = Replica::empty(Table::default());
    catch_up(&log, &mut follower, &log.require_prefix().await?, 1 << 20).await?;
    assert_eq!(follower.machine(), &table);
    println!("both nodes hold {} row(s) at sequence {}", table.rows.len(), table.at);

    // What the machine refuses stops a follower right before it, with key, expected and found.
    let nonsense = NewEntry { op_type: 99, tenant: "default", key: b"sky", payload: b"?" };
    assert_eq!(writer.ready().await?.commit(nonsense)?.await, Outcome::Durable, "the log does not judge");
    let refused = catch_up(&log, &mut follower, &log.require_prefix().await?, 1 << 20).await;
    let Err(FollowError::Fault(stopped)) = refused else { return Err("the follower must stop".into()) };
    assert_eq!(follower.machine(), &table, "nothing was changed");
    println!("the follower stopped: {stopped}");
    Ok(())
}

#[cfg(test)]
#[test]
fn runs() {
    main().unwrap();
}
