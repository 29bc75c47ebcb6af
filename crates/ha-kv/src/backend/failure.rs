//! Owns the shape of what a server's errors mean, for the backends that speak to one. It knows no error; each of those backends has
//! the one table of its own.

use std::error::Error as StdError;

use crate::{Effect, KvError, KvErrorKind};

/// Whether a call was to change the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Access {
    /// A read changes nothing, whatever became of it.
    pub(super) fn effect(self, on_write: Effect) -> Effect {
        match self {
            Self::Read => Effect::NotApplied,
            Self::Write => on_write,
        }
    }
}

/// A failure with what the backend does about it before its next call.
#[derive(Debug)]
pub(super) struct Failure<F> {
    pub(super) error: KvError,
    pub(super) follow_up: F,
}

impl<F> Failure<F> {
    pub(super) fn new(kind: KvErrorKind, effect: Effect, follow_up: F, message: String) -> Self {
        Self { error: KvError::new(kind, effect, message), follow_up }
    }

    /// The same failure, about `key`.
    #[cfg(feature = "redis")]
    pub(super) fn with_key(mut self, key: &[u8]) -> Self {
        self.error = self.error.with_key(key);
        self
    }

    pub(super) fn caused_by(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.error = self.error.with_source(source);
        self
    }
}

/// One meaning, found by what the server says in code (`N`) and by its words.
pub(super) struct Row<N, F> {
    pub(super) native: N,
    /// Part of the server's text; empty matches all.
    pub(super) text: &'static str,
    pub(super) kind: KvErrorKind,
    pub(super) effect: Effect,
    pub(super) follow_up: F,
    /// The remedy, or empty where the server's text says it all.
    remedy: &'static str,
}

/// A row, in one line of a table.
pub(super) const fn row<N: Copy, F: Copy>(
    native: N,
    text: &'static str,
    kind: KvErrorKind,
    effect: Effect,
    follow_up: F,
    remedy: &'static str,
) -> Row<N, F> {
    Row { native, text, kind, effect, follow_up, remedy }
}

impl<N, F: Copy> Row<N, F> {
    /// What `server`, by product and address, said in `text`.
    pub(super) fn failure(&self, access: Access, server: &str, text: &str) -> Failure<F> {
        let message = match self.remedy {
            "" => format!("{server}: {text}"),
            remedy => format!("{server}: {text}; {remedy}"),
        };
        Failure::new(self.kind, access.effect(self.effect), self.follow_up, message)
    }
}
