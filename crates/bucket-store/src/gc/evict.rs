//! Owns what eviction asks of whoever embeds the store: to agree that live objects go. RFC *bucket deletion* §5.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ha_types::ObjectIncarnation;

use crate::format::names::BucketId;

/// Agrees to evictions. Without one GC never evicts.
pub trait Evictor: Send + Sync + fmt::Debug + 'static {
    /// The objects of a bucket that are live, or were until they did not verify, are about to go, because nothing dead is left to reclaim
    /// and usage is too high. Called from
    /// `gc_step`, with no lock held that any other call needs: it may take its time, and may read, write and delete.
    ///
    /// `Ok` is final: the objects will go, and nobody may count on them from now on. They may still be read for a while. It may be
    /// called again for the same objects, after a crash that came before they went.
    ///
    /// # Errors
    /// Why the bucket must stay: it is live as before, and it is asked for again after a pause. A panic is taken for a refusal.
    fn evict(&self, bucket: BucketId, objects: &[EvictedObject]) -> Result<(), String>;
}

/// A live object of a bucket that is to be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictedObject {
    /// `tenant 0x00 user-key`.
    pub key: Arc<[u8]>,
    /// The object's name for all time.
    pub incarnation: ObjectIncarnation,
    /// Bytes of its value.
    pub value_len: u32,
}

/// Asks. A callback that panics has not agreed, and its bucket must not stay in the eviction's hands for that.
pub(super) fn ask(evictor: &dyn Evictor, bucket: BucketId, objects: &[EvictedObject]) -> Result<(), String> {
    let said = |panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
    };
    let asked = catch_unwind(AssertUnwindSafe(|| evictor.evict(bucket, objects)));
    asked.unwrap_or_else(|panic| Err(format!("the callback panicked: {}", said(panic))))
}
