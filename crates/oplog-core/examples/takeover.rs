//! Owns a show of the fence: a second node claims the log while the first still writes, and nothing acknowledged is lost.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ha_kv::MemoryKv;
use ha_types::{ClusterId, LeaderGuard, MonoTime, SystemClock, SystemEntropy};
use oplog_core::{
    ApplyError, BatchStorage, ClaimedLog, EntryRef, LogKeys, NewEntry, OpenOptions, OrderedWriter, Outcome, Replica,
    Seq, StateMachine, WriterConfig, WriterEnv, claim_and_verify,
};

#[derive(Default)]
struct Counter {
    at: Seq,
    value: u64,
}

impl StateMachine for Counter {
    fn last_applied(&self) -> Seq {
        self.at
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        let [step] = entry.payload else { return Err(ApplyError { reason: "a step is one byte".into() }) };
        (self.at, self.value) = (entry.seq, self.value + u64::from(*step));
        Ok(())
    }
}

/// Both nodes believe that they lead: the fence must hold without the election's help.
struct Leads;

impl LeaderGuard for Leads {
    fn serve_until(&self) -> Option<MonoTime> {
        Some(MonoTime::from_origin(Duration::MAX))
    }

    fn holds(&self) -> bool {
        true
    }
}

async fn claim(log: &BatchStorage, env: &WriterEnv) -> Result<(Counter, ClaimedLog), Box<dyn Error>> {
    let replica = Replica::empty(Counter::default());
    let pause = Duration::from_millis(50);
    let claimed = claim_and_verify(log.clone(), replica, &Leads, &*env.clock, &*env.entropy, pause).await;
    Ok(claimed.map_err(|failed| failed.error)?.into_parts())
}

async fn add(writer: &OrderedWriter) -> Result<Outcome, Box<dyn Error>> {
    let entry = NewEntry { op_type: 1, tenant: "default", key: b"counter", payload: &[1] };
    Ok(writer.ready().await?.commit(entry)?.await)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    let keys = LogKeys::of(&ClusterId::new("example")?);
    let log = BatchStorage::open(Arc::new(MemoryKv::new()), keys, options).await?;
    log.create_first_prefix().await?;
    let env = WriterEnv { clock: Arc::new(SystemClock::new()), entropy: Arc::new(SystemEntropy) };

    let (_, claimed) = claim(&log, &env).await?;
    let old = OrderedWriter::start(claimed, WriterConfig::default(), env.clone()).map_err(|(_, why)| why)?;
    for _ in 0..5 {
        assert_eq!(add(&old).await?, Outcome::Durable);
    }
    println!("the first node wrote 5 entries: {}", log.require_prefix().await?);

    let (counter, claimed) = claim(&log, &env).await?;
    println!("the second node claimed the log with the counter at {}: {}", counter.value, claimed.prefix());
    let new = OrderedWriter::start(claimed, WriterConfig::default(), env).map_err(|(_, why)| why)?;
    println!("the first node's next entry: {:?}", add(&old).await?);
    println!("the second node's next entry: {:?}", add(&new).await?);
    println!("the log: {}", log.require_prefix().await?);
    Ok(())
}

#[cfg(test)]
#[test]
fn runs() {
    main().unwrap();
}
