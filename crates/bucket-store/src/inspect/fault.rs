//! Owns what can be wrong with a directory: each kind with its name, its remedy, and where it was found.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::look::Unreadable;
use crate::error::{Problem, StoreError};
use crate::format::FormatError;

/// Something that is wrong, with the place, what had to be there, and what is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind of thing.
    pub kind: FaultKind,
    /// The file.
    pub file: String,
    /// The field in it.
    pub field: String,
    /// Where it begins in the file.
    pub offset: Option<u64>,
    /// The storage key of the object that it concerns.
    pub key: Option<Arc<[u8]>>,
    /// What had to be there.
    pub expected: String,
    /// What is.
    pub found: String,
    /// An open needs what cannot be read here.
    pub(super) is_needed: bool,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident, $name:literal, $remedy:literal;)*) => {
        /// What kind of thing is wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum FaultKind {
            $($(#[$doc])* $kind,)*
        }

        impl FaultKind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Its stable name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// What to do about it.
            #[must_use]
            pub fn remedy(self) -> &'static str {
                match self {
                    $(Self::$kind => $remedy,)*
                }
            }
        }
    };
}

kinds! {
    /// There are buckets of this program's, and nothing says whose they are.
    MarkerMissing, "marker_missing", "restore it, or adopt the directory for good: plimsoll bucket adopt";
    /// The marker does not decode.
    MarkerDamaged, "marker_damaged", "restore it; nothing else says whose directory it is, and a store refuses to open it";
    /// The marker names another segment or cluster than the one asked for.
    MarkerOfAnother, "marker_of_another", "name the directory of that storage, or the storage of this directory";
    /// A version, layout or flag of a newer program.
    UnknownVersion, "unknown_version", "use the program that wrote it; a store refuses to open the directory and leaves it as it is";
    /// There is no high-water mark although ids were given out.
    HighWaterMissing, "high_water_missing", "an open goes above all it can see; --repair writes it anew";
    /// The high-water mark does not decode.
    HighWaterDamaged, "high_water_damaged", "restore it; a store refuses to open the directory";
    /// A number at or above the high-water mark was used.
    HighWaterBelow, "high_water_below", "an open goes above all it can see; --repair writes it anew";
    /// The intents do not decode.
    IntentDamaged, "intent_damaged", "restore it; without it nobody can tell which buckets are authoritative, and a store refuses to open";
    /// The graves do not decode.
    GravesDamaged, "graves_damaged", "restore it; without it what was deleted while a bucket could not be read would come back, and a store refuses to open";
    /// An intent names a bucket that was never given out.
    IntentBucketUnknown, "intent_bucket_unknown", "restore the intents and the high-water mark that belong together";
    /// A source of a round that was not committed is gone.
    PreparedSourceMissing, "prepared_source_missing", "restore it; the round's target may be the only copy, and a store refuses to open";
    /// The bucket that replaces others cannot be read.
    CommittedTargetDamaged, "committed_target_damaged", "restore its files; its sources are kept, and a store refuses to open";
    /// A table does not decode.
    TableDamaged, "table_damaged", "restore it; until then the bucket is neither served nor touched";
    /// A data file without a table.
    OrphanData, "orphan_data", "a crash left it and the next open removes it; if its table was lost, restore that before";
    /// A data file without a table, in a directory that nothing marks as ours.
    UnknownData, "unknown_data", "restore its table, or move it out of the directory; it is not removed, and adoption is refused until then";
    /// A table without a data file.
    DataMissing, "data_missing", "restore it, or get its objects from elsewhere and move the table away";
    /// A data file shorter than its table says.
    DataShort, "data_short", "restore it; until then the bucket is neither served nor touched";
    /// A record does not verify.
    RecordDamaged, "record_damaged", "get the object from elsewhere; it is not served. If more follow, replace the disk";
    /// The disk does not give the bytes.
    ReadFailed, "read_failed", "check the disk; what cannot be read is not served, and nothing of it is deleted";
    /// One object is live in two buckets (row B12).
    LiveTwice, "live_twice", "the later one is served; remove the object and put it again";
    /// A name that neither this program nor Mooncake gives.
    StrangeName, "strange_name", "move it out of the directory; a store refuses to open";
    /// A sub-directory, a link or another thing that is no regular file.
    NotAFile, "not_a_file", "move it out of the directory; a store refuses to open";
}

impl FaultKind {
    /// Whether every fault of the kind refuses; of [`FaultKind::ReadFailed`] it depends on the file.
    fn always_refuses(self) -> bool {
        matches!(
            self,
            Self::MarkerMissing
                | Self::MarkerDamaged
                | Self::MarkerOfAnother
                | Self::UnknownVersion
                | Self::HighWaterDamaged
                | Self::IntentDamaged
                | Self::GravesDamaged
                | Self::IntentBucketUnknown
                | Self::PreparedSourceMissing
                | Self::CommittedTargetDamaged
                | Self::StrangeName
                | Self::NotAFile
        )
    }
}

impl Fault {
    pub(super) fn new(
        kind: FaultKind,
        file: impl Into<String>,
        field: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let (file, field, expected, found) = (file.into(), field.into(), expected.into(), found.into());
        Self { kind, file, field, offset: None, key: None, expected, found, is_needed: false }
    }

    /// Wrong bytes of a file, at `base` in it. A version that is not known is told from damage of the `kind`.
    pub(super) fn of_bytes(kind: FaultKind, file: impl Into<String>, base: u64, error: &FormatError) -> Self {
        let kind = if error.is_unknown_version() { FaultKind::UnknownVersion } else { kind };
        let offset = Some(base.saturating_add(error.offset()));
        Self { offset, ..Self::new(kind, file, error.field(), error.expected(), error.found()) }
    }

    /// Whether a store refuses to open a directory with it, and leaves it byte for byte as it is.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.kind.always_refuses() || self.is_needed
    }

    /// A file that says nothing, and without which no store opens.
    pub(super) fn of_needed(kind: FaultKind, file: &str, error: &Unreadable) -> Self {
        match error {
            Unreadable::Bytes(error) => Self::of_bytes(kind, file, 0, error),
            Unreadable::Disk(error) => Self { is_needed: true, ..Self::of_disk(file, &error.what()) },
        }
    }

    /// The table of a bucket that says nothing: a store sets that bucket aside, unless the system has another reason than a broken disk.
    pub(super) fn of_table(file: &str, error: &Unreadable) -> Self {
        match error {
            Unreadable::Bytes(error) => Self::of_bytes(FaultKind::TableDamaged, file, 0, error),
            Unreadable::Disk(error) => Self::of_bucket(file, error),
        }
    }

    /// Likewise of its data file, which is opened and measured and not read.
    pub(super) fn of_data(file: &str, error: &Unreadable) -> Self {
        match error {
            Unreadable::Bytes(error) => Self::of_bytes(FaultKind::DataShort, file, 0, error),
            Unreadable::Disk(error) => Self::of_bucket(file, error),
        }
    }

    fn of_bucket(file: &str, error: &StoreError) -> Self {
        Self { is_needed: !error.is_broken_disk(), ..Self::of_disk(file, &error.what()) }
    }

    pub(super) fn of_disk(file: &str, error: &str) -> Self {
        Self::new(FaultKind::ReadFailed, file, "the bytes", "to be read", error)
    }

    /// Why recovery refuses.
    pub(super) fn of_refusal(error: &StoreError) -> Self {
        let kind = match error.code() {
            "INTENT_BUCKET_UNKNOWN" => FaultKind::IntentBucketUnknown,
            "PREPARED_SOURCE_MISSING" => FaultKind::PreparedSourceMissing,
            "COMMITTED_TARGET_DAMAGED" => FaultKind::CommittedTargetDamaged,
            _ => FaultKind::IntentDamaged,
        };
        match error.problem() {
            Problem::Refused { file, field, expected, found, .. } => Self::new(kind, file, *field, expected, found),
            Problem::CommittedTargetDamaged { target, reason } => {
                Self::new(kind, target.table_name(), "the bucket", "what GC committed", reason)
            }
            _ => Self::new(
                kind,
                crate::format::names::GC_INTENT,
                "the rounds",
                "rounds that can be ended",
                error.to_string(),
            ),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, file, field, offset, key, expected, found, is_needed: _ } = self;
        write!(f, "{}: {file}: {field}", kind.name())?;
        if let Some(offset) = offset {
            write!(f, " at byte {offset}")?;
        }
        if let Some(key) = key {
            write!(f, " of \"{}\"", key.escape_ascii())?;
        }
        write!(f, ": expected {expected}, found {found}; {}", kind.remedy())
    }
}

/// The faults of a directory: all are counted, the first ones are kept.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    listed: Vec<Fault>,
    by_kind: BTreeMap<&'static str, u64>,
    most: usize,
}

impl Faults {
    pub(super) fn keeping(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    pub(super) fn add(&mut self, fault: Fault) {
        *self.by_kind.entry(fault.kind.name()).or_default() += 1;
        if self.listed.len() < self.most {
            self.listed.push(fault);
        }
    }

    /// How many there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_kind.values().sum()
    }

    /// How many of each kind, by its name.
    #[must_use]
    pub fn by_kind(&self) -> &BTreeMap<&'static str, u64> {
        &self.by_kind
    }

    /// The first ones.
    #[must_use]
    pub fn listed(&self) -> &[Fault] {
        &self.listed
    }

    /// How many are counted and not kept.
    #[must_use]
    pub fn unlisted(&self) -> u64 {
        self.total() - self.listed.len() as u64
    }
}
