//! Owns what an open does with the intents that a crash left, before anything is swept or served. RFC *bucket deletion* §7.
//!
//! | round | what there is | what happens |
//! |---|---|---|
//! | PREPARED | every source has both files; of the target any or none | the target's files go, the sources stay as they are |
//! | PREPARED | a file of a source is missing | refused: the target may be the only copy |
//! | PREPARED | a file of a source is there, and damaged or not to be read | as the first: the source is authoritative, and the open does not serve it |
//! | COMMITTED with target | the target's table decodes, is the target's, and its data file is long enough | the sources' files go, whatever is left of them |
//! | COMMITTED with target | the target's table or data file is missing, does not decode, cannot be read or measured, or is too short | refused: the sources are all there is |
//! | COMMITTED, sources only | any or no file of the sources | they go |
//! | any | a bucket id that was never given out | refused |
//! | several | | each as above; all are checked before the first change |
//! | | no intent file | nothing |
//! | | an intent file that does not decode, or has an unknown version | refused |
//!
//! *Refused* leaves the directory byte by byte as it was. Whatever happens on the way, the next open meets a row of the same table.

mod apply;
mod decide;
mod survey;
#[cfg(test)]
mod tests;

pub use apply::{RecoveryReport, recover};
pub use decide::{Action, Decision, decide};
pub use survey::{DataFile, Survey, Unmeasured, survey};
pub(crate) use survey::{assumed_bytes, counted_bytes, measure, measured, read_small, unreadable};
