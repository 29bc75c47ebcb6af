//! Owns what the intent file says while the store runs: which rounds are in it, and every replacement of it. It must not decide about
//! rounds.

use crate::crashsafe::{self, Attempt};
use crate::error::StoreError;
use crate::format::intent::{Intents, Round};
use crate::format::names::{BucketId, GC_INTENT};
use crate::store::Store;

/// A committed round whose files are not all gone, or which may still be in the file.
#[derive(Clone, Debug)]
pub(super) struct OpenRound {
    /// Names it among the open rounds; never used twice.
    pub(super) number: u64,
    /// The buckets that go.
    pub(super) sources: Vec<BucketId>,
    /// The bucket that replaces them; `None` once that one is on its way out itself.
    pub(super) target: Option<BucketId>,
    /// Blocks of the sources' data files.
    pub(super) allocated_bytes: u64,
    /// Whether their files were taken away for certain.
    pub(super) unlinked: bool,
    /// Whether taking them away has failed before.
    pub(super) attempt: Attempt,
}

/// The rounds that are open. In memory it is always what the file should say; each successful publish makes all of it so.
#[derive(Debug)]
pub(super) struct IntentFile {
    pub(super) open: Vec<OpenRound>,
    /// The round that has begun, PREPARED or being committed: it stays in the file, whoever else publishes it, until it is committed for
    /// certain or its target is gone for certain.
    pub(super) under_way: Option<Round>,
    /// There may be a file of that name.
    may_exist: bool,
    /// The last removal of it failed.
    removal_failed: bool,
    rounds_begun: u64,
}

impl IntentFile {
    /// After recovery there is no intent file.
    pub(super) fn new() -> Self {
        Self { open: Vec::new(), under_way: None, may_exist: false, removal_failed: false, rounds_begun: 0 }
    }

    /// Takes up a committed round.
    pub(super) fn add(&mut self, sources: Vec<BucketId>, target: Option<BucketId>, allocated_bytes: u64) {
        self.rounds_begun += 1;
        let number = self.rounds_begun;
        let round = OpenRound { number, sources, target, allocated_bytes, unlinked: false, attempt: Attempt::First };
        self.open.push(round);
    }

    /// Before a target of an open round is merged, evicted or removed itself, its round no longer names it: the next publish, which is
    /// the one that begins its end, makes that durable.
    pub(super) fn release(&mut self, leaving: &[BucketId]) {
        for round in &mut self.open {
            round.target = round.target.filter(|target| !leaving.contains(target));
        }
    }

    /// Bytes of the file with one more round in it: at most this.
    pub(super) fn bytes_with_one_more(&self) -> u64 {
        let round = |sources: usize| 2 + 8 * (sources as u64 + 1);
        64 + self.open.iter().map(|open| round(open.sources.len())).sum::<u64>()
            + round(crate::format::intent::MAX_SOURCES)
    }

    /// Makes the file say what is open, and what is under way behind it.
    pub(super) fn publish(&mut self, store: &Store) -> Result<(), StoreError> {
        let open =
            self.open.iter().map(|round| Round::Committed { sources: round.sources.clone(), target: round.target });
        let rounds: Vec<_> = open.chain(self.under_way.clone()).collect();
        if rounds.is_empty() {
            return self.remove(store);
        }
        self.may_exist = true;
        let bytes = Intents { rounds }.encode().map_err(|error| StoreError::unwritable(GC_INTENT, error))?;
        store.publish_intents(GC_INTENT, &bytes)
    }

    fn remove(&mut self, store: &Store) -> Result<(), StoreError> {
        if !self.may_exist {
            return Ok(());
        }
        // What was unlinked and may come back is first replaced by a file that says the same: an empty one, as a repeated removal makes
        // it, would say nothing, and a power loss could leave it.
        if self.removal_failed {
            let nothing = Intents { rounds: Vec::new() };
            let bytes = nothing.encode().map_err(|error| StoreError::unwritable(GC_INTENT, error))?;
            store.publish_intents(GC_INTENT, &bytes)?;
        }
        let removed = crashsafe::remove(&*store.vfs, &[GC_INTENT], Attempt::First).map_err(StoreError::from);
        self.removal_failed = removed.is_err();
        self.may_exist = removed.is_err();
        removed
    }
}
