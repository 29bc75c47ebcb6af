//! Owns the giving out of bucket ids and write numbers: rising, and none of them twice in the life of a directory. Design §8.

use super::Store;
use crate::crashsafe;
use crate::error::{Problem, StoreError};
use crate::format::high_water::HighWater;
use crate::format::names::{BucketId, ID_HIGH_WATER};
use crate::format::record::MAX_WRITE_NUMBER;
use crate::sync::Mutex;

/// Bucket ids that are set aside at a time.
const BUCKET_BLOCK: u64 = 64;
/// Write numbers that are set aside at a time.
const WRITE_BLOCK: u64 = 1 << 16;

/// Before the first number.
pub(super) const NEVER_USED: HighWater = HighWater { next_bucket: 1, next_write_number: 1 };

/// The next numbers, and how far they may be used. Its lock is held over the publish that raises that, and nothing else is taken
/// inside of it.
#[derive(Debug)]
pub(super) struct Numbers(Mutex<Given>);

#[derive(Clone, Copy, Debug)]
struct Given {
    /// The next that were never used.
    next: HighWater,
    /// The durable bounds: no number at or above them is used.
    durable: HighWater,
}

impl Numbers {
    /// Goes on at `next`, which is above everything on disk; `durable` is what the file says.
    pub(super) fn new(next: HighWater, durable: HighWater) -> Self {
        Self(Mutex::new(Given { next, durable }))
    }
}

impl Numbers {
    /// Whether the file that says which numbers may have been used is still to come.
    pub(super) fn are_unwritten(&self) -> bool {
        self.0.lock().durable == NEVER_USED
    }
}

impl Store {
    /// A bucket id that was never used.
    pub(crate) fn next_bucket_id(&self) -> Result<BucketId, StoreError> {
        self.take_numbers(1, 0).map(|(bucket, _)| bucket)
    }

    /// The first of that many bucket ids and of that many write numbers, for the caller alone. Those that are not used are lost.
    ///
    /// # Errors
    /// `NUMBERS_EXHAUSTED` if there are not as many left, in this life or any other; as the disk says. None was given out.
    pub(super) fn take_numbers(&self, buckets: u64, writes: u64) -> Result<(BucketId, u64), StoreError> {
        let mut given = self.numbers.0.lock();
        let first = given.next;
        let after = HighWater {
            next_bucket: behind("bucket ids", first.next_bucket, buckets, BucketId::MAX.0)?,
            next_write_number: behind("write numbers", first.next_write_number, writes, MAX_WRITE_NUMBER)?,
        };
        // What is left near the end is less than a block.
        let raise = |after: u64, durable: u64, block: u64, highest: u64| {
            if after > durable { (after + block).min(highest + 1) } else { durable }
        };
        let durable = HighWater {
            next_bucket: raise(after.next_bucket, given.durable.next_bucket, BUCKET_BLOCK, BucketId::MAX.0),
            next_write_number: raise(
                after.next_write_number,
                given.durable.next_write_number,
                WRITE_BLOCK,
                MAX_WRITE_NUMBER,
            ),
        };
        if durable != given.durable {
            // When it fails it may be in place all the same: higher than what is used, as it must be.
            self.publish_high_water(durable)?;
            given.durable = durable;
        }
        given.next = after;
        Ok((BucketId(first.next_bucket), first.next_write_number))
    }

    fn publish_high_water(&self, bounds: HighWater) -> Result<(), StoreError> {
        let bytes = bounds.encode().map_err(|error| StoreError::unwritable(ID_HIGH_WATER, error))?;
        match crashsafe::publish(&*self.vfs, ID_HIGH_WATER, &bytes) {
            Ok(()) => {
                self.health.succeeded();
                Ok(())
            }
            Err(error) => {
                self.health.failed(error.step.into(), &error.name, &error.source, &*self.observer);
                Err(error.into())
            }
        }
    }
}

/// The number behind `count` of them from `first` on.
fn behind(what: &'static str, first: u64, count: u64, highest: u64) -> Result<u64, StoreError> {
    let left = (highest + 1).saturating_sub(first);
    if count > left {
        return Err(Problem::NumbersExhausted { what, needed: count, left }.into());
    }
    Ok(first + count)
}
