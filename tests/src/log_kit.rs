//! Owns what the rows of the log share: a state that remembers every entry, nodes on any store, and a ledger of callbacks.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::{BytesProxy, Direction, eventually};
use async_trait::async_trait;
use ha_kv::test_kit::Detour;
use ha_kv::{KvError, Txn, TxnKv, TxnOutcome};
use ha_types::{AlwaysLeads, ClusterId, SystemClock, SystemEntropy};
use oplog_core::{
    ApplyError, BatchStorage, CaughtUp, EntryRef, LogKeys, NewEntry, OpenOptions, OrderedWriter, Outcome, Replica, Seq,
    StateMachine, Terminal, WriterConfig, WriterEnv, catch_up, claim_and_verify,
};
use parking_lot::Mutex;

/// A state that is the log: sequence and payload of every entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorder {
    /// Sequence and payload.
    pub entries: Vec<(u64, Vec<u8>)>,
}

impl Recorder {
    /// The payloads as text.
    pub fn texts(&self) -> Vec<String> {
        self.entries.iter().map(|(_, payload)| String::from_utf8_lossy(payload).into_owned()).collect()
    }
}

impl StateMachine for Recorder {
    fn last_applied(&self) -> Seq {
        Seq::new(self.entries.last().map_or(0, |(seq, _)| *seq))
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        self.entries.push((entry.seq.get(), entry.payload.to_vec()));
        Ok(())
    }
}

/// The cluster that the rows are about.
pub fn cluster() -> ClusterId {
    ClusterId::new("rows").expect("a valid id")
}

/// The system's clock and randomness.
pub fn env() -> WriterEnv {
    WriterEnv { clock: Arc::new(SystemClock::new()), entropy: Arc::new(SystemEntropy) }
}

/// Opens the log over `kv`.
pub async fn open(kv: Arc<dyn TxnKv>) -> BatchStorage {
    BatchStorage::open(kv, LogKeys::of(&cluster()), OpenOptions::default()).await.expect("the log opens")
}

/// Opens the log over `kv`, makes its first prefix if there is none, catches up and claims it.
pub async fn claim(kv: Arc<dyn TxnKv>) -> CaughtUp<Recorder> {
    let storage = open(kv).await;
    storage.create_first_prefix().await.expect("the first prefix is there");
    let (replica, env) = (Replica::empty(Recorder::default()), env());
    let pause = Duration::from_millis(20);
    claim_and_verify(storage, replica, &AlwaysLeads, &*env.clock, &*env.entropy, pause)
        .await
        .expect("the log is claimed")
}

/// Claims the log and starts a writer on it.
pub async fn lead(kv: Arc<dyn TxnKv>) -> (Recorder, OrderedWriter) {
    let (state, log) = claim(kv).await.into_parts();
    let writer = OrderedWriter::start(log, WriterConfig::default(), env()).map_err(|(_, why)| why).expect("a writer");
    (state, writer)
}

/// What a fresh follower makes of the log, read to the prefix.
pub async fn fold(kv: Arc<dyn TxnKv>) -> Recorder {
    let storage = open(kv).await;
    let prefix = storage.require_prefix().await.expect("the log has a prefix");
    let mut replica = Replica::empty(Recorder::default());
    catch_up(&storage, &mut replica, &prefix, 4 << 20).await.expect("the log is whole");
    assert_eq!(replica.applied(), prefix.last_seq);
    replica.into_machine()
}

/// Every callback in the order in which it came.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Vec<(u64, Outcome)>>>);

impl Ledger {
    /// Commits an entry whose payload is `text`; its callback goes into the ledger.
    pub async fn commit(&self, writer: &OrderedWriter, text: &str) -> u64 {
        let reservation = writer.ready().await.expect("a slot");
        self.commit_reserved(reservation, text)
    }

    /// The same with a slot that is there already.
    pub fn commit_reserved(&self, reservation: oplog_core::Reservation, text: &str) -> u64 {
        let ledger = self.clone();
        let note = move |seq: Seq, outcome| ledger.0.lock().push((seq.get(), outcome));
        reservation.commit_with(entry(text.as_bytes()), note).expect("the entry is taken").get()
    }

    /// The callbacks so far.
    pub fn seen(&self) -> Vec<(u64, Outcome)> {
        self.0.lock().clone()
    }

    /// Waits for that many callbacks and gives all there are.
    pub async fn wait_for(&self, count: usize) -> Vec<(u64, Outcome)> {
        let enough = async {
            while self.seen().len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), enough).await;
        assert!(waited.is_ok(), "{count} callbacks did not come: {:?}", self.seen());
        self.seen()
    }
}

/// An entry with this payload.
pub fn entry(payload: &[u8]) -> NewEntry<'_> {
    NewEntry { op_type: 1, tenant: "default", key: b"key", payload }
}

/// Callbacks that say durable, for these sequences.
pub fn durable(seqs: impl IntoIterator<Item = u64>) -> Vec<(u64, Outcome)> {
    seqs.into_iter().map(|seq| (seq, Outcome::Durable)).collect()
}

/// Waits until the writer ends and says how.
pub async fn ended(writer: &OrderedWriter) -> Terminal {
    let mut status = writer.status();
    let waited = tokio::time::timeout(Duration::from_secs(60), status.wait_for(|s| s.terminal.is_some())).await;
    let status = waited.expect("the writer ends in time").expect("the status is there");
    status.terminal.clone().expect("waited for")
}

/// Waits until a request is held as a whole, which is when no more bytes come, and says how many there are.
pub async fn held_request(proxy: &BytesProxy) -> usize {
    let (mut before, mut alike) = (0, 0);
    eventually("a request is held", async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = proxy.held_bytes(Direction::ToServer);
        alike = if now > 0 && now == before { alike + 1 } else { 0 };
        before = now;
        // Once could be a pause of the machine in the middle of the request.
        (alike >= 3).then_some(now)
    })
    .await
}

/// What happens before a transaction.
pub type Happening = Pin<Box<dyn Future<Output = ()> + Send>>;
type BeforeTxn = Box<dyn FnOnce() -> Happening + Send>;

/// A store that lets something happen just before one transaction is sent.
pub struct Interrupted {
    store: Arc<dyn TxnKv>,
    before_txn: Mutex<Option<BeforeTxn>>,
}

impl Interrupted {
    /// Wraps `store`.
    pub fn new(store: Arc<dyn TxnKv>) -> Arc<Self> {
        Arc::new(Self { store, before_txn: Mutex::new(None) })
    }

    /// What happens before the next transaction, once.
    pub fn before_txn(&self, hook: impl FnOnce() -> Happening + Send + 'static) {
        *self.before_txn.lock() = Some(Box::new(hook));
    }
}

#[async_trait]
impl Detour for Interrupted {
    fn store(&self) -> &dyn TxnKv {
        &*self.store
    }

    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError> {
        let hook = self.before_txn.lock().take();
        if let Some(hook) = hook {
            hook().await;
        }
        self.store().txn(txn).await
    }
}

impl fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupted").field("store", &self.store).finish_non_exhaustive()
    }
}
