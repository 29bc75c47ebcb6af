//! Owns the replacement of a file as a whole. It must not repeat anything: the caller decides when to try again.

use std::io;

use super::error::{PublishError, Step};
use super::temporary::temporary_name;
use crate::vfs::{Vfs, VfsFile};

/// Puts a file of `bytes` in the place of `name`, old or new and never mixed at every power loss. On success it is durable.
///
/// After a failure call it again to repeat everything from the start, with a new temporary file and a newly opened directory: a second sync
/// of a descriptor whose sync failed may lie. Two calls for one name must not run at once.
///
/// # Errors
/// [`PublishError`] names the step; [`PublishError::may_be_in_place`] says whether the old file is still there for certain.
pub fn publish(vfs: &dyn Vfs, name: &str, bytes: &[u8]) -> Result<(), PublishError> {
    let failed = |step| move |source| PublishError { name: name.to_owned(), step, source };
    let (temporary, file) = create(vfs, name).map_err(failed(Step::Create))?;
    let in_place = fill(&*file, bytes)
        .and_then(|()| vfs.rename(&temporary, name).map_err(|error| (Step::Rename, error)))
        .map_err(|(step, source)| failed(step)(source));
    if in_place.is_err() {
        // What is left is swept at the next open; it is taken away here for the sake of a full disk.
        drop(file);
        let _ = vfs.unlink(&temporary);
        return in_place;
    }
    // Its descriptor may be the last one that there is, and the sync needs one.
    drop(file);
    vfs.sync_dir().and_then(|()| vouch(vfs, name)).map_err(failed(Step::SyncDir))
}

/// Fails if the sync of the directory that has just succeeded is worth nothing for `name`.
pub(crate) fn vouch(vfs: &dyn Vfs, name: &str) -> io::Result<()> {
    if vfs.is_vouched(name) { Ok(()) } else { Err(io::Error::other("another sync of the directory failed meanwhile")) }
}

fn create(vfs: &dyn Vfs, name: &str) -> io::Result<(String, std::sync::Arc<dyn VfsFile>)> {
    let mut number = 0_u64;
    loop {
        let temporary = temporary_name(name, number);
        match vfs.create(&temporary) {
            // The rest of an earlier attempt that could not be taken away; its descriptor is not trusted any more.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            other => return other.map(|file| (temporary, file)),
        }
    }
}

fn fill(file: &dyn VfsFile, bytes: &[u8]) -> Result<(), (Step, io::Error)> {
    file.write_all_at(bytes, 0).map_err(|error| (Step::Write, error))?;
    file.sync_data().map_err(|error| (Step::SyncData, error))
}
