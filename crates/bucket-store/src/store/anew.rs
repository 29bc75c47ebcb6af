//! Owns the putting in place anew of names that a process which has ended may have lost: after a sync of the directory that failed,
//! the system's cache can show what the disk will never have. Without this the next process would answer from it.

use std::io;

use crate::crashsafe;
use crate::error::{DiskOp, StoreError};
use crate::format::names::{BucketId, NameKind, RESERVE};
use crate::recovery::read_small;
use crate::vfs::{Vfs, lost_names};

/// Changes every such name again, and makes that durable. For the time after recovery and before the sweep, which removes the
/// evidence. It may be interrupted anywhere and begun again. Gives the buckets whose data files may have been under another name.
///
/// # Errors
/// As the disk says.
pub(super) fn put_in_place_anew(vfs: &dyn Vfs) -> Result<Vec<BucketId>, StoreError> {
    let entries = vfs.list().map_err(|error| StoreError::io(DiskOp::List, "the directory", error))?;
    let mut renewed = Vec::new();
    for name in lost_names(&entries) {
        match NameKind::of(&name) {
            NameKind::Table(_) | NameKind::Marker | NameKind::GcIntent | NameKind::IdHighWater => {
                publish_anew(vfs, &name)?;
            }
            // Its table never became durable: after a power loss in between there is nothing to miss.
            NameKind::Data(id) => match vfs.renew(&name) {
                Ok(()) => renewed.push(id),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(StoreError::io(DiskOp::Rename, name, error)),
            },
            NameKind::Reserve | NameKind::Temporary | NameKind::Strange => {}
        }
    }
    if !renewed.is_empty() {
        vfs.sync_dir().map_err(|error| StoreError::io(DiskOp::SyncDir, "the directory", error))?;
    }
    Ok(renewed)
}

/// On a full disk the reserve is spent: taking it again is tried when the store is open.
fn publish_anew(vfs: &dyn Vfs, name: &str) -> Result<(), StoreError> {
    // What is too long or cannot be read is not served either.
    let bytes = match read_small(vfs, name) {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => return Ok(()),
        // What was lost may also be that it was taken away.
        Err(error) if error.is_broken_disk() || error.is_missing_file() => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut published = crashsafe::publish(vfs, name, &bytes);
    if published.as_ref().is_err_and(crashsafe::PublishError::is_no_space) && vfs.unlink(RESERVE).is_ok() {
        published = crashsafe::publish(vfs, name, &bytes);
    }
    Ok(published?)
}
