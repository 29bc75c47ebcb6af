//! Owns the names of files in the directory: what each one is, and that nothing else is ours.

use std::fmt;

/// A bucket's number: never used twice in a directory, and rising with time. Starts at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketId(pub u64);

impl fmt::Display for BucketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The marker of a bucket directory: its segment id and cluster.
pub const MARKER: &str = ".mooncake_local_disk_segment_id";
/// The intents of GC.
pub const GC_INTENT: &str = ".bucket_gc_intent";
/// The bound below which bucket ids may have been used.
pub const ID_HIGH_WATER: &str = ".bucket_id_high_water";
/// What must not come back with a bucket that could not be read.
pub const GRAVES: &str = ".bucket_graves";
/// Blocks set aside so that deletes work on a full disk.
pub const RESERVE: &str = ".bucket_reserve";
/// What the tool of every ext file system keeps in its top directory: not ours, and nothing against it.
pub const LOST_AND_FOUND: &str = "lost+found";

/// What a name in the directory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// `<id>.bucket`.
    Data(BucketId),
    /// `<id>.meta`.
    Table(BucketId),
    /// [`MARKER`].
    Marker,
    /// [`GC_INTENT`].
    GcIntent,
    /// [`ID_HIGH_WATER`].
    IdHighWater,
    /// [`GRAVES`].
    Graves,
    /// [`RESERVE`].
    Reserve,
    /// A file that was to replace another and never did: `.<name>.<n>.tmp`.
    Temporary,
    /// Nothing that this program or Mooncake writes.
    Strange,
}

impl NameKind {
    /// Of a name. `<id>` is decimal without sign or leading zeros, 1 to [`BucketId::MAX`].
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            MARKER => return Self::Marker,
            GC_INTENT => return Self::GcIntent,
            ID_HIGH_WATER => return Self::IdHighWater,
            GRAVES => return Self::Graves,
            RESERVE => return Self::Reserve,
            _ => {}
        }
        let data = name.strip_suffix(".bucket").and_then(BucketId::parse).map(Self::Data);
        let table = || name.strip_suffix(".meta").and_then(BucketId::parse).map(Self::Table);
        let temporary = || is_temporary(name).then_some(Self::Temporary);
        data.or_else(table).or_else(temporary).unwrap_or(Self::Strange)
    }
}

/// The `number`th temporary name for a file `name`, under which its next content is written: `.<name>.<number>.tmp`.
#[must_use]
pub fn temporary_name(name: &str, number: u64) -> String {
    format!(".{name}.{number}.tmp")
}

/// The file that `name` is a temporary name for; `None` if it is none.
#[must_use]
pub fn temporary_for(name: &str) -> Option<&str> {
    let (target, number) = name.strip_prefix('.')?.strip_suffix(".tmp")?.rsplit_once('.')?;
    (is_number(number) && !target.is_empty()).then_some(target)
}

/// Whether it is a temporary name for a file of ours.
fn is_temporary(name: &str) -> bool {
    temporary_for(name).is_some_and(|of| !matches!(NameKind::of(of), NameKind::Strange | NameKind::Temporary))
}

fn is_number(text: &str) -> bool {
    text.parse::<u64>().is_ok_and(|number| number.to_string() == text)
}

impl BucketId {
    /// The highest: what Mooncake's ids fit as well.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// Whether a bucket can have it: 1 to [`BucketId::MAX`].
    #[must_use]
    pub fn is_valid(self) -> bool {
        (1..=Self::MAX.0).contains(&self.0)
    }

    /// Decimal without sign or leading zeros.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self).filter(|id| id.is_valid() && is_number(text))
    }

    /// The file of its records: `<id>.bucket`.
    #[must_use]
    pub fn data_name(self) -> String {
        format!("{}.bucket", self.0)
    }

    /// The file of its table: `<id>.meta`.
    #[must_use]
    pub fn table_name(self) -> String {
        format!("{}.meta", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{BucketId, NameKind, temporary_name};

    #[test]
    fn each_name_of_ours_is_known_and_no_other() {
        let id = BucketId(42);
        let known = [
            (id.data_name(), NameKind::Data(id)),
            (id.table_name(), NameKind::Table(id)),
            (BucketId::MAX.table_name(), NameKind::Table(BucketId::MAX)),
            (super::MARKER.into(), NameKind::Marker),
            (super::GC_INTENT.into(), NameKind::GcIntent),
            (super::ID_HIGH_WATER.into(), NameKind::IdHighWater),
            (super::GRAVES.into(), NameKind::Graves),
            (super::RESERVE.into(), NameKind::Reserve),
            (temporary_name("42.meta", 7), NameKind::Temporary),
            (temporary_name(super::GC_INTENT, 0), NameKind::Temporary),
        ];
        for (name, kind) in known {
            assert_eq!(NameKind::of(&name), kind, "{name}");
        }
    }

    #[test]
    fn what_only_looks_like_ours_is_strange() {
        let strange = [
            "",
            ".",
            "0.bucket",
            "007.bucket",
            "+7.bucket",
            "-7.meta",
            " 7.meta",
            "7.META",
            "7.bucket.bak",
            "7",
            ".meta",
            "9223372036854775808.bucket",
            "18446744073709551616.meta",
            "7.bucket ",
            "x.bucket",
            ".7.meta.tmp",
            ".7.meta.x.tmp",
            ".7.meta.01.tmp",
            ".notes.1.tmp",
            "..7.meta.1.tmp.2.tmp",
            "7.meta.1.tmp",
            ".bucket_gc_intent~",
        ];
        for name in strange {
            assert_eq!(NameKind::of(name), NameKind::Strange, "{name:?}");
        }
    }
}
