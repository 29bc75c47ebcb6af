//! Owns the progress bar of the replay, and the state machine that moves it. Where there is no terminal nothing is drawn.

use indicatif::{ProgressBar, ProgressStyle};
use oplog_core::{ApplyError, EntryRef, Seq, StateMachine};

/// The bar.
#[derive(Clone, Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar, or none where a program reads the output.
    pub(super) fn new(hidden: bool) -> Self {
        let bar = if hidden { ProgressBar::hidden() } else { ProgressBar::no_length() };
        let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}");
        Self(style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style)))
    }

    /// A replay begins, of so many entries if all is as it seems.
    pub(super) fn replaying(&self, entries: Option<Seq>) {
        self.0.reset();
        self.0.set_message("replaying the legacy log");
        match entries {
            Some(entries) => self.0.set_length(entries.get()),
            None => self.0.unset_length(),
        }
    }

    pub(super) fn end(&self) {
        self.0.finish_and_clear();
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
        let bar = &self.progress.0;
        bar.inc(1);
        if bar.length() == Some(seq.get()) {
            bar.set_message("watching that the old primary is quiet");
        }
        Ok(())
    }

    fn pass_hole(&mut self, through: Seq) -> Result<(), ApplyError> {
        self.inner.pass_hole(through)?;
        self.progress.0.set_position(through.get());
        Ok(())
    }
}
