//! The writer on a real SQLite file that is full or taken away: the reason shows, it recovers alone,
//! and the log is as it must be (W7 on the embedded backend).

use std::sync::Arc;
use std::time::Duration;

use ha_kv::{Effect, Kv, KvErrorKind, SqliteKv, SqliteOptions};
use ha_types::AlwaysLeads;
use oplog_core::{
    BatchStorage, Closed, OpenOptions, OrderedWriter, Outcome, Replica, Terminal, WriterConfig, WriterEnv, catch_up,
    claim_and_verify,
};

use crate::support::{Log, Payloads, entry};

struct File {
    directory: tempfile::TempDir,
    kv: Arc<SqliteKv>,
    writer: OrderedWriter,
}

fn env() -> WriterEnv {
    let (clock, entropy) = (Arc::new(ha_types::SystemClock::new()), Arc::new(ha_types::SystemEntropy));
    WriterEnv { clock, entropy }
}

async fn open(kv: Arc<SqliteKv>) -> BatchStorage {
    let options = OpenOptions { accept_lost_writes: true, max_batch_bytes: 60 << 10 };
    BatchStorage::open(kv, Log::keys(), options).await.expect("the log opens")
}

impl File {
    async fn new(configure: impl FnOnce(&mut SqliteOptions)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut options = SqliteOptions::new(directory.path().join("log.db"));
        options.busy_timeout = Duration::from_millis(20);
        configure(&mut options);
        let WriterEnv { clock, entropy } = env();
        let kv = Arc::new(SqliteKv::open(options, clock.clone(), entropy.clone()).await.expect("the file opens"));
        let storage = open(kv.clone()).await;
        storage.create_first_prefix().await.expect("a fresh log");
        let replica = Replica::empty(Payloads::default());
        let pause = Duration::from_millis(5);
        let claim =
            claim_and_verify(storage, replica, &AlwaysLeads, &*clock, &*entropy, pause).await.expect("the claim");
        let config = WriterConfig { oplog_batch_max_bytes: 60 << 10, ..WriterConfig::default() };
        let writer = OrderedWriter::start(claim.into_parts().1, config, env()).expect("the writer starts");
        Self { directory, kv, writer }
    }

    async fn closed(&self, wanted: KvErrorKind) {
        let mut status = self.writer.status();
        let closed = status.wait_for(|s| s.closed == Some(Closed::Store(wanted)) || s.terminal.is_some());
        let status =
            tokio::time::timeout(Duration::from_secs(60), closed).await.expect("it shows").expect("a writer").clone();
        assert_eq!(status.terminal, None, "{status:?}");
        assert!(self.writer.reserve().is_err());
    }

    async fn fold(&self) -> Vec<Vec<u8>> {
        let storage = open(self.kv.clone()).await;
        let mut replica = Replica::empty(Payloads::default());
        let prefix = storage.require_prefix().await.expect("a prefix");
        catch_up(&storage, &mut replica, &prefix, 1 << 20).await.expect("the log reads");
        replica.machine().0.clone()
    }
}

#[tokio::test]
async fn w7_a_full_sqlite_file_closes_admission_and_the_log_recovers_alone() {
    let file = File::new(|options| options.max_file_bytes = Some(1 << 20)).await;
    for n in 0..8 {
        file.kv.put(format!("other/{n}").as_bytes(), vec![7; 50 << 10].into()).await.expect("put");
    }
    let payload = |n: usize| [&n.to_le_bytes()[..], &[7; 40 << 10]].concat();
    let mut tickets = Vec::new();
    let mut status = file.writer.status();
    while let Ok(slot) = file.writer.reserve() {
        let ticket = slot.commit(entry(&payload(tickets.len()))).expect("committed");
        tickets.push(ticket);
        assert!(tickets.len() < 100, "the limit of the file is not kept");
        while tickets.last().is_some_and(|t| t.outcome().is_none()) && status.borrow_and_update().accepting {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    file.closed(KvErrorKind::NoSpace).await;
    let durable = tickets.iter().filter(|t| t.outcome() == Some(Outcome::Durable)).count();
    assert_eq!((durable, file.fold().await.len()), (tickets.len() - 1, durable), "reads go on");
    assert_eq!(file.kv.delete_range(b"other/", b"other0").await.expect("deletes go on"), 8);
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    let mut status = file.writer.status();
    status.wait_for(|s| s.accepting).await.expect("a writer");
    assert_eq!(
        file.writer.reserve().expect("open").commit(entry(b"after")).expect("committed").await,
        Outcome::Durable
    );
    let log = file.fold().await;
    assert_eq!(log.len(), durable + 2);
    assert!(log[..=durable].iter().enumerate().all(|(n, stored)| *stored == payload(n)), "no hole, in order");
}

/// The file is taken away under the writer: that is another store, and no retry finds the old one.
#[tokio::test]
async fn a_sqlite_file_that_is_replaced_ends_the_writer_as_corrupt() {
    let file = File::new(|_| {}).await;
    assert_eq!(file.writer.reserve().expect("open").commit(entry(b"1")).expect("committed").await, Outcome::Durable);
    let (slot, path) = (file.writer.reserve().expect("open"), file.directory.path().join("log.db"));
    std::fs::rename(&path, file.directory.path().join("away.db")).expect("moved");
    assert_eq!(slot.commit(entry(b"2")).expect("committed").await, Outcome::Never);
    let terminal = file.writer.status().borrow().terminal.clone();
    assert!(matches!(terminal, Some(Terminal::Corrupt { .. })), "{terminal:?}");
    let error = file.kv.get(b"k").await.expect_err("another store");
    assert_eq!((error.kind, error.effect), (KvErrorKind::WrongStore, Effect::NotApplied));
}
