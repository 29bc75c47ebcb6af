//! Owns what is passed to an open: identity, settings, and the behaviours that come from outside. It opens nothing itself.

use std::sync::Arc;

use ha_types::Clock;

use super::Store;
use crate::config::Config;
use crate::error::StoreError;
use crate::format::marker::Marker;
use crate::gc::Evictor;
use crate::observer::{NoObserver, Observer};
use crate::vfs::Vfs;

/// What becomes of a directory that holds something and does not say whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Adoption {
    /// It is refused, and nothing in it is changed.
    #[default]
    Refuse,
    /// It is taken over for good: marked, its Mooncake tables read, and rewritten in this program's format as deletes and GC touch them.
    /// Mooncake cannot read it any more after that. Of a key that is in several buckets the record in the highest one counts, and the
    /// others are tombstoned before the directory is marked. Nothing is removed, and a bucket that cannot be read refuses it.
    OneWay,
}

/// A store that is about to be opened.
#[derive(Clone, Debug)]
#[must_use = "only `open` does something"]
pub struct StoreBuilder {
    pub(super) identity: Marker,
    pub(super) config: Config,
    pub(super) adoption: Adoption,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) evictor: Option<Arc<dyn Evictor>>,
}

impl StoreBuilder {
    pub(super) fn new(identity: Marker, clock: Arc<dyn Clock>) -> Self {
        let (config, adoption) = (Config::default(), Adoption::default());
        Self { identity, config, adoption, clock, observer: Arc::new(NoObserver), evictor: None }
    }

    /// The settings, instead of [`Config::default`].
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// What becomes of a directory without a marker, instead of refusing it.
    pub fn adoption(mut self, adoption: Adoption) -> Self {
        self.adoption = adoption;
        self
    }

    /// Who hears of events and figures, instead of nobody.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Who agrees to the eviction of live objects when nothing dead is left to reclaim. Without one nothing live is ever evicted.
    pub fn evictor(mut self, evictor: Arc<dyn Evictor>) -> Self {
        self.evictor = Some(evictor);
        self
    }

    /// Opens the directory: checks everything in it, ends what a crash left of GC, removes what no table names, and serves the rest.
    /// No record is read. An empty directory is marked as this storage's.
    ///
    /// The lock is `vfs`'s: whoever has made one has the directory for itself.
    ///
    /// # Errors
    /// * `CONFIG`: a setting is not allowed.
    /// * `MARKER_MISSING`, `MARKER_DAMAGED`, `OTHER_SEGMENT`, `OTHER_CLUSTER`: it is not this storage's directory.
    /// * `STRANGE_FILE`: it holds a name that neither this program nor Mooncake writes.
    /// * `UNKNOWN_VERSION`: a newer program has written to it.
    /// * `ADOPTS_ORPHAN`, `ADOPTS_UNREADABLE`, `ADOPTS_TOO_LARGE`: it is to be adopted, and a person must decide about a bucket before.
    /// * `INTENT_DAMAGED`, `INTENT_BUCKET_UNKNOWN`, `COMMITTED_TARGET_DAMAGED`, `PREPARED_SOURCE_MISSING`, `HIGH_WATER_DAMAGED`: a person
    ///   must decide.
    /// * `TOO_MANY_FILES`: this process may not have as many files open as there are buckets, and some more.
    /// * as the disk says.
    ///
    /// With all but the last, nothing in the directory was changed.
    pub fn open(self, vfs: Arc<dyn Vfs>) -> Result<Store, StoreError> {
        super::open::open(self, vfs)
    }
}
