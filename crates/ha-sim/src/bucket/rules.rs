//! Owns the list of steps that make the store crash-safe, each of which is removed in turn. What the removal does to the disk is
//! `weakened`'s.

/// A step that is left out, or done at the wrong time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The sync of this file's content.
    DataSync(File),
    /// The sync of the directory after this change of names.
    DirSync(Change),
    /// Two steps the other way round.
    Order(Order),
    /// What is done differently after a failure.
    Failure(Failure),
    /// What a file says.
    Said(Said),
}

/// What a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Said {
    /// That an object was deleted, and not only replaced.
    Deleted,
}

/// A file by its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum File {
    /// Data of a bucket that a write made.
    Data,
    /// The same, where it was left for later: what a publish of pending data syncs.
    PendingData,
    /// Data of a bucket that GC made.
    TargetData,
    /// The temporary file of a table.
    Table,
    /// The temporary file of the intents.
    Intent,
    /// The temporary file of the high-water mark.
    HighWater,
    /// The temporary file of the marker.
    Marker,
    /// The temporary file of the graves.
    Graves,
}

/// A change of names by its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// A table is replaced.
    Table,
    /// The intents are replaced.
    Intent,
    /// The intent file is taken away.
    IntentGone,
    /// The high-water mark is replaced.
    HighWater,
    /// The marker is put in place.
    Marker,
    /// The graves are replaced.
    Graves,
    /// Files of a bucket are taken away.
    BucketGone,
    /// The reserve is taken away.
    ReserveGone,
    /// A written bucket's data file was created.
    DataCreated,
    /// The target's data file was created.
    TargetCreated,
    /// A data file's name was changed and changed back, since a sync had failed.
    Renewed,
    /// None: the first sync of an open.
    NothingYet,
}

/// Two steps the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// A bucket's data is synced only after its table is published.
    TableBeforeData,
    /// The target's table is published only after COMMITTED.
    CommittedBeforeTable,
    /// PREPARED is published only after the target's table.
    TableBeforePrepared,
    /// The sources are unlinked before COMMITTED is published.
    UnlinkBeforeCommitted,
    /// The intents are taken away before the files that they name.
    ClearBeforeUnlink,
    /// What goes is noted only after COMMITTED.
    CommittedBeforeGraves,
    /// The high-water mark is not raised before numbers are used, but never.
    NumbersBeforeMark,
    /// A round still names its target when that is replaced or removed itself.
    TargetBeforeRound,
}

/// What is done differently after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// A data sync that failed is asked again on the same descriptor, and believed.
    DataSyncAgain,
    /// A sync of the directory that failed is asked again without making the changes anew, and believed.
    DirSyncAgain,
    /// A name that was put in place anew after a failed sync is not synced.
    RenewedSync,
    /// Data that is written anew, since its sync failed, is not synced.
    AnewSync,
    /// The same, where its sync was left for later.
    PendingAnewSync,
    /// A removal that failed is repeated without creating the names anew.
    RemoveAgain,
}

impl Rule {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::DataSync(File::Data),
        Self::DataSync(File::PendingData),
        Self::DataSync(File::TargetData),
        Self::DataSync(File::Table),
        Self::DataSync(File::Intent),
        Self::DataSync(File::HighWater),
        Self::DataSync(File::Marker),
        Self::DataSync(File::Graves),
        Self::DirSync(Change::Table),
        Self::DirSync(Change::Intent),
        Self::DirSync(Change::IntentGone),
        Self::DirSync(Change::HighWater),
        Self::DirSync(Change::Marker),
        Self::DirSync(Change::Graves),
        Self::DirSync(Change::BucketGone),
        Self::DirSync(Change::ReserveGone),
        Self::DirSync(Change::DataCreated),
        Self::DirSync(Change::TargetCreated),
        Self::DirSync(Change::NothingYet),
        Self::Order(Order::TableBeforeData),
        Self::Order(Order::CommittedBeforeTable),
        Self::Order(Order::TableBeforePrepared),
        Self::Order(Order::UnlinkBeforeCommitted),
        Self::Order(Order::ClearBeforeUnlink),
        Self::Order(Order::CommittedBeforeGraves),
        Self::Order(Order::NumbersBeforeMark),
        Self::Order(Order::TargetBeforeRound),
        Self::Failure(Failure::DataSyncAgain),
        Self::Failure(Failure::DirSyncAgain),
        Self::Failure(Failure::RenewedSync),
        Self::Failure(Failure::AnewSync),
        Self::Failure(Failure::PendingAnewSync),
        Self::Failure(Failure::RemoveAgain),
        Self::Said(Said::Deleted),
    ];

    /// What is removed.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::DataSync(File::Data) => "a written bucket's data is synced",
            Self::DataSync(File::PendingData) => "data that was left for later is synced",
            Self::DataSync(File::TargetData) => "a target's data is synced",
            Self::DataSync(File::Table) => "a table's temporary file is synced",
            Self::DataSync(File::Intent) => "the intents' temporary file is synced",
            Self::DataSync(File::HighWater) => "the high-water mark's temporary file is synced",
            Self::DataSync(File::Marker) => "the marker's temporary file is synced",
            Self::DataSync(File::Graves) => "the graves' temporary file is synced",
            Self::DirSync(Change::Table) => "the directory is synced after a table is replaced",
            Self::DirSync(Change::Intent) => "the directory is synced after the intents are replaced",
            Self::DirSync(Change::IntentGone) => "the directory is synced after the intent file is gone",
            Self::DirSync(Change::HighWater) => "the directory is synced after the high-water mark is replaced",
            Self::DirSync(Change::Marker) => "the directory is synced after the marker is put in place",
            Self::DirSync(Change::Graves) => "the directory is synced after the graves are replaced",
            Self::DirSync(Change::BucketGone) => "the directory is synced after files of buckets are gone",
            Self::DirSync(Change::ReserveGone) => "the directory is synced after the reserve is gone",
            Self::DirSync(Change::DataCreated) => "the directory is synced after a written bucket's data",
            Self::DirSync(Change::TargetCreated) => "the directory is synced after the target's data",
            Self::DirSync(Change::NothingYet) => "the directory is synced before anything in it is believed",
            Self::Order(Order::TableBeforeData) => "a bucket's data is synced before its table is published",
            Self::Order(Order::CommittedBeforeTable) => "the target's table is published before COMMITTED",
            Self::Order(Order::TableBeforePrepared) => "PREPARED is published before the target's table",
            Self::Order(Order::UnlinkBeforeCommitted) => "COMMITTED is published before a source is unlinked",
            Self::Order(Order::ClearBeforeUnlink) => "files are gone before the intents that name them",
            Self::Order(Order::CommittedBeforeGraves) => "what must not come back is noted before COMMITTED",
            Self::Order(Order::NumbersBeforeMark) => "the high-water mark is raised before numbers are used",
            Self::Order(Order::TargetBeforeRound) => "a round no longer names its target before that one goes itself",
            Self::Failure(Failure::DataSyncAgain) => "no data sync is repeated on a descriptor whose sync failed",
            Self::Failure(Failure::DirSyncAgain) => "after a failed sync of the directory its changes are made anew",
            Self::DirSync(Change::Renewed) | Self::Failure(Failure::RenewedSync) => {
                "a name that was put in place anew is synced"
            }
            Self::Failure(Failure::AnewSync) => "data that is written anew is synced",
            Self::Failure(Failure::PendingAnewSync) => "data that was left for later and is written anew is synced",
            Self::Failure(Failure::RemoveAgain) => "a removal that failed is repeated with new names",
            Self::Said(Said::Deleted) => "a tombstone and a grave say that an object was deleted, in every copy",
        }
    }

    /// Whether it is needed when a process dies and the power goes later.
    #[must_use]
    pub const fn is_about_restarts(self) -> bool {
        matches!(self, Self::DirSync(Change::NothingYet))
    }

    /// The one workload in which it is looked for, where others would find the removal of another rule with it.
    #[must_use]
    pub const fn only_in(self) -> Option<&'static str> {
        match self {
            Self::DataSync(File::PendingData) | Self::Failure(Failure::PendingAnewSync) => Some("relaxed"),
            _ => None,
        }
    }
}
