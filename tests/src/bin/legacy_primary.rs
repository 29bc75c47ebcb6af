//! Owns an old primary in a process of its own, for tests that upgrade from it: elected under Mooncake's key, writing the legacy log
//! with Mooncake's payloads, on demand. It tells all on standard output.
//!
//! `legacy-primary ENDPOINT CLUSTER` obeys `put KEY` and `remove KEY` on standard input. It prints `primary SEQ` or `refused WHY`, then
//! `durable SEQ` or the outcome of each command.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use ha_kv::{EtcdKv, EtcdOptions};
use ha_types::{Clock, ClusterId, Entropy, OpType, SystemClock, SystemEntropy};
use leadership::{ElectionConfig, Elector};
use master::MasterState;
use master::mooncake::encode;
use oplog_core::legacy::{LegacyFollower, LegacyLog, LegacyReplica, LegacyRound, LegacyWriter, LegacyWriterConfig};
use oplog_core::{BatchStorage, LogKeys, NewEntry, OpenOptions, Outcome, StateMachine as _, WriterEnv};
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// The segment of the vectors, and where this process puts objects into it: below those of the vectors.
const ENDPOINT: &str = "10.0.0.1:12345";
const FIRST_ADDRESS: u64 = 0x1000_0000;
const OBJECT_BYTES: u64 = 4096;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let endpoint = arguments.next().context("give an endpoint")?;
    let keys = LogKeys::of(&ClusterId::new(&arguments.next().context("give a cluster id")?)?);
    let (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
    let kv = Arc::new(EtcdKv::connect(EtcdOptions::new([endpoint])).await?);
    let storage = BatchStorage::open(kv.clone(), keys.clone(), OpenOptions::default()).await?;

    let config = ElectionConfig { ttl: Duration::from_secs(5), ..ElectionConfig::default() };
    let (key, name) = (keys.old_master_view(), "10.0.0.1:50051".into());
    let leadership = Elector::new(kv, key, name, config, clock.clone(), entropy.clone())?.campaign().await?;

    let log = LegacyLog::beside(&storage);
    let mut follower = LegacyFollower::new(log, LegacyReplica::empty(MasterState::new()), clock.clone(), 1 << 20);
    while let LegacyRound::Following(progress) = follower.round().await? {
        if progress.entries == 0 {
            break;
        }
    }
    let env = WriterEnv { clock, entropy };
    let started = LegacyWriter::start(&storage, follower.into_replica(), LegacyWriterConfig::default(), env).await;
    let (state, writer) = match started {
        Ok(started) => started,
        Err(failed) => {
            println!("refused {}", failed.error);
            let _ = leadership.resign().await;
            return Ok(());
        }
    };
    let mut last = state.last_applied().get();
    println!("primary {last}");
    let mut commands = BufReader::new(tokio::io::stdin()).lines();
    while let Some(command) = commands.next_line().await? {
        let (op, key, payload) = match command.split_once(' ') {
            Some(("put", key)) => {
                let address = FIRST_ADDRESS + last * OBJECT_BYTES;
                (OpType::PutEnd, key, encode::put_end(7, OBJECT_BYTES, address, ENDPOINT))
            }
            Some(("remove", key)) => (OpType::Remove, key, Vec::new()),
            _ => bail!("unknown command {command:?}"),
        };
        let entry = NewEntry { op_type: op.number(), tenant: "default", key: key.as_bytes(), payload: &payload };
        let ticket = writer.commit(entry)?;
        last = ticket.seq().get();
        match ticket.await {
            Outcome::Durable => println!("durable {last}"),
            outcome => println!("{outcome:?} {last}"),
        }
    }
    Ok(())
}
