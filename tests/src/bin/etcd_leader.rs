//! Owns a leader in a process of its own, for tests that stop it: elected, claimed, writing on demand. It tells all on standard output.
//!
//! `etcd-leader ENDPOINT CLUSTER` obeys two commands on standard input: `commit TEXT` and `read`. It prints `leading EPOCH`,
//! `committed SEQ`, `outcome SEQ OUTCOME`, `read served COUNT`, `read refused` and `ended TERMINAL`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use ha_kv::{EtcdKv, EtcdOptions};
use ha_types::{ClusterId, LeaderGuard, SystemClock, SystemEntropy};
use leadership::{ElectionConfig, Elector};
use oplog_core::{
    ApplyError, BatchStorage, EntryRef, LogKeys, NewEntry, OpenOptions, OrderedWriter, Replica, Seq, StateMachine,
    WriterConfig, WriterEnv, claim_and_verify,
};
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// How many entries there are.
#[derive(Default)]
struct Count {
    last: Seq,
}

impl StateMachine for Count {
    fn last_applied(&self) -> Seq {
        self.last
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        self.last = entry.seq;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let endpoint = arguments.next().context("give an endpoint")?;
    let keys = LogKeys::of(&ClusterId::new(&arguments.next().context("give a cluster id")?)?);
    let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
    // Long enough that a request in flight is still in flight when the process has been stopped for a while.
    let long = Duration::from_secs(120);
    let kv = Arc::new(
        EtcdKv::connect(EtcdOptions { request_timeout: long, keep_alive: long, ..EtcdOptions::new([endpoint]) })
            .await?,
    );

    let config = ElectionConfig { ttl: Duration::from_secs(2), ..ElectionConfig::default() };
    let elector =
        Elector::new(kv.clone(), keys.leader(), "etcd-leader".into(), config, clock.clone(), entropy.clone())?;
    let leadership = elector.campaign().await?;
    let guard = leadership.guard();

    let storage = BatchStorage::open(kv, keys, OpenOptions::default()).await?;
    storage.create_first_prefix().await?;
    let (replica, pause) = (Replica::empty(Count::default()), Duration::from_millis(20));
    let claimed =
        claim_and_verify(storage, replica, &*guard, &*clock, &*entropy, pause).await.map_err(|failed| failed.error)?;
    let (mut state, log) = claimed.into_parts();
    let epoch = log.claim().epoch;
    let writer = OrderedWriter::start(log, WriterConfig::default(), WriterEnv { clock, entropy })
        .map_err(|(_, why)| anyhow!(why))?;
    println!("leading {epoch}");

    tokio::spawn(tell_the_end(writer.clone()));
    let mut commands = BufReader::new(tokio::io::stdin()).lines();
    while let Some(command) = commands.next_line().await? {
        match command.split_once(' ') {
            Some(("commit", text)) => state.last = commit(&writer, text).await?,
            None if command == "read" => read(&state, &*guard),
            _ => bail!("unknown command {command:?}"),
        }
    }
    Ok(())
}

async fn commit(writer: &OrderedWriter, text: &str) -> Result<Seq> {
    let entry = NewEntry { op_type: 1, tenant: "default", key: b"key", payload: text.as_bytes() };
    let seq = writer.ready().await?.commit_with(entry, |seq, outcome| println!("outcome {seq} {outcome:?}"))?;
    println!("committed {seq}");
    Ok(seq)
}

/// What a primary does with every read: the state first, the gate after it.
fn read(state: &Count, guard: &dyn LeaderGuard) {
    let answer = state.last;
    if guard.holds() { println!("read served {answer}") } else { println!("read refused") }
}

async fn tell_the_end(writer: OrderedWriter) {
    let mut status = writer.status();
    if let Ok(status) = status.wait_for(|s| s.terminal.is_some()).await {
        let terminal = status.terminal.as_ref().map(ToString::to_string);
        println!("ended {}", terminal.unwrap_or_default());
    }
}
