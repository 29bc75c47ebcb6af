//! Owns reads: which record a key means, the pin of its file, and what becomes of an object that does not verify. No lock is held
//! over I/O.

mod piece;

use std::sync::Arc;

use ha_types::ObjectIncarnation;

pub(super) use self::piece::{Fault, Piece};
use super::Store;
use super::bucket::BucketFile;
use super::state::{Location, SlotState};
use crate::error::{Problem, StoreError};
use crate::format::names::BucketId;
use crate::format::table::{RecordLayout, Slot};
use crate::observer::Event;

/// What to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest<'a> {
    /// The storage key, `tenant 0x00 user-key`.
    pub key: &'a [u8],
    /// Only this incarnation will do; `None`: whichever is live.
    pub incarnation: Option<ObjectIncarnation>,
    /// A part of the value; `None`: all of it.
    pub range: Option<ByteRange>,
}

/// A part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Where it begins in the value, in bytes.
    pub offset: u64,
    /// Its bytes, at least one.
    pub len: u64,
}

impl<'a> ReadRequest<'a> {
    /// All of the live object of that key.
    #[must_use]
    pub const fn whole(key: &'a [u8]) -> Self {
        Self { key, incarnation: None, range: None }
    }

    /// `len` bytes from `offset` of the live object of that key.
    #[must_use]
    pub const fn part(key: &'a [u8], offset: u64, len: u64) -> Self {
        Self { key, incarnation: None, range: Some(ByteRange { offset, len }) }
    }

    /// The same of this incarnation only.
    #[must_use]
    pub const fn of(self, incarnation: ObjectIncarnation) -> Self {
        Self { incarnation: Some(incarnation), ..self }
    }
}

/// A live object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its storage key.
    pub key: Arc<[u8]>,
    /// Its name for all time.
    pub incarnation: ObjectIncarnation,
    /// Bytes of its value.
    pub value_len: u32,
    /// The bucket it is in now. GC may move it.
    pub bucket: BucketId,
}

/// A record and the pin of its file: its bytes stay as they are while this lives, whatever becomes of the bucket.
struct Found {
    at: Location,
    file: Arc<BucketFile>,
    layout: RecordLayout,
    slot: Slot,
}

impl Store {
    /// Reads an object or a part of one. Its bytes are verified, but those of Mooncake's buckets, which have no checksums: there only the
    /// key is.
    ///
    /// # Errors
    /// * `NOT_FOUND`: there is no live object of that key, or it is of another incarnation.
    /// * `BAD_RANGE`: the part is empty or not within the value.
    /// * `DAMAGED`: the bytes are not those that were written. The object is not served any more; others are not touched.
    /// * as the disk says. The object is still there.
    pub fn read(&self, request: &ReadRequest<'_>) -> Result<Vec<u8>, StoreError> {
        self.read_with(request, |piece, file| piece.read(file))
    }

    /// Reads an object or a part of one into the begin of `buf`, and gives how many bytes that were. After an error `buf` holds anything.
    ///
    /// # Errors
    /// As [`Store::read`]. `ARGUMENT` if `buf` is too short.
    pub fn read_into(&self, request: &ReadRequest<'_>, buf: &mut [u8]) -> Result<usize, StoreError> {
        let room = buf.len() as u64;
        let needed = self.read_with(request, |piece, file| match buf.get_mut(..piece.len() as usize) {
            Some(buf) => piece.read_into(file, buf).map(|()| piece.len()),
            None => Ok(piece.len()),
        })?;
        if needed > room {
            let expected = format!("give {needed} bytes or more");
            return Err(Problem::Argument { argument: "buf", expected, found: format!("{room} bytes") }.into());
        }
        Ok(needed as usize)
    }

    /// Reads several, each as [`Store::read`] would: one that fails does not fail the others.
    ///
    /// # Errors
    /// `ARGUMENT` if there are more than `max_batch` requests.
    pub fn read_batch(&self, requests: &[ReadRequest<'_>]) -> Result<Vec<Result<Vec<u8>, StoreError>>, StoreError> {
        if requests.len() > self.config.max_batch {
            let expected = format!("give at most max_batch, which is {}", self.config.max_batch);
            return Err(Problem::Argument { argument: "requests", expected, found: requests.len().to_string() }.into());
        }
        Ok(requests.iter().map(|request| self.read(request)).collect())
    }

    /// What is known of the live object of a key, without reading it.
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<ObjectInfo> {
        let state = self.state.read();
        let record = state.live(key)?;
        Some(ObjectInfo {
            key: Arc::clone(&record.slot.key),
            incarnation: record.slot.incarnation,
            value_len: record.slot.value_len,
            bucket: record.at.bucket,
        })
    }

    fn read_with<T>(
        &self,
        request: &ReadRequest<'_>,
        mut read: impl FnMut(&Piece<'_>, &dyn crate::vfs::VfsFile) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        loop {
            let found = self.pin(request)?;
            let whole = Piece::whole(found.layout, &found.slot);
            let piece = match request.range {
                None => whole,
                Some(ByteRange { offset, len }) => whole.part(offset, len).ok_or_else(|| {
                    let (key, value_len) = (request.key.into(), found.slot.value_len.into());
                    StoreError::from(Problem::BadRange { key, offset, len, value_len })
                })?,
            };
            match read(&piece, found.file.file()) {
                Ok(bytes) => return Ok(bytes),
                Err(fault) => {
                    // What GC has moved meanwhile was verified on its way: the copy decides.
                    if let Some(error) = self.judge(&found, fault) {
                        return Err(error);
                    }
                }
            }
        }
    }

    fn pin(&self, request: &ReadRequest<'_>) -> Result<Found, StoreError> {
        let state = self.state.read();
        let live = state.live(request.key);
        let wanted = live.filter(|record| request.incarnation.is_none_or(|wanted| wanted == record.slot.incarnation));
        let Some(record) = wanted else { return Err(Problem::NotFound { key: request.key.into() }.into()) };
        let bucket = record.bucket.bucket();
        let (file, layout, slot) = (Arc::clone(&bucket.file), bucket.layout, record.slot.to_slot(false));
        Ok(Found { at: record.at, file, layout, slot })
    }

    /// Draws the consequences of a read that failed. `None`: the record is not there or not live any more, so it must be looked for again.
    fn judge(&self, found: &Found, fault: Fault) -> Option<StoreError> {
        let bucket = found.at.bucket;
        let damaged = matches!(fault, Fault::Damaged(_));
        let is_gone;
        let (newly_damaged, newly_suspect) = {
            let mut state = self.state.write();
            let record = state.record(found.at)?;
            let was_suspect = record.bucket.suspicion().unreadable;
            // Deleted or replaced since it was looked up: what is wrong with it is not what was asked for.
            is_gone = !matches!(record.state(), SlotState::Live | SlotState::Damaged);
            let newly_damaged = damaged && state.damage(found.at);
            state.suspect_data(bucket);
            (newly_damaged, !was_suspect)
        };
        let error = fault.of(bucket);
        if newly_damaged {
            let (key, incarnation) = (Arc::clone(&found.slot.key), found.slot.incarnation);
            self.observer.event(&Event::ObjectDamaged { key, incarnation, bucket, error: error.clone() });
        }
        if newly_suspect {
            self.observer.event(&Event::BucketSuspect { bucket, reason: error.to_string() });
        }
        (!is_gone).then_some(error)
    }
}
