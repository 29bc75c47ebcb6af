//! Owns where a reader of the log stands.

use ha_types::{BatchId, Epoch, Seq};

/// The end of what a reader has applied, with the chain that the next batch must name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Position {
    /// The last batch applied; zero before the first.
    pub batch_id: BatchId,
    /// The last entry applied.
    pub last_seq: Seq,
    /// The epoch of that batch.
    pub epoch: Epoch,
    /// The CRC of that batch record; zero before the first.
    pub crc: u32,
}
