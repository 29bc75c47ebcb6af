//! Owns the one error of every store. Whether a failed write may have applied is part of it, never left to be guessed.

use std::error::Error;
use std::fmt;

use bytes::Bytes;

/// Whether a failed call changed the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It did not, and never will.
    NotApplied,
    /// It did, did not, or may yet. A timed-out or cut-off write is this, never "temporary".
    Unknown,
}

/// What a caller does about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Try again after a pause.
    Transient,
    /// Report it; trying again succeeds once an operator has cured it.
    Operator,
    /// Trying the same again cannot succeed.
    Permanent,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KvErrorKind {
    /// The store could not be reached, or went away.
    Unavailable,
    /// No answer in time.
    Timeout,
    /// The store asks for a pause.
    Busy,
    /// The store is full.
    NoSpace,
    /// The store does not know or does not trust us.
    Auth,
    /// The store takes no writes.
    ReadOnly,
    /// A value, a transaction or a reply is above a limit.
    TooLarge,
    /// The request makes no sense to the store.
    InvalidArgument,
    /// The store cannot do this at all.
    Unsupported,
    /// The store holds something it cannot read.
    Corrupt,
    /// The store is another one than it was, or was removed.
    WrongStore,
    /// The lease ran out, was revoked, or its key was taken.
    LeaseNotFound,
    /// The client is shut down.
    Closed,
}

impl KvErrorKind {
    /// What a caller does about it.
    #[must_use]
    pub const fn class(self) -> ErrorClass {
        match self {
            Self::Unavailable | Self::Timeout | Self::Busy => ErrorClass::Transient,
            Self::NoSpace | Self::Auth | Self::ReadOnly => ErrorClass::Operator,
            Self::TooLarge
            | Self::InvalidArgument
            | Self::Unsupported
            | Self::Corrupt
            | Self::WrongStore
            | Self::LeaseNotFound
            | Self::Closed => ErrorClass::Permanent,
        }
    }

    /// A short name for metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Busy => "busy",
            Self::NoSpace => "no_space",
            Self::Auth => "auth",
            Self::ReadOnly => "read_only",
            Self::TooLarge => "too_large",
            Self::InvalidArgument => "invalid_argument",
            Self::Unsupported => "unsupported",
            Self::Corrupt => "corrupt",
            Self::WrongStore => "wrong_store",
            Self::LeaseNotFound => "lease_not_found",
            Self::Closed => "closed",
        }
    }
}

/// A store's error: what, whether it may have applied anyway, and where.
#[derive(Debug)]
pub struct KvError {
    /// What went wrong.
    pub kind: KvErrorKind,
    /// Whether the call may have changed the store. Reads say `NotApplied`.
    pub effect: Effect,
    /// The key it was about, where there is one.
    pub key: Option<Bytes>,
    /// What happened and what to do, in one sentence.
    pub message: String,
    /// The error below.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl KvError {
    /// An error with the effect given.
    #[must_use]
    pub fn new(kind: KvErrorKind, effect: Effect, message: impl Into<String>) -> Self {
        Self { kind, effect, key: None, message: message.into(), source: None }
    }

    /// An error of a read: nothing was to be applied.
    #[must_use]
    pub fn read(kind: KvErrorKind, message: impl Into<String>) -> Self {
        Self::new(kind, Effect::NotApplied, message)
    }

    /// The same error, about `key`.
    #[must_use]
    pub fn with_key(mut self, key: &[u8]) -> Self {
        self.key = Some(Bytes::copy_from_slice(key));
        self
    }

    /// The same error, caused by `source`.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What a caller does about it.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        self.kind.class()
    }

    /// Whether the call may have changed the store.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.effect == Effect::Unknown
    }
}

impl fmt::Display for KvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(key) = &self.key {
            write!(f, " (key {})", key.escape_ascii())?;
        }
        match self.effect {
            Effect::NotApplied => Ok(()),
            Effect::Unknown => f.write_str(" [outcome unknown]"),
        }
    }
}

impl Error for KvError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|e| &**e as &(dyn Error + 'static))
    }
}
