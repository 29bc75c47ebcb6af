//! Owns the faults that can befall one call. It does not decide when they do; scripts and plans do that.

use std::time::Duration;

use crate::KvErrorKind;

/// What befalls one call on its way to the store and back.
///
/// On a read the faults that lose something are plain errors: there is nothing to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None: the call passes. In a script it skips one call.
    Pass,
    /// The request travels for so long, then the call goes on as if nothing had happened.
    Delay(Duration),
    /// Refused before it applied; the client is told so: `NotApplied`.
    FailBefore(KvErrorKind),
    /// The request is lost on its way and never applies; the client cannot know: `Unknown`.
    LoseRequest(KvErrorKind),
    /// It applies and the reply is lost: `Unknown`.
    FailAfter(KvErrorKind),
    /// The client gives up now (`Timeout`, `Unknown`); the request applies later: after `Some` time by itself, or with `None`
    /// when the test calls [`land_held`](super::FaultyKv::land_held).
    ApplyLater(Option<Duration>),
    /// The store receives it twice; the client sees the first answer. A second arrival that still applies is counted as
    /// [`DuplicateApplied`](super::Situation::DuplicateApplied).
    Duplicate,
    /// It stops *before* it reaches the store until [`release`](super::FaultyKv::release), then goes on as if nothing had
    /// happened: a client paused between the decision to send and the sending.
    HoldRequest,
    /// It applies, and its reply does not come until [`release`](super::FaultyKv::release).
    HoldReply,
}
