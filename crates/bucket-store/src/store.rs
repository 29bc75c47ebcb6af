//! Owns the running store: what it knows in memory and every call on it. How bytes look on disk is `format`'s.
//!
//! Locks, outermost first: GC's, a bucket's `publish` (several in id order), the index. Under the index lock there is no I/O and no
//! other lock; no lock is held over a long copy or while waiting for readers.

mod adopt;
mod anew;
pub(crate) mod bucket;
mod builder;
mod data_sync;
mod delete;
mod graves;
mod list;
mod numbers;
mod open;
mod open_files;
mod publish;
mod publish_table;
mod read;
pub(crate) mod state;
mod usage;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use ha_types::Clock;

use self::bucket::PhysicalBytes;
pub use self::builder::{Adoption, StoreBuilder};
pub use self::delete::{DeleteOutcome, DeleteRequest};
use self::graves::GravesFile;
pub(crate) use self::graves::{STILL_AWAY, still_away};
pub use self::list::{ListCursor, ListPage};
use self::numbers::Numbers;
use self::open::Quarantined;
pub use self::read::{ByteRange, ObjectInfo, ReadRequest};
use self::state::State;
pub use self::usage::Usage;
use self::write::Room;
pub use self::write::{WriteObject, WriteOutcome};
use crate::config::Config;
use crate::format::marker::Marker;
use crate::format::names::BucketId;
use crate::gc::Gc;
use crate::health::{Health, ReadOnlyReason};
use crate::observer::Observer;
use crate::reserve::Reserve;
use crate::sync::RwLock;
use crate::vfs::Vfs;

/// A directory of bucket files that is open. All calls block, and all take `&self`: share it with `Arc`.
///
/// Dropping it closes the directory. What `write` stored with [`Durability::Relaxed`](crate::Durability::Relaxed) and nothing has published
/// since is then not durable; call [`Store::publish_pending`] before.
#[derive(Debug)]
pub struct Store {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) config: Config,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) state: RwLock<State>,
    pub(crate) physical: PhysicalBytes,
    pub(crate) health: Health,
    pub(crate) reserve: Reserve,
    pub(crate) gc: Gc,
    numbers: Numbers,
    room: Room,
    identity: Marker,
    quarantined: BTreeMap<BucketId, Quarantined>,
    graves: GravesFile,
}

impl Store {
    /// Begins to open the directory of this storage. Time is told by `clock`.
    pub fn builder(identity: Marker, clock: Arc<dyn Clock>) -> StoreBuilder {
        StoreBuilder::new(identity, clock)
    }

    /// Whose directory it is.
    #[must_use]
    pub const fn identity(&self) -> &Marker {
        &self.identity
    }

    /// The settings.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Why the store changes nothing any more, if so. Reads go on; opening it again ends it.
    #[must_use]
    pub fn read_only(&self) -> Option<ReadOnlyReason> {
        self.health.read_only()
    }

    /// Buckets that are neither served nor touched, and why: a table that does not decode, or a file of the two that is missing.
    pub fn quarantined(&self) -> impl ExactSizeIterator<Item = (BucketId, &str)> {
        self.quarantined.iter().map(|(id, bucket)| (*id, &*bucket.reason))
    }
}
