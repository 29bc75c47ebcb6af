//! Owns the sweep of temporary files. It must not touch any other name.

use std::io;

pub use crate::format::names::{temporary_for, temporary_name};
use crate::vfs::{EntryKind, Vfs};

/// Takes away the temporary files of all files that are `ours`, and returns how many there were. For the time after recovery: no publish
/// may run meanwhile.
///
/// Nothing needs to be durable here: one that comes back is swept at the next open.
///
/// # Errors
/// As the system says; some may be gone.
pub fn sweep(vfs: &dyn Vfs, ours: impl Fn(&str) -> bool) -> io::Result<usize> {
    let mut swept = 0;
    for entry in vfs.list()? {
        if entry.kind == EntryKind::File && temporary_for(&entry.name).is_some_and(&ours) {
            vfs.unlink(&entry.name)?;
            swept += 1;
        }
    }
    Ok(swept)
}
