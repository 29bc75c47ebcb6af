//! Owns an old primary for the tests: a process of its own that writes the legacy log with Mooncake's payloads, under Mooncake's
//! election key, and obeys its test. It is this test program, run again.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ha_kv::{Kv, SqliteKv, SqliteOptions, TxnKv};
use ha_types::{Clock, ClusterId, Entropy, OpType, SystemClock, SystemEntropy};
use master::MasterState;
use master::mooncake::encode;
use oplog_core::legacy::{
    LegacyEntry, LegacyFollower, LegacyLog, LegacyReplica, LegacyRound, LegacyStartFailed, LegacyWriter,
    LegacyWriterConfig,
};
use oplog_core::{BatchStorage, LogKeys, NewEntry, OpenOptions, Seq, WriterEnv};

use crate::kit::Place;

/// Where Mooncake's memory is.
pub(crate) const ENDPOINT: &str = "10.0.0.1:12345";
pub(crate) const OBJECT_BYTES: u64 = 4096;

const STORE: &str = "PLIMSOLL_TEST_OLD_PRIMARY_STORE";

/// The log's keys of the cluster that the nodes of a [`Place`] have.
pub(crate) fn keys() -> LogKeys {
    LogKeys::of(&ClusterId::new("default").unwrap())
}

pub(crate) async fn open_store(path: PathBuf) -> Arc<SqliteKv> {
    let (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
    Arc::new(SqliteKv::open(SqliteOptions::new(path), clock, entropy).await.unwrap())
}

/// The running process; killed when it is dropped.
pub(crate) struct OldPrimary {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl OldPrimary {
    /// Starts one on the place's store. The first line that it says is `primary SEQ` or `refused WHY`.
    pub(crate) fn start(place: &Place) -> (Self, String) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--exact",
                "old_primary::it_goes_on_where_it_stopped_and_gives_up_its_election_key",
                "--nocapture",
                "--quiet",
            ])
            .env(STORE, place.db());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut primary = Self { child, stdin, stdout };
        let said = primary.line();
        (primary, said)
    }

    /// The next line that is the primary's own: the test program says things, too.
    pub(crate) fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the old primary has ended");
            if let Some((_, said)) = line.split_once("old primary: ") {
                return said.trim_end().to_owned();
            }
        }
    }

    /// Obeys one command, and says what became of it.
    pub(crate) fn tell(&mut self, command: &str) -> String {
        writeln!(self.stdin.as_mut().unwrap(), "{command}").unwrap();
        self.line()
    }

    /// A command that must end durable; gives its sequence.
    pub(crate) fn durable(&mut self, command: &str) -> u64 {
        let said = self.tell(command);
        said.strip_prefix("durable ").and_then(|seq| seq.parse().ok()).unwrap_or_else(|| panic!("{command}: {said}"))
    }

    /// Ends it as an operator does: it gives up its election key.
    pub(crate) fn stop(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    pub(crate) fn kill_9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for OldPrimary {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where [`STORE`] is set this is the process itself: it obeys `mount`, `put KEY`, `remove KEY` and `stray SEQ` (as the original would,
/// which compares nothing), and ends with its input.
#[test]
fn it_goes_on_where_it_stopped_and_gives_up_its_election_key() {
    if let Some(store) = std::env::var_os(STORE) {
        return crate::kit::block_on(primary(store.into()));
    }
    let place = Place::new(1000);
    let (mut old, said) = OldPrimary::start(&place);
    assert_eq!(said, "primary 0");
    assert_eq!((old.durable("mount"), old.durable("put a"), old.durable("remove a")), (1, 2, 3));
    let elected =
        || crate::kit::block_on(async { open_store(place.db()).await.get(&keys().old_master_view()).await.unwrap() });
    assert!(elected().is_some());
    old.stop();
    assert_eq!(elected(), None);
    let (mut old, said) = OldPrimary::start(&place);
    assert_eq!((said.as_str(), old.durable("put b")), ("primary 3", 4));
}

fn say(line: impl std::fmt::Display) {
    println!("\nold primary: {line}");
}

async fn primary(store: PathBuf) {
    let kv = open_store(store).await;
    let storage = BatchStorage::open(kv.clone(), keys(), OpenOptions::default()).await.unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let env = WriterEnv { clock: Arc::clone(&clock), entropy: Arc::new(SystemEntropy) };
    let mut follower =
        LegacyFollower::new(LegacyLog::beside(&storage), LegacyReplica::empty(MasterState::new()), clock, 1 << 20);
    while let LegacyRound::Following(progress) = follower.round().await.unwrap() {
        if progress.entries == 0 {
            break;
        }
    }
    let started = LegacyWriter::start(&storage, follower.into_replica(), LegacyWriterConfig::default(), env).await;
    let (state, writer) = match started {
        Ok(started) => started,
        Err(failed) => {
            let LegacyStartFailed { error, .. } = *failed;
            return say(format_args!("refused {error}"));
        }
    };
    let election = keys().old_master_view();
    kv.put(&election, "10.0.0.1:50051".into()).await.unwrap();
    let mut next = oplog_core::StateMachine::last_applied(&state).get();
    say(format_args!("primary {next}"));
    for command in std::io::stdin().lines() {
        let command = command.unwrap();
        let (word, rest) = command.split_once(' ').unwrap_or((&command, ""));
        if word == "stray" {
            stray(&*kv, Seq::new(rest.parse().unwrap())).await;
            continue;
        }
        // One object after the other: no two share a byte.
        let at = 0x7f00_0000_0000 + next * OBJECT_BYTES;
        let (op, key, payload) = match word {
            "mount" => (OpType::SegmentMount, ENDPOINT, encode::mount("seg-old", ENDPOINT, 1 << 30)),
            "put" => (OpType::PutEnd, rest, encode::put_end(7, OBJECT_BYTES, at, ENDPOINT)),
            "remove" => (OpType::Remove, rest, Vec::new()),
            other => panic!("unknown command {other:?}"),
        };
        let entry = NewEntry { op_type: op.number(), tenant: "default", key: key.as_bytes(), payload: &payload };
        match writer.commit(entry) {
            Ok(ticket) => {
                next = ticket.seq().get();
                match ticket.await {
                    oplog_core::Outcome::Durable => say(format_args!("durable {next}")),
                    outcome => say(format_args!("{outcome:?}")),
                }
            }
            Err(error) => say(format_args!("refused {error}")),
        }
    }
    writer.drain(Duration::from_secs(5)).await;
    kv.delete(&election).await.unwrap();
}

/// An entry that no transaction of ours would write: the original's writer cannot be fenced.
async fn stray(kv: &dyn TxnKv, seq: Seq) {
    let payload = encode::put_end(7, OBJECT_BYTES, 0x10_0000, ENDPOINT);
    let new = NewEntry { op_type: 1, tenant: "default", key: b"too-late", payload: &payload };
    let entry = LegacyEntry::new(seq, 0, &new).unwrap();
    kv.put(&keys().legacy_entry(seq), entry.encode()).await.unwrap();
    say(format_args!("put {seq}"));
}
