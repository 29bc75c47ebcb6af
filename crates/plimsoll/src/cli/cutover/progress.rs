//! Owns the progress bar of the replay, and the state machine that moves it. Where there is no terminal nothing is drawn.

use indicatif::ProgressBar;
use oplog_core::{ApplyError, EntryRef, Seq, StateMachine};

use crate::cli::bar::bar;

/// The bar.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    /// Whether the old primary is watched once all is replayed.
    watches: bool,
}

impl Progress {
    /// A bar, or none beside JSON.
    pub(super) fn new(json: bool, watches: bool) -> Self {
        Self { bar: bar("{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}", json), watches }
    }

    /// A replay begins, of so many entries if all is as it seems.
    pub(super) fn replaying(&self, entries: Option<Seq>) {
        self.bar.reset();
        self.bar.set_message("replaying the legacy log");
        match entries {
            Some(entries) => self.bar.set_length(entries.get()),
            None => self.bar.unset_length(),
        }
    }

    /// The same replay once more, from its beginning.
    pub(super) fn replaying_again(&self) {
        self.bar.set_position(0);
        self.bar.set_message("a doubtful reading; replaying the legacy log again");
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// A state machine that shows how far it is.
#[derive(Debug)]
pub(super) struct Watched<S> {
    inner: S,
    progress: Progress,
}

impl<S> Watched<S> {
    pub(super) fn new(inner: S, progress: Progress) -> Self {
        Self { inner, progress }
    }
}

impl<S: StateMachine> StateMachine for Watched<S> {
    fn last_applied(&self) -> Seq {
        self.inner.last_applied()
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        let seq = entry.seq;
        self.inner.apply(entry)?;
        let bar = &self.progress.bar;
        bar.inc(1);
        if self.progress.watches && bar.length() == Some(seq.get()) {
            bar.set_message("watching that the old primary is quiet");
        }
        Ok(())
    }

    fn pass_hole(&mut self, through: Seq) -> Result<(), ApplyError> {
        self.inner.pass_hole(through)?;
        self.progress.bar.set_position(through.get());
        Ok(())
    }
}
