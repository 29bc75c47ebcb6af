//! Owns the giving out of bucket ids and write numbers: rising, and none of them twice in the life of a directory. Design §8.

use super::Store;
use crate::crashsafe;
use crate::error::StoreError;
use crate::format::high_water::HighWater;
use crate::format::names::{BucketId, ID_HIGH_WATER};
use crate::sync::Mutex;

/// Bucket ids that are set aside at a time.
const BUCKET_BLOCK: u64 = 64;
/// Write numbers that are set aside at a time.
const WRITE_BLOCK: u64 = 1 << 16;

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

impl Store {
    /// A bucket id that was never used.
    pub(crate) fn next_bucket_id(&self) -> Result<BucketId, StoreError> {
        self.take_numbers(1, 0).map(|(bucket, _)| bucket)
    }

    /// The first of that many bucket ids and of that many write numbers, for the caller alone. Those that are not used are lost.
    ///
    /// # Errors
    /// As the disk says; then none was given out.
    pub(super) fn take_numbers(&self, buckets: u64, writes: u64) -> Result<(BucketId, u64), StoreError> {
        let mut given = self.numbers.0.lock();
        let first = given.next;
        let after = HighWater {
            next_bucket: first.next_bucket.saturating_add(buckets),
            next_write_number: first.next_write_number.saturating_add(writes),
        };
        let raise =
            |after: u64, durable: u64, block| if after > durable { after.saturating_add(block) } else { durable };
        let durable = HighWater {
            next_bucket: raise(after.next_bucket, given.durable.next_bucket, BUCKET_BLOCK),
            next_write_number: raise(after.next_write_number, given.durable.next_write_number, WRITE_BLOCK),
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
