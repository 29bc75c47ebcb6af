//! Owns every step by which a file of the directory is replaced or taken away for good: new file, write, sync, rename, sync of the
//! directory. It must not decide what is written, and it never syncs the same descriptor twice.

mod error;
mod publish;
mod remove;
mod temporary;

pub use error::{PublishError, RemoveError, Step};
pub use publish::publish;
pub(crate) use publish::vouch;
pub use remove::{Attempt, remove};
pub use temporary::{sweep, temporary_for, temporary_name};
