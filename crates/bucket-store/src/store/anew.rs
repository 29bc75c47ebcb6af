//! Owns the putting in place anew of names that a process which has ended may have lost: after a sync of the directory that failed,
//! the system's cache can show what the disk will never have. Without this the next process would answer from it.

use std::io;

use crate::crashsafe::{self, Attempt};
use crate::error::{DiskOp, StoreError};
use crate::format::graves::Graves;
use crate::format::intent::Intents;
use crate::format::names::{BucketId, GC_INTENT, GRAVES, NameKind, RESERVE};
use crate::recovery::read_small;
use crate::vfs::{Vfs, note_anew};

/// What became of the names.
#[derive(Debug, Default)]
pub(super) struct Anew {
    /// Buckets whose data files may have been under another name.
    pub(super) renewed: Vec<BucketId>,
    /// Names that could not be put in place anew, since the disk does not give what they stand for: their notes must stay.
    pub(super) in_doubt: Vec<String>,
}

/// Puts the notes of these names in place anew. For the time before the first sync of an open, which makes them durable: what comes
/// after that may be interrupted only if the next open knows of it.
///
/// # Errors
/// As the disk says.
pub(super) fn note_all(vfs: &dyn Vfs, lost: &[String]) -> Result<(), StoreError> {
    lost.iter().try_for_each(|name| {
        note_anew(vfs, name).map_err(|error| StoreError::io(DiskOp::Rename, format!("the note of {name}"), error))
    })
}

/// Changes every lost name again, and makes that durable. For the time after recovery and before the sweep, which removes the
/// notes. It may be interrupted anywhere and begun again.
///
/// # Errors
/// As the disk says.
pub(super) fn put_in_place_anew(vfs: &dyn Vfs, lost: &[String]) -> Result<Anew, StoreError> {
    let mut anew = Anew::default();
    for name in lost {
        match NameKind::of(name) {
            NameKind::Table(_) | NameKind::Marker | NameKind::GcIntent | NameKind::IdHighWater | NameKind::Graves => {
                if !publish_anew(vfs, name)? {
                    anew.in_doubt.push(name.clone());
                }
            }
            // A power loss in between leaves it under its temporary name, and the note, by which this is repeated.
            NameKind::Data(id) => match vfs.renew(name) {
                Ok(()) => anew.renewed.push(id),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(StoreError::io(DiskOp::Rename, name, error)),
            },
            NameKind::Reserve | NameKind::Temporary | NameKind::Strange => {}
        }
    }
    if !anew.renewed.is_empty() {
        vfs.sync_dir().map_err(|error| StoreError::io(DiskOp::SyncDir, "the directory", error))?;
    }
    Ok(anew)
}

/// Whether it could be. On a full disk the reserve is spent: taking it again is tried when the store is open.
fn publish_anew(vfs: &dyn Vfs, name: &str) -> Result<bool, StoreError> {
    let bytes = match read_small(vfs, name) {
        Ok(Ok(bytes)) => bytes,
        // What is too long or cannot be read is not served either.
        Ok(Err(_)) => return Ok(false),
        Err(error) if error.is_broken_disk() => return Ok(false),
        Err(error) if error.is_missing_file() => return remove_anew(vfs, name),
        Err(error) => return Err(error),
    };
    replace(vfs, name, &bytes).map(|()| true)
}

/// What was lost may also be that it was taken away. Of all that is only the intents matter, as whatever else goes, goes while they name it,
/// and recovery has taken it away anew; and the graves, which must not come back and say of what was written since that it was deleted. They
/// are replaced by a file that says nothing: an empty one, which a power loss could leave, would be damage.
fn remove_anew(vfs: &dyn Vfs, name: &str) -> Result<bool, StoreError> {
    let nothing = match name {
        GC_INTENT => Intents::default().encode(),
        GRAVES => Graves::default().encode(),
        _ => return Ok(true),
    };
    replace(vfs, name, &nothing.map_err(|error| StoreError::unwritable(name, error))?)?;
    crashsafe::remove(vfs, &[name], Attempt::First)?;
    Ok(true)
}

fn replace(vfs: &dyn Vfs, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let mut published = crashsafe::publish(vfs, name, bytes);
    if published.as_ref().is_err_and(crashsafe::PublishError::is_no_space) && vfs.unlink(RESERVE).is_ok() {
        published = crashsafe::publish(vfs, name, bytes);
    }
    Ok(published?)
}
