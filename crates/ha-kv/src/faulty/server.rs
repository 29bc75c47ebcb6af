//! Owns the far side: the store, what its server refuses, and who watches it work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use ha_types::Entropy;
use parking_lot::{Mutex, RwLock};

use super::{Op, Situation, Stage};
use crate::{Effect, KvError, KvErrorKind, LeaseKv, TxnKv, WatchKv};

pub(super) type Observer = Arc<dyn Fn(&Op, Stage) + Send + Sync>;

/// What a server really takes, in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Keys and values of one request together, in bytes.
    pub request_bytes: usize,
    /// Compares, or puts and deletes, of one transaction.
    pub txn_ops: usize,
}

impl ServerLimits {
    /// No limits beyond the store's own.
    pub const NONE: Self = Self { request_bytes: usize::MAX, txn_ops: usize::MAX };
}

/// The store and its server.
pub(super) struct Server {
    pub(super) store: Arc<dyn TxnKv>,
    pub(super) lease: Option<Arc<dyn LeaseKv>>,
    pub(super) watch: Option<Arc<dyn WatchKv>>,
    pub(super) limits: RwLock<ServerLimits>,
    pub(super) observers: RwLock<Vec<Observer>>,
    pub(super) occurred: Mutex<BTreeMap<Situation, u64>>,
    full: AtomicBool,
    lose_hint: AtomicU16,
}

impl Server {
    pub(super) fn new(store: Arc<dyn TxnKv>, lease: Option<Arc<dyn LeaseKv>>, watch: Option<Arc<dyn WatchKv>>) -> Self {
        Self {
            store,
            lease,
            watch,
            limits: RwLock::new(ServerLimits::NONE),
            observers: RwLock::default(),
            occurred: Mutex::default(),
            full: AtomicBool::new(false),
            lose_hint: AtomicU16::new(0),
        }
    }

    pub(super) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    pub(super) fn set_lose_hint(&self, per_mille: u16) {
        self.lose_hint.store(per_mille, Ordering::SeqCst);
    }

    pub(super) fn loses_hint(&self, dice: &dyn Entropy) -> bool {
        dice.next_u64() % 1000 < u64::from(self.lose_hint.load(Ordering::SeqCst))
    }

    pub(super) fn note(&self, situation: Situation) {
        *self.occurred.lock().entry(situation).or_default() += 1;
    }

    pub(super) fn show(&self, op: &Op, stage: Stage) {
        // Cloned, so that an observer may add another without a deadlock.
        let observers = self.observers.read().clone();
        for observer in &observers {
            observer(op, stage);
        }
    }

    /// What the server refuses before the store sees it.
    pub(super) fn admit(&self, op: &Op) -> Result<(), KvError> {
        let limits = *self.limits.read();
        let bytes = op.bytes();
        if bytes > limits.request_bytes {
            self.note(Situation::TooLarge);
            return Err(KvError::new(
                KvErrorKind::TooLarge,
                Effect::NotApplied,
                format!(
                    "the request of {bytes} bytes is above the server's limit of {}; send less at once",
                    limits.request_bytes
                ),
            ));
        }
        if let Op::Txn(txn) = op
            && txn.ops() > limits.txn_ops
        {
            self.note(Situation::TooLarge);
            return Err(KvError::new(
                KvErrorKind::TooLarge,
                Effect::NotApplied,
                format!(
                    "the transaction of {} operations is above the server's limit of {}",
                    txn.ops(),
                    limits.txn_ops
                ),
            ));
        }
        if op.needs_space() && self.full.load(Ordering::SeqCst) {
            self.note(Situation::NoSpace);
            return Err(KvError::new(
                KvErrorKind::NoSpace,
                Effect::NotApplied,
                "the store is full; delete what is not needed, or give it more space",
            ));
        }
        Ok(())
    }
}
