//! Owns cutting one record in two: what a writer does when a store takes less than it said.

use super::batch_ref::BatchRef;
use super::entry_error::EntryError;
use super::error::{RecordError, RecordErrorKind};
use super::inflated::Inflated;
use super::open_batch::OpenBatch;
use crate::{EntryRef, NewEntry};

/// The first `keep` entries of `record` and the rest, each as a batch to be sealed anew under the same sequences.
///
/// # Errors
/// [`RecordError`] if `record` is none, or `keep` is not between 1 and its number of entries − 1.
pub fn split(record: &[u8], keep: usize) -> Result<(OpenBatch, OpenBatch), RecordError> {
    let mut room = Inflated::new();
    let batch = BatchRef::decode_in(record, &mut room)?;
    if !(1..batch.count()).contains(&keep) {
        let expected = format_args!("1 to {} entries to keep", batch.count().saturating_sub(1));
        return Err(RecordError::new(RecordErrorKind::Constraint, "split", 0, expected, keep));
    }
    let (mut first, mut rest) = (OpenBatch::new(), OpenBatch::new());
    for (index, entry) in batch.entries().enumerate() {
        let part = if index < keep { &mut first } else { &mut rest };
        part.push(&NewEntry::from(entry)).map_err(|e: EntryError| {
            RecordError::new(RecordErrorKind::Constraint, "entry", 0, "an entry that fits where it was", e)
        })?;
    }
    Ok((first, rest))
}

impl<'a> From<EntryRef<'a>> for NewEntry<'a> {
    fn from(entry: EntryRef<'a>) -> Self {
        Self { op_type: entry.op_type, tenant: entry.tenant, key: entry.key, payload: entry.payload }
    }
}
