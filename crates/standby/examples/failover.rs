//! A primary and a standby in one process over one store: the primary writes, its lease ends, the standby takes over.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::MemoryKv;
use ha_types::{Clock, ClusterId, SystemClock, SystemEntropy};
use leadership::{ElectionConfig, Elector};
use oplog_core::{
    ApplyError, BatchStorage, EntryRef, LogKeys, NewEntry, OpenOptions, OrderedWriter, Outcome, Replica, Seq,
    StateMachine, WriterConfig, WriterEnv,
};
use standby::{Standby, StandbyConfig, StandbyEnv};

/// The sum of all payload bytes.
#[derive(Default)]
struct Sum {
    at: Seq,
    total: u64,
}

impl StateMachine for Sum {
    fn last_applied(&self) -> Seq {
        self.at
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        self.at = entry.seq;
        self.total += entry.payload.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        Ok(())
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What every node of the cluster shares.
struct Cluster {
    clock: Arc<SystemClock>,
    store: Arc<MemoryKv>,
    storage: BatchStorage,
}

impl Cluster {
    fn standby(&self) -> Result<Standby<Sum>, standby::StandbyError> {
        let env =
            StandbyEnv { clock: self.clock.clone(), entropy: Arc::new(SystemEntropy), watch: Some(self.store.clone()) };
        Standby::new(self.storage.clone(), Replica::empty(Sum::default()), StandbyConfig::default(), env)
    }

    fn elector(&self, name: &'static str) -> Result<Elector, leadership::ElectionConfigError> {
        let key = self.storage.keys().leader();
        let (store, clock, entropy) = (self.store.clone(), self.clock.clone(), Arc::new(SystemEntropy));
        let elector = Elector::new(store.clone(), key, name.into(), ElectionConfig::default(), clock, entropy)?;
        Ok(elector.with_watch(store))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(MemoryKv::with_clock(clock.clone()));
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    let storage = BatchStorage::open(store.clone(), LogKeys::of(&ClusterId::new("example")?), options).await?;
    let cluster = Cluster { clock: clock.clone(), store, storage };

    // The first node: leadership, promotion on an empty log, a writer.
    let primary = cluster.elector("first")?.campaign().await?;
    let (mut sum, log) = cluster.standby()?.promote(&*primary.guard()).await?.into_parts();
    let env = WriterEnv { clock: clock.clone(), entropy: Arc::new(SystemEntropy) };
    let writer = OrderedWriter::start(log, WriterConfig::default(), env).map_err(|(_, why)| why)?;

    // The second node follows and campaigns meanwhile.
    let mut second = cluster.standby()?;
    let (observer, elector) = (second.observer(), cluster.elector("second")?);
    let failover = tokio::spawn(async move {
        let won = async {
            observer.close_to_prefix().await?;
            Ok::<_, Failure>(elector.campaign().await?)
        };
        let leadership = tokio::select! {
            fault = second.run() => return Err(fault.into()),
            won = won => won?,
        };
        let caught_up = second.promote(&*leadership.guard()).await?;
        Ok::<_, Failure>((caught_up, leadership))
    });

    for n in 1..=100_u8 {
        let ticket =
            writer.ready().await?.commit(NewEntry { op_type: 1, tenant: "default", key: b"n", payload: &[n] })?;
        sum.total += u64::from(n);
        assert_eq!(ticket.await, Outcome::Durable);
    }
    println!("first wrote 100 entries, its sum is {}", sum.total);

    // The first node's process is gone: nobody keeps its lease alive.
    let died_at = clock.now();
    drop((primary, writer, sum));
    let (caught_up, _leadership) = tokio::time::timeout(Duration::from_secs(30), failover).await???;
    let (prefix, total) = (caught_up.prefix(), caught_up.machine().total);
    println!("second serves {:?} later: {prefix}, its sum is {total}", clock.now().saturating_since(died_at));
    assert_eq!(total, 5050);
    Ok(())
}
