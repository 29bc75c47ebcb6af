//! Owns a disk that is not there: what is durable and what is not, every state that a power loss may leave, and faults. It keeps
//! the weak promises of [`Vfs`](super::Vfs) to the letter and no stronger one. For tests: feature `test-kit`.
//!
//! ```
//! use bucket_store::crashsafe::publish;
//! use bucket_store::vfs::sim::{CrashStates, SimDisk};
//!
//! let disk = SimDisk::new();
//! let dir = disk.mount().unwrap();
//! publish(&dir, "file", b"old").unwrap();
//! disk.watch(|_, point| {
//!     for image in point.images(CrashStates::default()) {
//!         let bytes = image.bytes("file").unwrap();
//!         assert!(bytes == b"old" || bytes == b"new");
//!     }
//! });
//! publish(&dir, "file", b"new").unwrap();
//! ```

mod change;
mod content;
mod crash;
mod dir;
mod disk;
mod fault;
mod image;
mod op;
mod state;

pub use content::{BLOCK, UNIT};
pub use crash::{CrashPoint, CrashStates, Order};
pub use dir::SimDir;
pub use disk::{AlreadyMounted, SimDisk, nth, on};
pub use fault::{EIO, EMFILE, ENOSPC, Fault};
pub use image::Image;
pub use op::{Op, OpKind};
