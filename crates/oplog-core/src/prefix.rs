//! Owns the durable prefix: the one line that says up to where the log is safe, and who may move it. It reads no store.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

mod error;
mod parse;
#[cfg(test)]
mod tests;

use ha_types::{BatchId, Epoch, Owner, Seq};

pub use error::PrefixError;

/// The decoded durable prefix (RFC batch record §5, design §3.1).
///
/// Every entry in `[1, last_seq]` is durable and safe to apply and to promote from. Each number of successive prefixes of
/// one log is non-decreasing; a rise of the epoch fences every older writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DurablePrefix {
    /// How often the log was claimed. Zero: never.
    pub epoch: Epoch,
    /// Whose claim it is; [`Owner::NOBODY`] exactly beside epoch 0.
    pub owner: Owner,
    /// The batch that holds `last_seq`; zero before the first batch.
    pub batch_id: BatchId,
    /// The last durable entry; the cutover base while `batch_id` is zero.
    pub last_seq: Seq,
}

impl DurablePrefix {
    /// The version that this build reads and writes.
    pub const SCHEMA_VERSION: u64 = 1;

    /// The longest line, in bytes.
    pub const MAX_BYTES: usize = 144;

    /// The first prefix of a fresh log: nothing durable, nobody's.
    pub const FRESH: Self =
        Self { epoch: Epoch::ZERO, owner: Owner::NOBODY, batch_id: BatchId::ZERO, last_seq: Seq::ZERO };

    /// The line, without a newline: what [`Self::decode`] reads, byte for byte.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut line = format!(
            "schema_version={} epoch={} owner={} batch_id={} last_seq={}",
            Self::SCHEMA_VERSION,
            self.epoch,
            self.owner,
            self.batch_id,
            self.last_seq
        );
        let checksum = crate::crc::crc32c(line.as_bytes());
        line.push_str(&format!(" checksum={checksum:08x}"));
        line
    }

    /// Reads exactly the canonical line: these fields, this order, no sign, no leading zero, lower-case hex, no newline.
    ///
    /// A prefix that starts with `{` is Mooncake's. With the feature `mooncake` it reads as epoch 0; [`Self::encode`] does not give
    /// its bytes again, so no compare against it can hold but that of a take-over. Without the feature it is refused by that name.
    ///
    /// # Errors
    /// [`PrefixError`] names the field, its offset, what had to be there and what is.
    pub fn decode(bytes: &[u8]) -> Result<Self, PrefixError> {
        #[cfg(feature = "mooncake")]
        if bytes.first() == Some(&crate::mooncake::PREFIX_START) {
            return crate::mooncake::MooncakePrefix::decode(bytes).map(|prefix| prefix.boundary());
        }
        let prefix = parse::line(bytes)?;
        prefix.check()?;
        Ok(prefix)
    }

    /// Checks what one prefix must satisfy by itself: owner and epoch are zero together, no number is at the end of the
    /// numbers, no batch without an epoch, and no fewer entries than batches.
    ///
    /// # Errors
    /// [`PrefixError`], with offset 0 as there may be no bytes.
    pub fn check(&self) -> Result<(), PrefixError> {
        for (field, value) in
            [("epoch", self.epoch.get()), ("batch_id", self.batch_id.get()), ("last_seq", self.last_seq.get())]
        {
            if value == u64::MAX {
                return Err(PrefixError::new(field, 0, "a number that leaves room for the next one", value));
            }
        }
        match (self.epoch == Epoch::ZERO, self.owner == Owner::NOBODY) {
            (true, false) => return Err(PrefixError::new("owner", 0, "all zeros beside epoch 0", self.owner)),
            (false, true) => {
                let expected = format_args!("an owner beside epoch {}", self.epoch);
                return Err(PrefixError::new("owner", 0, expected, "all zeros"));
            }
            _ => {}
        }
        if self.epoch == Epoch::ZERO && self.batch_id != BatchId::ZERO {
            return Err(PrefixError::new("batch_id", 0, "0 beside epoch 0, under which nobody writes", self.batch_id));
        }
        if self.last_seq.get() < self.batch_id.get() {
            let expected = format_args!("at least {}, one entry for each batch", self.batch_id);
            return Err(PrefixError::new("last_seq", 0, expected, self.last_seq));
        }
        Ok(())
    }

    /// Whether Mooncake wrote it: batches under epoch 0. Before its first batch a log of Mooncake's is as empty as one of ours.
    #[must_use]
    pub fn is_mooncakes(&self) -> bool {
        self.epoch == Epoch::ZERO && self.batch_id != BatchId::ZERO
    }

    /// Whether both name the same safe boundary, whoever owns it.
    #[must_use]
    pub fn same_boundary(&self, other: &Self) -> bool {
        self.batch_id == other.batch_id && self.last_seq == other.last_seq
    }

    /// Whether claims and appends can make `later` of this prefix: no number fell, one epoch has one owner, and every further
    /// batch brought at least one entry (L3).
    #[must_use]
    pub fn may_become(&self, later: &Self) -> bool {
        let (batches, entries) =
            (later.batch_id.distance_from(self.batch_id), later.last_seq.distance_from(self.last_seq));
        later.epoch >= self.epoch
            && (later.epoch > self.epoch || later.owner == self.owner)
            && later.batch_id >= self.batch_id
            && later.last_seq >= self.last_seq
            && entries >= batches
            && (batches == 0) == (entries == 0)
    }
}

impl std::fmt::Display for DurablePrefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "epoch {} owner {} batch {} sequence {}", self.epoch, self.owner, self.batch_id, self.last_seq)
    }
}
