//! Owns `.bucket_graves`: what left the disk while a bucket could not be read, and must not come back with that one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ha_types::ObjectIncarnation;

use crate::key::StorageKey;

use super::error::{FormatError, shown};
use super::names::BucketId;
use super::reader::{Frame, Reader};
use super::record::MAX_WRITE_NUMBER;
use super::table::Tombstone;

/// The whole file. No file means that there is nothing to say. All of it is true for ever, so it may be put in place too early.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graves {
    /// Buckets that were not served while others changed, and which have not been compared with those since.
    pub away: BTreeSet<BucketId>,
    /// By storage key, `tenant 0x00 user-key`.
    pub keys: BTreeMap<Arc<[u8]>, Grave>,
}

/// What is known of the records of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grave {
    /// Every record below it was replaced.
    pub replaced: Rank,
    /// Incarnations that were deleted: every record of theirs is gone.
    pub deleted: BTreeSet<ObjectIncarnation>,
}

/// The order among the records of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank {
    /// The record's.
    pub write_number: u64,
    /// Where it is: of equal write numbers, which only records of Mooncake's have, the highest bucket counts.
    pub bucket: BucketId,
}

const FRAME: Frame = Frame { what: "graves file", magic: *b"PLBD", version: 1, known: "version 1" };
/// Write number, bucket, length of the key, count of incarnations.
const KEY_BYTES: usize = 8 + 8 + 4 + 4;
const INCARNATION_BYTES: usize = 16;

impl Graves {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.away.is_empty() && self.keys.is_empty()
    }

    /// Takes up a record that goes: what is below `rank` was replaced, and `deleted` was deleted. Whether that is news.
    pub fn add(&mut self, key: &Arc<[u8]>, rank: Rank, deleted: Option<ObjectIncarnation>) -> bool {
        let Some(grave) = self.keys.get_mut(key) else {
            self.keys.insert(Arc::clone(key), Grave { replaced: rank, deleted: deleted.into_iter().collect() });
            return true;
        };
        let higher = rank > grave.replaced;
        grave.replaced = grave.replaced.max(rank);
        deleted.is_some_and(|incarnation| grave.deleted.insert(incarnation)) || higher
    }

    /// What it says of a record, if anything.
    #[must_use]
    pub fn of(&self, key: &[u8], rank: Rank, incarnation: ObjectIncarnation) -> Option<Tombstone> {
        if self.is_deleted(key, incarnation) {
            return Some(Tombstone::Deleted);
        }
        self.keys.get(key).filter(|grave| rank < grave.replaced).map(|_| Tombstone::Replaced)
    }

    /// Whether that object was deleted.
    #[must_use]
    pub fn is_deleted(&self, key: &[u8], incarnation: ObjectIncarnation) -> bool {
        self.keys.get(key).is_some_and(|grave| grave.deleted.contains(&incarnation))
    }

    /// Bytes of the file.
    #[must_use]
    pub fn encoded_len(&self) -> u64 {
        let grave =
            |(key, grave): (&Arc<[u8]>, &Grave)| KEY_BYTES + key.len() + INCARNATION_BYTES * grave.deleted.len();
        (Frame::BYTES + 4 + 8 * self.away.len() + 4 + self.keys.iter().map(grave).sum::<usize>()) as u64
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// What [`Graves::decode`] would refuse, or more than [`MAX_FILE_BYTES`](super::MAX_FILE_BYTES).
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let len = usize::try_from(self.encoded_len()).unwrap_or(usize::MAX);
        FRAME.check_len(len)?;
        let mut out = FRAME.begin(len - Frame::BYTES);
        out.extend_from_slice(&(self.away.len() as u32).to_le_bytes());
        for id in &self.away {
            check_bucket("away", *id, out.len())?;
            out.extend_from_slice(&id.0.to_le_bytes());
        }
        out.extend_from_slice(&(self.keys.len() as u32).to_le_bytes());
        for (key, Grave { replaced, deleted }) in &self.keys {
            check_rank(*replaced, out.len())?;
            check_key(key, out.len() + KEY_BYTES + INCARNATION_BYTES * deleted.len())?;
            out.extend_from_slice(&replaced.write_number.to_le_bytes());
            out.extend_from_slice(&replaced.bucket.0.to_le_bytes());
            out.extend_from_slice(&(key.len() as u32).to_le_bytes());
            out.extend_from_slice(&(deleted.len() as u32).to_le_bytes());
            deleted.iter().for_each(|incarnation| out.extend_from_slice(&incarnation.to_bytes()));
            out.extend_from_slice(key);
        }
        FRAME.end(out)
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// [`FormatError`] for anything but what [`Graves::encode`] makes.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut body = FRAME.open(bytes)?;
        let mut graves = Self::default();
        for _ in 0..counted(&mut body, "count of buckets", "buckets", 8)? {
            let at = body.at();
            let id = BucketId(body.u64("away")?);
            check_bucket("away", id, at as usize)?;
            rises("away", at, graves.away.last(), &id, |id| id.to_string())?;
            graves.away.insert(id);
        }
        for _ in 0..counted(&mut body, "count of keys", "keys", KEY_BYTES + StorageKey::MIN_BYTES)? {
            let (key, grave, at) = read_grave(&mut body)?;
            rises("key", at, graves.keys.last_key_value().map(|(key, _)| key), &key, |key| shown(key))?;
            graves.keys.insert(key, grave);
        }
        body.end()?;
        Ok(graves)
    }
}

/// The key, what is known of it, and where the key begins.
fn read_grave(body: &mut Reader<'_>) -> Result<(Arc<[u8]>, Grave, u64), FormatError> {
    let at = body.at();
    let replaced = Rank { write_number: body.u64("write number")?, bucket: BucketId(body.u64("bucket")?) };
    check_rank(replaced, at as usize)?;
    let key_len = body.u32("key_len")? as usize;
    let mut deleted = BTreeSet::new();
    for _ in 0..counted(body, "count of incarnations", "incarnations", INCARNATION_BYTES)? {
        let at = body.at();
        let incarnation = ObjectIncarnation::from_bytes(body.array("incarnation")?);
        rises("incarnation", at, deleted.last(), &incarnation, |it| it.to_string())?;
        deleted.insert(incarnation);
    }
    let at = body.at();
    let key = body.bytes("key", key_len)?;
    check_key(key, at as usize)?;
    Ok((key.into(), Grave { replaced, deleted }, at))
}

/// A count of things that have at least so many bytes each.
fn counted(
    body: &mut Reader<'_>,
    field: &'static str,
    of: &'static str,
    least_bytes: usize,
) -> Result<usize, FormatError> {
    let count = body.u32(field)? as usize;
    if count > body.left() / least_bytes {
        return Err(body.too_short(of, count as u64 * least_bytes as u64));
    }
    Ok(count)
}

/// In a set each is above the one before, so that one set has one file.
fn rises<T: Ord>(
    field: &'static str,
    at: u64,
    last: Option<&T>,
    next: &T,
    shown: impl Fn(&T) -> String,
) -> Result<(), FormatError> {
    match last.filter(|last| *last >= next) {
        Some(last) => Err(FormatError::in_field(FRAME.what, field, at, format!("above {}", shown(last)), shown(next))),
        None => Ok(()),
    }
}

fn check_rank(Rank { write_number, bucket }: Rank, at: usize) -> Result<(), FormatError> {
    if write_number > MAX_WRITE_NUMBER {
        let (expected, found) = (format!("at most {MAX_WRITE_NUMBER}"), write_number.to_string());
        return Err(FormatError::in_field(FRAME.what, "write number", at as u64, expected, found));
    }
    check_bucket("bucket", bucket, at + 8)
}

fn check_bucket(field: &'static str, id: BucketId, at: usize) -> Result<(), FormatError> {
    if id.is_valid() {
        return Ok(());
    }
    let expected = format!("a bucket id, 1 to {}", BucketId::MAX);
    Err(FormatError::in_field(FRAME.what, field, at as u64, expected, id.to_string()))
}

fn check_key(key: &[u8], at: usize) -> Result<(), FormatError> {
    StorageKey::check(key)
        .map_err(|why| FormatError::in_field(FRAME.what, "key", at as u64, "a storage key", why.to_string()))
}

#[cfg(test)]
mod tests;
