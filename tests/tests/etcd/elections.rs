//! Leaders on real etcd: one whose process is stopped (W15), and one whose etcd member is stopped (W20).

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ha_kv::{EtcdKv, EtcdOptions, Kv as _, LeaseKv};
use ha_types::{LeaderGuard, SystemClock, SystemEntropy};
use leadership::{ElectionConfig, Elector, Leadership};
use oplog_core::{LogKeys, Outcome};
use plimsoll_tests::{BytesProxy, Direction, EtcdCluster, Flow, ProcessGuard, eventually};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::ChildStdout;

use crate::log_kit::{Ledger, cluster, durable, fold, held_request, lead};
use crate::support::{connect, etcd_or_skip, options, start, text};

/// The leader in a process of its own.
struct LeaderProcess {
    process: ProcessGuard,
    output: Lines<BufReader<ChildStdout>>,
}

impl LeaderProcess {
    fn start(endpoint: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_etcd-leader"));
        command.args([endpoint, cluster().as_str()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = ProcessGuard::start(&mut command).unwrap();
        let output = process.with_child(|c| c.stdout.take()).unwrap();
        Self { process, output: BufReader::new(ChildStdout::from_std(output).unwrap()).lines() }
    }

    fn say(&self, command: &str) {
        use std::io::Write as _;
        self.process.with_child(|c| writeln!(c.stdin.as_mut().unwrap(), "{command}")).unwrap();
    }

    async fn hear(&mut self) -> String {
        let line = tokio::time::timeout(Duration::from_secs(20), self.output.next_line()).await;
        line.expect("the leader says something").unwrap().expect("the leader lives")
    }
}

fn elector(kv: Arc<dyn LeaseKv>, name: &'static str, ttl: Duration) -> Elector {
    let config = ElectionConfig { ttl, ..ElectionConfig::default() };
    let key = LogKeys::of(&cluster()).leader();
    Elector::new(kv, key, name.into(), config, Arc::new(SystemClock::new()), Arc::new(SystemEntropy)).unwrap()
}

#[tokio::test]
async fn w15_leader_process_stopped_past_its_ttl_and_resumed_in_mid_transaction() {
    let program = etcd_or_skip!("w15_leader_process_stopped_past_its_ttl_and_resumed_in_mid_transaction");
    let server = start(&program).await;
    let proxy = BytesProxy::start(server.address()).await.unwrap();
    let mut old = LeaderProcess::start(&proxy.endpoint());
    assert_eq!(old.hear().await, "leading 1");
    old.say("commit 1");
    assert_eq!(old.hear().await, "committed 1");
    assert_eq!(old.hear().await, "outcome 1 Durable");
    old.say("read");
    assert_eq!(old.hear().await, "read served 1");

    // Its transaction is on its way when the process stops.
    proxy.set(Direction::ToServer, Flow::Hold);
    old.say("commit 2");
    assert_eq!(old.hear().await, "committed 2");
    held_request(&proxy).await;
    old.process.stop();

    // Past the TTL another node is elected, claims and serves.
    let kv = connect(&server).await;
    let elector = elector(kv.clone(), "new", Duration::from_secs(2));
    let leadership = tokio::time::timeout(Duration::from_secs(20), elector.campaign()).await.unwrap().unwrap();
    let (state, new) = lead(kv).await;
    assert_eq!(state.texts(), ["1"]);
    let ledger = Ledger::default();
    ledger.commit(&new, "new 2").await;
    assert_eq!(ledger.wait_for(1).await, durable([2]));

    // The old one wakes up and hears nothing from anyone. Its own clock alone must stop its reads.
    proxy.set(Direction::ToClient, Flow::Hold);
    old.say("read");
    old.process.cont();
    assert_eq!(old.hear().await, "read refused");

    // Only now its transaction goes on.
    proxy.set(Direction::ToServer, Flow::Pass);
    proxy.set(Direction::ToClient, Flow::Pass);
    let mut rest = [old.hear().await, old.hear().await];
    rest.sort_unstable();
    assert!(rest[0].starts_with("ended fenced: epoch 2"), "{rest:?}");
    assert_eq!(rest[1], "outcome 2 Never");
    ledger.commit(&new, "new 3").await;
    assert_eq!(ledger.wait_for(2).await, durable(2..=3));
    assert!(leadership.guard().holds());
    assert_eq!(fold(connect(&server).await).await.texts(), ["1", "new 2", "new 3"]);
}

/// Looks at the gates of both all the time, and counts how often none, one or both were open.
async fn watch_gates(
    one: Arc<dyn LeaderGuard>,
    mut other: tokio::sync::watch::Receiver<Option<Arc<dyn LeaderGuard>>>,
) -> [u64; 3] {
    let mut counts = [0; 3];
    // Ends with the sender of the other's gate.
    while other.has_changed().is_ok() {
        let other = other.borrow_and_update().as_ref().is_some_and(|g| g.holds());
        counts[usize::from(one.holds()) + usize::from(other)] += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w20_one_leader_when_the_member_it_talks_to_is_stopped() {
    let program = etcd_or_skip!("w20_one_leader_when_the_member_it_talks_to_is_stopped");
    let nodes = EtcdCluster::start(&program).await.unwrap();
    let quick = EtcdOptions { request_timeout: Duration::from_secs(1), ..options(nodes.endpoints()) };
    let ttl = Duration::from_secs(5);
    let kv_a = Arc::new(EtcdKv::connect(quick.clone()).await.unwrap());
    let kv_b = Arc::new(EtcdKv::connect(quick.clone()).await.unwrap());
    let a = elector(kv_a.clone(), "a", ttl).campaign().await.unwrap();
    let (_, writer_a) = lead(kv_a).await;
    let ledger = Ledger::default();
    ledger.commit(&writer_a, "a 1").await;
    assert_eq!(ledger.wait_for(1).await, durable([1]));

    // The rival stands for election all along.
    let (gate_b, seen_b) = tokio::sync::watch::channel(None);
    let gate_b = Arc::new(gate_b);
    let gates = tokio::spawn(watch_gates(a.guard(), seen_b));
    let elector_b = elector(kv_b.clone(), "b", ttl);
    let shown = Arc::clone(&gate_b);
    let mut rival = tokio::task::JoinSet::new();
    rival.spawn(async move {
        let won = elector_b.campaign().await.unwrap();
        shown.send_replace(Some(won.guard()));
        won
    });

    // Both talk to the first member.
    nodes.members()[0].process().stop();
    let begin = Instant::now();
    let slot = writer_a.ready().await;
    if let Ok(slot) = slot {
        ledger.commit_reserved(slot, "a 2");
    }
    let mut b: Option<Leadership> = None;
    let leader = loop {
        assert!(begin.elapsed() < Duration::from_secs(30), "nobody leads");
        if let Some(won) = rival.try_join_next() {
            b = Some(won.unwrap());
        }
        // Whoever leads has its lease confirmed by another member for a whole TTL after the stop.
        let leads =
            if b.as_ref().is_some_and(|b| b.guard().holds()) { Some("b") } else { a.guard().holds().then_some("a") };
        if let Some(leads) = leads
            && begin.elapsed() > ttl + Duration::from_secs(1)
        {
            break leads;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    // Its writes go on, by another member too.
    let (new_ledger, seen) = (Ledger::default(), ledger.seen().len());
    if leader == "a" {
        ledger.commit(&writer_a, "a 3").await;
        assert!(ledger.wait_for(seen + 1).await.iter().all(|(_, outcome)| *outcome == Outcome::Durable));
    } else {
        let (_, writer_b) = lead(kv_b.clone()).await;
        new_ledger.commit(&writer_b, "b 1").await;
        assert_eq!(new_ledger.wait_for(1).await[0].1, Outcome::Durable);
    }
    let aside = eventually("another member is asked", async || EtcdKv::connect(quick.clone()).await.ok()).await;
    let holder = eventually("who leads", async || aside.get(&LogKeys::of(&cluster()).leader()).await.ok()).await;
    assert_eq!(text(holder).as_deref(), Some(leader), "the store says the same");

    // The member comes back with what it had in its hands; the leader stays.
    nodes.members()[0].process().cont();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let holds_b = b.as_ref().is_some_and(|b| b.guard().holds());
    assert_eq!((a.guard().holds(), holds_b), (leader == "a", leader == "b"));
    rival.shutdown().await;
    drop(gate_b);
    let [none, one, both] = gates.await.unwrap();
    assert!(one > 100, "the gates were looked at: {none} {one} {both}");
    assert_eq!(both, 0, "never two leaders");

    let log = fold(Arc::new(aside)).await;
    for (seq, outcome) in [ledger.seen(), new_ledger.seen()].concat() {
        let present = log.entries.iter().any(|(s, _)| *s == seq);
        assert!(outcome != Outcome::Durable || present, "entry {seq} was acknowledged and is lost");
    }
}
