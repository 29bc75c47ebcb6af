//! Owns the removal of files for good. It must not decide which may go.

use std::io;

use super::error::{RemoveError, Step};
use super::publish;
use crate::vfs::Vfs;

/// Whether a removal of the same files has failed before, in this life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It has not: a name that is absent is durably absent.
    First,
    /// It has, so that a name may be absent and yet come back after a restart: the sync that failed may have dropped the change, and a later
    /// sync does not vouch for it. An absent name is therefore created and taken away anew, as a change that the next sync does vouch for.
    Repeated,
}

/// Takes `names` away and makes that durable. Absent names are no error.
///
/// A power loss meanwhile leaves any of them, and after [`Attempt::Repeated`] also an empty file of that name.
///
/// # Errors
/// [`RemoveError`]: any of them may be gone, none for certain; call it again with [`Attempt::Repeated`].
pub fn remove<S: AsRef<str>>(vfs: &dyn Vfs, names: &[S], attempt: Attempt) -> Result<(), RemoveError> {
    let Some(last) = names.last() else { return Ok(()) };
    let failed = |name: &str, step| {
        let name = name.to_owned();
        move |source| RemoveError { name, step, source }
    };
    for name in names.iter().map(AsRef::as_ref) {
        if attempt == Attempt::Repeated {
            match vfs.create(name) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(name, Step::Create)(error)),
            }
        }
        match vfs.unlink(name) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(name, Step::Unlink)(error)),
        }
    }
    vfs.sync_dir().map_err(failed(last.as_ref(), Step::SyncDir))?;
    for name in names.iter().map(AsRef::as_ref) {
        publish::vouch(vfs, name).map_err(failed(name, Step::SyncDir))?;
    }
    Ok(())
}
