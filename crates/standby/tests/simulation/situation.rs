//! Owns the names of what must occur in a simulation.

macro_rules! situations {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What occurred.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Situation {
            $($(#[$doc])* $name,)*
        }

        impl Situation {
            /// Every one of them is required.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

situations! {
    /// The first prefix was created.
    FirstPrefix,
    /// A promotion that had nothing to catch up.
    PromotedAtLagZero,
    /// A promotion that caught up first.
    PromotedFromBehind,
    /// A promotion over a log with entries of an earlier primary.
    PromotedOverEntries,
    /// A promotion refused because the store failed.
    RefusedByStore,
    /// A promotion refused because leadership ended.
    RefusedWithoutLeadership,
    /// A promotion refused because another node claimed.
    RefusedSuperseded,
    /// A leader lost its lease by its own clock.
    LeaseExpired,
    /// A leader was told that its lease is gone.
    LeaseLost,
    /// A leader resigned.
    Resigned,
    /// A leader stopped because the store was silent to its writer.
    StoreSilent,
    /// A primary died.
    PrimaryDied,
    /// A standby died.
    StandbyDied,
    /// A writer met a newer epoch.
    WriterFenced,
    /// A transaction of an older epoch arrived after a newer claim and was refused.
    LateWriteRefused,
    /// An entry was reported durable.
    Durable,
    /// An entry was reported never durable.
    Never,
    /// An entry was reported unknown.
    Unknown,
    /// An entry reported unknown is in the log.
    UnknownIsThere,
    /// An entry reported unknown is not in the log.
    UnknownIsNot,
    /// A round of a standby failed at the store and went on later.
    FollowedOn,
}
