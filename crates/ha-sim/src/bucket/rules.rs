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
}

/// A file by its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum File {
    /// Data of a bucket that a write made.
    Data,
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
    /// Files of a bucket are taken away.
    BucketGone,
    /// The reserve is taken away.
    ReserveGone,
    /// The target's data file was created.
    TargetCreated,
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
    /// The high-water mark is not raised before numbers are used, but never.
    NumbersBeforeMark,
}

/// What is done differently after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// A data sync that failed is asked again on the same descriptor, and believed.
    DataSyncAgain,
    /// A sync of the directory that failed is asked again without making the changes anew, and believed.
    DirSyncAgain,
    /// A removal that failed is repeated without creating the names anew.
    RemoveAgain,
}

impl Rule {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::DataSync(File::Data),
        Self::DataSync(File::TargetData),
        Self::DataSync(File::Table),
        Self::DataSync(File::Intent),
        Self::DataSync(File::HighWater),
        Self::DataSync(File::Marker),
        Self::DirSync(Change::Table),
        Self::DirSync(Change::Intent),
        Self::DirSync(Change::IntentGone),
        Self::DirSync(Change::HighWater),
        Self::DirSync(Change::Marker),
        Self::DirSync(Change::BucketGone),
        Self::DirSync(Change::ReserveGone),
        Self::DirSync(Change::TargetCreated),
        Self::DirSync(Change::NothingYet),
        Self::Order(Order::TableBeforeData),
        Self::Order(Order::CommittedBeforeTable),
        Self::Order(Order::TableBeforePrepared),
        Self::Order(Order::UnlinkBeforeCommitted),
        Self::Order(Order::ClearBeforeUnlink),
        Self::Order(Order::NumbersBeforeMark),
        Self::Failure(Failure::DataSyncAgain),
        Self::Failure(Failure::DirSyncAgain),
        Self::Failure(Failure::RemoveAgain),
    ];

    /// What is removed.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::DataSync(File::Data) => "a written bucket's data is synced",
            Self::DataSync(File::TargetData) => "a target's data is synced",
            Self::DataSync(File::Table) => "a table's temporary file is synced",
            Self::DataSync(File::Intent) => "the intents' temporary file is synced",
            Self::DataSync(File::HighWater) => "the high-water mark's temporary file is synced",
            Self::DataSync(File::Marker) => "the marker's temporary file is synced",
            Self::DirSync(Change::Table) => "the directory is synced after a table is replaced",
            Self::DirSync(Change::Intent) => "the directory is synced after the intents are replaced",
            Self::DirSync(Change::IntentGone) => "the directory is synced after the intent file is gone",
            Self::DirSync(Change::HighWater) => "the directory is synced after the high-water mark is replaced",
            Self::DirSync(Change::Marker) => "the directory is synced after the marker is put in place",
            Self::DirSync(Change::BucketGone) => "the directory is synced after files of buckets are gone",
            Self::DirSync(Change::ReserveGone) => "the directory is synced after the reserve is gone",
            Self::DirSync(Change::TargetCreated) => "the directory is synced after the target's data",
            Self::DirSync(Change::NothingYet) => "the directory is synced before anything in it is believed",
            Self::Order(Order::TableBeforeData) => "a bucket's data is synced before its table is published",
            Self::Order(Order::CommittedBeforeTable) => "the target's table is published before COMMITTED",
            Self::Order(Order::TableBeforePrepared) => "PREPARED is published before the target's table",
            Self::Order(Order::UnlinkBeforeCommitted) => "COMMITTED is published before a source is unlinked",
            Self::Order(Order::ClearBeforeUnlink) => "files are gone before the intents that name them",
            Self::Order(Order::NumbersBeforeMark) => "the high-water mark is raised before numbers are used",
            Self::Failure(Failure::DataSyncAgain) => "no data sync is repeated on a descriptor whose sync failed",
            Self::Failure(Failure::DirSyncAgain) => "after a failed sync of the directory its changes are made anew",
            Self::Failure(Failure::RemoveAgain) => "a removal that failed is repeated with new names",
        }
    }

    /// Whether it is needed when a process dies and the power goes later.
    #[must_use]
    pub const fn is_about_restarts(self) -> bool {
        matches!(self, Self::DirSync(Change::NothingYet))
    }

    /// Why nothing goes wrong without it, where that is so.
    #[must_use]
    pub const fn survives(self) -> Option<&'static str> {
        match self {
            Self::DirSync(Change::IntentGone) => Some(
                "a round that comes back is ended again, and nothing that it names changes before the next sync makes it go for certain",
            ),
            Self::DirSync(Change::ReserveGone) => {
                Some("it gives blocks free on a journaling disk; nothing rests on whether the file is there")
            }
            Self::DirSync(Change::TargetCreated) => Some(
                "until COMMITTED the target goes whatever is left of it, and the publish of its table makes its name durable, too",
            ),
            _ => None,
        }
    }
}
