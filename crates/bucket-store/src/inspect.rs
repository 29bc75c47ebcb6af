//! Owns looking at a directory that no store has open: what is in it, what is wrong with it, and what a store would do with it. It
//! changes nothing, but for [`repair`], and decides nothing of its own: what recovery and GC would do, recovery and GC say.
//!
//! ```no_run
//! use bucket_store::inspect::{FsckOptions, fsck, look};
//! use bucket_store::vfs::{Access, DiskDir};
//!
//! let dir = DiskDir::open("/mnt/ssd0/buckets".as_ref(), Access::Inspect)?;
//! let seen = look(&dir)?;
//! println!("{} live objects", seen.contents().live().records);
//! let report = fsck(&dir, &seen, &FsckOptions::default(), &mut |_| {});
//! for fault in report.faults.listed() {
//!     eprintln!("{fault}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adoption;
mod contents;
mod explain;
mod fault;
mod fsck;
mod look;
mod repair;
mod verify;

pub use adoption::{Adopting, adopting};
pub use contents::{Amount, BucketContents, Contents, RecordLook, RecordState};
pub use explain::{BucketExplained, Explanation, explain};
pub use fault::{Fault, FaultKind, Faults};
pub use fsck::{FsckOptions, FsckProgress, FsckReport, fsck};
pub use look::{BucketLook, Content, Look, MarkerLook, Standing, Unreadable, look};
pub use repair::{Repaired, repair};

#[cfg(test)]
mod tests;
