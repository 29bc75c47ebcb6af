//! Owns the shape of one line of a ledger: JSON, one object a line, readable by a person.

use serde::{Deserialize, Serialize};

use super::Incarnation;

/// One line. The two lines of a call share `op`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// Number of the call in its process, from 1.
    pub(crate) op: u64,
    /// The host's monotonic clock, in nanoseconds: the same clock in every process.
    pub(crate) at_ns: u64,
    /// What happened.
    pub(crate) event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Event {
    /// The call is about to be sent.
    Sent(Call),
    /// Its reply came, or will never come.
    Answered(Answer),
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Call {
    PutStart { key: String },
    PutEnd { key: String, incarnation: Incarnation, promise: Promise },
    Remove { key: String, incarnation: Incarnation, promise: Promise },
    Get { key: String },
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Promise {
    Durable,
    Accepted,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The change is durable: the server said so.
    Durable,
    /// The change may be lost.
    Accepted,
    /// A put was started.
    Granted(Incarnation),
    /// There is an object, and it is this one.
    Found(Incarnation),
    /// There is no readable object.
    Absent,
    /// Nothing was done, now or later.
    Refused(String),
    /// Nobody can say.
    Cut(String),
}

impl Call {
    /// The key that it is about.
    pub(crate) fn key(&self) -> &str {
        match self {
            Self::PutStart { key } | Self::PutEnd { key, .. } | Self::Remove { key, .. } | Self::Get { key } => key,
        }
    }

    /// Whether it changes what the log says.
    pub(crate) const fn is_change(&self) -> bool {
        matches!(self, Self::PutEnd { .. } | Self::Remove { .. })
    }
}
