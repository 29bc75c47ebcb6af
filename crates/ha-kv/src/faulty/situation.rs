//! Owns the names of what happened, so that a simulation can fail when something never did.

/// Something that befell a call, counted when it really happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Situation {
    /// A call was delayed.
    Delayed,
    /// A call was refused before it applied.
    FailedBefore,
    /// A request was lost; the client was told *unknown*.
    RequestLost,
    /// A write applied and the reply was lost.
    ReplyLost,
    /// A client gave up on a request that was still on its way.
    AppliedLater,
    /// Such a request arrived and applied.
    LandedApplied,
    /// Such a request arrived and was refused, by its compares or by the store.
    LandedRefused,
    /// The second arrival of a request was refused.
    DuplicateRefused,
    /// The second arrival of a request applied, too.
    DuplicateApplied,
    /// A request was held before the store and released.
    RequestHeld,
    /// A reply was held and released.
    ReplyHeld,
    /// A request was cut by a partition.
    RequestCut,
    /// A reply was cut by a partition.
    ReplyCut,
    /// A hint was lost.
    HintLost,
    /// The server's real limit refused a request.
    TooLarge,
    /// The full server refused a request.
    NoSpace,
}
