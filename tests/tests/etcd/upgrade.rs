//! The upgrade from the legacy log on real etcd: entries as Mooncake wrote them, an old primary in a process of its own that is killed,
//! readers of ours, the cutover, and the first primary in batch records.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ha_kv::{EtcdKv, Kv};
use ha_types::{ClusterId, ObjectKey, TenantId};
use leadership::{ElectionConfig, Elector};
use master::{Master, MasterConfig, MasterState, Promise, ServeEnv};
use oplog_core::legacy::{CutoverCheck, CutoverDone, CutoverError, CutoverOptions, CutoverPlan, LegacyLog};
use oplog_core::{BatchId, BatchStorage, FirstPrefix, LogKeys, OpenOptions, Replica, Seq, WriterConfig};
use plimsoll_tests::{EtcdServer, ProcessGuard, eventually};
use standby::{LegacyConfig, LegacyMode, PromoteError, Standby, StandbyConfig, StandbyEnv, Step, StepError};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::ChildStdout;

use crate::log_kit::env;
use crate::support::{connect_patiently as connect, etcd_or_skip, start};

/// As Mooncake wrote them, but for their place in the log: a segment, and an object in it.
const MOUNT: &str = r#"{"checksum":2775656506,"object_key":"10.0.0.1:12345","op_type":5,"payload":"RARHewVzZWctYQ4xMC4wLjAuMToxMjM0NQAAAEAAAAAAAQA=","prefix_hash":3965606232,"sequence_id":1,"tenant_id":"default","timestamp_ms":1234567894}"#;
const OBJECT: &str = r#"{"checksum":1341734200,"object_key":"obj/\u00e9\"q\"\u0001","op_type":1,"payload":"wzhHwAFYAIh3ZlVEMyIRAP/u3cy7qpkAEAAAAAAAAAEHAAAAAAAAAAAAEAAAAAAAAAAQAAAAfwAAA3RjcA4xMC4wLjAuMToxMjM0NQMAAAABAmcxAQEBAQ==","prefix_hash":3666982410,"sequence_id":2,"tenant_id":"tenant-a","timestamp_ms":1234567893}"#;

/// Long enough that a loaded machine does not lose the election that the test holds.
const TTL: Duration = Duration::from_secs(20);

fn cluster() -> ClusterId {
    ClusterId::new("upgrade").unwrap()
}

fn keys() -> LogKeys {
    LogKeys::of(&cluster())
}

async fn open(kv: &Arc<EtcdKv>) -> BatchStorage {
    BatchStorage::open(kv.clone(), keys(), OpenOptions::default()).await.unwrap()
}

struct OldPrimary {
    process: ProcessGuard,
    output: Lines<BufReader<ChildStdout>>,
}

impl OldPrimary {
    /// Starts it, and gives the first thing it says.
    async fn start(server: &EtcdServer) -> (Self, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_legacy-primary"));
        command.args([&server.endpoint(), cluster().as_str()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = ProcessGuard::start(&mut command).unwrap();
        let output = process.with_child(|c| c.stdout.take()).unwrap();
        let mut primary = Self { process, output: BufReader::new(ChildStdout::from_std(output).unwrap()).lines() };
        let said = primary.hear().await;
        (primary, said)
    }

    async fn tell(&mut self, command: &str) -> String {
        use std::io::Write as _;
        self.process.with_child(|c| writeln!(c.stdin.as_mut().unwrap(), "{command}")).unwrap();
        self.hear().await
    }

    async fn hear(&mut self) -> String {
        let line = tokio::time::timeout(Duration::from_secs(30), self.output.next_line()).await;
        line.expect("the old primary says something").unwrap().expect("the old primary lives")
    }
}

async fn reader(server: &EtcdServer) -> Standby<MasterState> {
    let kv = connect(server).await;
    let env = StandbyEnv { clock: env().clock, entropy: env().entropy, watch: Some(kv.clone()) };
    let replica = Replica::empty(MasterState::new());
    let standby = Standby::new(open(&kv).await, replica, StandbyConfig::default(), env).unwrap();
    let mode = LegacyMode { config: LegacyConfig::default(), fresh: Arc::new(MasterState::new) };
    standby.with_legacy(mode).unwrap()
}

/// Rounds until the reader has applied so much.
async fn follows(reader: &mut Standby<MasterState>, seq: u64) -> Step {
    eventually("the reader to be there", async || match reader.step().await {
        Ok(step) => (reader.position().last_seq == Seq::new(seq)).then_some(step),
        Err(StepError::Store(_)) => None,
        Err(StepError::Unhealthy(fault)) => panic!("{fault}"),
    })
    .await
}

async fn cut_over(kv: &Arc<EtcdKv>) -> Result<CutoverDone<MasterState>, CutoverError> {
    let options = CutoverOptions::default();
    match CutoverPlan::prepare(&open(kv).await, MasterState::new(), options, env()).await? {
        CutoverCheck::Ready(plan) => plan.execute().await,
        CutoverCheck::Done(prefix) => panic!("cut over already: {prefix}"),
    }
}

#[tokio::test]
async fn l14_a_log_of_mooncakes_entries_is_followed_cut_over_and_served_in_batches() {
    let program = etcd_or_skip!("l14_a_log_of_mooncakes_entries_is_followed_cut_over_and_served_in_batches");
    let server = start(&program).await;
    let kv = connect(&server).await;
    for (n, value) in [(1, MOUNT), (2, OBJECT)] {
        kv.put(&keys().legacy_entry(Seq::new(n)), value.into()).await.unwrap();
    }
    kv.put(&keys().legacy_latest(), "2".into()).await.unwrap();

    let (mut old, said) = OldPrimary::start(&server).await;
    assert_eq!(said, "primary 2");
    for (command, durable) in [("put a", "durable 3"), ("put b", "durable 4"), ("remove a", "durable 5")] {
        assert_eq!(old.tell(command).await, durable);
    }

    // Readers first.
    let (mut one, mut other) = (reader(&server).await, reader(&server).await);
    for reader in [&mut one, &mut other] {
        assert_eq!(follows(reader, 5).await, Step::PerEntry(Seq::new(5)));
        assert!(!reader.observer().may_campaign());
    }

    // While it lives it is refused. Killed, it leaves its key until its lease is over.
    let refused = cut_over(&kv).await.unwrap_err();
    assert!(matches!(refused, CutoverError::OldPrimaryElected { .. }), "{refused}");
    old.process.kill();
    eventually("its key to go", async || kv.get(&keys().old_master_view()).await.unwrap().is_none().then_some(()))
        .await;
    let config = ElectionConfig { ttl: TTL, ..ElectionConfig::default() };
    let elector = Elector::new(kv.clone(), keys().leader(), "one".into(), config, env().clock, env().entropy).unwrap();
    let leadership = elector.campaign().await.unwrap();
    let refused = one.promote(&*leadership.guard()).await.expect_err("not before the cutover");
    assert!(matches!(refused.error, PromoteError::NotCutOver { applied } if applied.get() == 5), "{}", refused.error);
    let mut one = refused.standby;

    let done = cut_over(&kv).await.unwrap();
    assert!(matches!(done.prefix, FirstPrefix::Created(_)));
    assert_eq!((done.base, done.above), (Seq::new(5), None));

    // Then the primary: everything of before is served, and the log goes on in batches.
    follows(&mut one, 5).await;
    let caught_up = one.promote(&*leadership.guard()).await.unwrap();
    let config = MasterConfig { after_mooncake: Duration::from_millis(1), ..MasterConfig::default() };
    let (clock, entropy) = (env().clock, env().entropy);
    let guard = leadership.guard();
    let serve = ServeEnv { config, writer: WriterConfig::default(), clock, entropy, guard, ttl: TTL };
    let master = Master::serve(caught_up, serve).unwrap();
    let (tenant, default) = (TenantId::new("tenant-a").unwrap(), TenantId::default_tenant());
    let key = |text: &str| ObjectKey::new(text.as_bytes()).unwrap();
    let object = master.get(&tenant, &key("obj/\u{e9}\"q\"\u{1}"), None).unwrap();
    assert_eq!((object.replicas.len(), object.replicas[0].address), (1, 0x7f00_0000_1000));
    assert!(master.get(&default, &key("a"), None).is_err(), "removed before");
    master.remove(&default, &key("b"), Promise::Durable).await.unwrap();

    let step = follows(&mut other, 6).await;
    assert!(matches!(step, Step::Reached(prefix) if prefix.batch_id == BatchId::new(1)), "{step:?}");
    assert_eq!(other.machine().contents().objects.len(), 1, "the object of the vectors alone");
    let record = open(&kv).await.read_batch(BatchId::new(1)).await.unwrap().unwrap();
    assert_eq!(oplog_core::record::BatchRef::decode(&record).unwrap().header().first_seq, Seq::new(6));
    assert_eq!(kv.get(&keys().legacy_latest()).await.unwrap().as_deref(), Some(&b"5"[..]), "never written again");
    assert_eq!(LegacyLog::beside(&open(&kv).await).first_entry(Seq::new(5)).await.unwrap(), None, "in one format only");

    // An old primary that comes back is refused by the prefix.
    let (_back, said) = OldPrimary::start(&server).await;
    assert!(said.starts_with("refused") && said.contains("cut over"), "{said}");
    master.stop().await;
    let _ = leadership.resign().await;
}
