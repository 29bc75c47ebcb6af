//! Owns the sweep of temporary files. It must not touch any other name.

use std::io;

pub use crate::format::names::{temporary_for, temporary_name};
use crate::vfs::{EntryKind, Vfs, is_broken_disk};

/// Takes away the temporary files of all files that are `ours`, and returns how many there were. For the time after recovery: no publish
/// may run meanwhile.
///
/// Nothing needs to be durable here: one that comes back is swept at the next open.
///
/// # Errors
/// As the system says; some may be gone. One that a broken disk does not let go is no error, and stays.
pub fn sweep(vfs: &dyn Vfs, ours: impl Fn(&str) -> bool) -> io::Result<usize> {
    let mut swept = 0;
    for entry in vfs.list()? {
        if entry.kind == EntryKind::File && temporary_for(&entry.name).is_some_and(&ours) {
            match vfs.unlink(&entry.name) {
                Ok(()) => swept += 1,
                // It is no harm where it is, and the next sweep tries again.
                Err(error) if is_broken_disk(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(swept)
}
