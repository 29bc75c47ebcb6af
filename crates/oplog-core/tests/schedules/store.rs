//! Owns the store of the schedules: memory behind a task of its own for each transaction, so that an answer comes when the
//! schedule says, and may be lost, late or a refusal. It checks that one transaction is in flight at a time (L8).

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use ha_kv::test_kit::Detour;
use ha_kv::{Effect, KvError, KvErrorKind, MemoryKv, Txn, TxnKv, TxnOutcome};
use parking_lot::Mutex;
use shuttle::future::{spawn, yield_now};
use tokio::sync::oneshot;

/// What happens to one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Applied, and said so.
    Answered,
    /// Applied, and the answer is lost.
    ReplyLost,
    /// Not applied, and nobody can tell.
    NeverArrived,
    /// Nobody can tell, and it lands some time later.
    Late,
    /// Refused, certainly not applied.
    Refused,
}

/// The store, shared by all who look at it.
pub(crate) struct Store {
    pub(crate) memory: Arc<MemoryKv>,
    /// Fates of the next transactions; then all are answered.
    pub(crate) fates: Mutex<VecDeque<Fate>>,
    flying: AtomicBool,
    txns: AtomicUsize,
}

impl Store {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            memory: Arc::new(MemoryKv::new()),
            fates: Mutex::default(),
            flying: AtomicBool::new(false),
            txns: AtomicUsize::new(0),
        })
    }

    /// Whether a transaction is in flight now.
    pub(crate) fn is_flying(&self) -> bool {
        self.flying.load(Ordering::SeqCst)
    }

    /// Transactions that came so far.
    pub(crate) fn txns(&self) -> usize {
        self.txns.load(Ordering::SeqCst)
    }
}

/// A transaction in flight.
struct Flight<'a>(&'a AtomicBool);

impl<'a> Flight<'a> {
    fn begin(flying: &'a AtomicBool) -> Self {
        assert!(!flying.swap(true, Ordering::SeqCst), "L8: two transactions are in flight");
        Self(flying)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[async_trait]
impl Detour for Store {
    fn store(&self) -> &dyn TxnKv {
        &*self.memory
    }

    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError> {
        let _flight = Flight::begin(&self.flying);
        self.txns.fetch_add(1, Ordering::SeqCst);
        let fate = self.fates.lock().pop_front().unwrap_or(Fate::Answered);
        let (tell, told) = oneshot::channel();
        let (memory, txn) = (Arc::clone(&self.memory), txn.clone());
        spawn(async move {
            yield_now().await;
            let lost = |why: &str| KvError::new(KvErrorKind::Timeout, Effect::Unknown, why);
            let answer = match fate {
                Fate::Answered => memory.txn(&txn).await,
                Fate::ReplyLost => memory.txn(&txn).await.and(Err(lost("the answer was lost"))),
                Fate::NeverArrived => Err(lost("the request was lost")),
                Fate::Refused => Err(KvError::new(KvErrorKind::Busy, Effect::NotApplied, "not now")),
                Fate::Late => {
                    drop(tell.send(Err(lost("no answer yet"))));
                    yield_now().await;
                    yield_now().await;
                    drop(memory.txn(&txn).await);
                    return;
                }
            };
            yield_now().await;
            // Whoever asked may have gone.
            drop(tell.send(answer));
        });
        told.await.expect("the store's task answers")
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        yield_now().await;
        self.store().get(key).await
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("flying", &self.is_flying()).finish_non_exhaustive()
    }
}
