//! Owns what the planner is told: one plain line per bucket, and the limits. Nothing here points into the store.

use ha_types::MonoTime;

use crate::config::Config;
use crate::format::names::BucketId;

/// One bucket, as it was when the plan was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketFacts {
    /// The bucket.
    pub id: BucketId,
    /// Its place in the order of age; the smallest is evicted first.
    pub age: u64,
    /// Records that a merge would have to copy.
    pub live_records: u32,
    /// Bytes of those records in this bucket.
    pub live_bytes: u64,
    /// Bytes that those records would take in a target; more than `live_bytes` where the target adds checksums.
    pub copy_bytes: u64,
    /// Bytes of everything else in the data file.
    pub dead_bytes: u64,
    /// Bytes of the blocks that the data file occupies.
    pub allocated_bytes: u64,
    /// Why it must be left alone, if so.
    pub hold: Option<Hold>,
    /// Not touched before this time, because the last attempt failed.
    pub set_aside_until: Option<MonoTime>,
}

impl BucketFacts {
    /// The share of the data file that is dead, from 0 to 1.
    #[must_use]
    pub fn dead_ratio(&self) -> f64 {
        let all = self.dead_bytes.saturating_add(self.live_bytes);
        if all == 0 { 0.0 } else { self.dead_bytes as f64 / all as f64 }
    }
}

/// Why GC leaves a bucket alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// Its table's last publish failed, or a record of it does not verify and is not durably dead: no source of a merge, and not *fully
    /// dead*. It may be evicted.
    Suspect,
    /// Its table or its data is not durable yet.
    Unpublished,
    /// A round of GC has it already.
    InRound,
}

/// The room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Blocks of all data files in bytes, those included that are unlinked and still open.
    pub physical_bytes: u64,
    /// Bytes among them that GC can never give back: of buckets in quarantine, which nobody touches, and of files that could not be taken away.
    pub out_of_reach_bytes: u64,
    /// What the file system has left for copies, the reserve taken off.
    pub free_bytes: u64,
    /// Usage has reached the high watermark and has not yet fallen to the low one.
    pub pressure: bool,
    /// No copy is begun before this time, because the last target could not be written, which is no bucket's fault.
    pub no_copy_until: Option<MonoTime>,
}

/// What the planner keeps to. Checked where the store's configuration is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanLimits {
    /// Usage at which GC begins to make room.
    pub high_bytes: u64,
    /// Usage at which it stops.
    pub low_bytes: u64,
    /// The largest data file of a target.
    pub target_bytes: u64,
    /// The most records of a target.
    pub target_records: u32,
    /// The smallest dead share worth a copy under pressure, 0 to 1.
    pub floor: f64,
    /// The dead share from which a bucket is copied without pressure; `None` never copies then.
    pub ratio: Option<f64>,
    /// Bytes of a block: what a file's length is rounded up to on the disk.
    pub block_bytes: u64,
    /// Whether buckets with live objects may be evicted when nothing else helps.
    pub evict: bool,
}

impl PlanLimits {
    /// What these settings ask for. `evict`: whether there is anybody to agree to an eviction.
    ///
    /// What is in quarantine is out of its reach, so GC works as in a store whose capacity is smaller by it. Were the watermarks left where
    /// they are, ever more live objects would be given up for room that no eviction can make, down to none. Where nothing of the capacity
    /// is left, nothing is evicted: no write would fit in for it.
    ///
    /// ```text
    /// 0           quarantined               low      high   capacity
    /// ├────────────────┼─────────────────────┼─────────┼───────┤
    ///                  └─ shares of this ────┴─────────┴───────┘
    /// ```
    #[must_use]
    pub fn of(config: &Config, out_of_reach_bytes: u64, evict: bool) -> Self {
        let in_reach = config.capacity_bytes.saturating_sub(out_of_reach_bytes);
        let share = |fraction: f64| out_of_reach_bytes.saturating_add((in_reach as f64 * fraction) as u64);
        Self {
            high_bytes: share(config.high_watermark),
            low_bytes: share(config.low_watermark),
            target_bytes: config.bucket_size_bytes,
            target_records: u32::try_from(config.bucket_keys).unwrap_or(u32::MAX),
            floor: config.dead_ratio_floor,
            ratio: config.normal_dead_ratio,
            block_bytes: Self::BLOCK_BYTES,
            evict: evict && in_reach > 0,
        }
    }

    /// The block of the file systems that are in use.
    pub const BLOCK_BYTES: u64 = 4096;

    /// Whether GC is to make room: from the high watermark on until the low one is reached.
    #[must_use]
    pub fn pressure(&self, was: bool, physical_bytes: u64) -> bool {
        physical_bytes >= self.high_bytes || (was && physical_bytes > self.low_bytes)
    }

    /// `bytes` in whole blocks.
    #[must_use]
    pub fn in_blocks(&self, bytes: u64) -> u64 {
        let block = self.block_bytes.max(1);
        bytes.div_ceil(block).saturating_mul(block)
    }
}
