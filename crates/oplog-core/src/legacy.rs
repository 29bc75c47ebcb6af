//! The per-entry log of before batch records (feature `legacy`): read, follow, write, and cut over from it (design §3.4).
//!
//! Nothing here writes a batch record, and nothing of the batch log writes an entry here: no entry is ever in both formats.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

mod base;
pub(crate) mod cutover;
mod entry;
mod follower;
mod key_order;
mod key_sequences;
mod latest;
mod log;
mod replica;
mod scan;
mod tail;
pub(crate) mod writer;

pub(crate) use base::above_base_fault;
pub use base::{base_of, entry_above_base};
pub use cutover::{
    CutoverCheck, CutoverDone, CutoverError, CutoverOptions, CutoverPlan, LegacyHole, OLD_PRIMARY_QUIET,
};
pub use entry::{LegacyEntry, LegacyEntryError, LegacyProblem, LegacyRefusal};
pub use follower::{BelowBase, LegacyFollower, LegacyGap, LegacyProgress, LegacyRound};
pub use key_order::{KeyDisorder, KeyReading, KeyStep};
pub use key_sequences::KeySequences;
pub(crate) use latest::parse_latest;
pub use log::{LegacyLog, LegacySnapshot};
pub use replica::LegacyReplica;
pub use scan::LegacyScan;
pub use tail::{TailBuffer, TailMiss};
pub use writer::{
    LegacyCommitError, LegacyStartError, LegacyStartFailed, LegacyTerminal, LegacyTicket, LegacyWriter,
    LegacyWriterConfig, LegacyWriterStatus,
};
