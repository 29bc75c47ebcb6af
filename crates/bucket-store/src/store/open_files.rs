//! Owns the question whether a store of so many buckets may have them all open, asked before anything is changed.

use crate::error::{Problem, StoreError};
use crate::vfs::Vfs;

/// Beside one open file for each bucket: the directory, temporary files, new buckets and targets of GC until somebody has raised the limit, and
/// what else the process opens.
const SPARE_FILES: u64 = 64;

/// Refuses a directory that would meet the limit of open files half-way through the open, or soon after it. Where the limit cannot be told, it
/// is not asked.
///
/// # Errors
/// `TOO_MANY_FILES`
pub(super) fn check_open_files(vfs: &dyn Vfs, buckets: usize) -> Result<(), StoreError> {
    let Some(files) = vfs.open_files() else { return Ok(()) };
    let buckets = buckets as u64;
    let needed = files.open.saturating_add(buckets).saturating_add(SPARE_FILES);
    if needed <= files.limit {
        return Ok(());
    }
    Err(Problem::TooFewFiles { limit: files.limit, needed, buckets, open: files.open }.into())
}
