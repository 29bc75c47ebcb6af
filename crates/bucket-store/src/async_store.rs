//! Owns the store for callers that must not block: every call runs on the runtime's threads for blocking work, at most so many at once.
//! It adds no rule of the store.

use std::panic;
use std::sync::Arc;
use std::time::Duration;

use ha_types::ObjectIncarnation;
use tokio::sync::Semaphore;

use crate::error::StoreError;
use crate::gc::GcStep;
use crate::store::{ByteRange, DeleteOutcome, DeleteRequest, ReadRequest, Store, Usage, WriteObject, WriteOutcome};

/// A [`Store`] on a tokio runtime. Cheap to clone; all clones share one bound.
///
/// At most [`Config::blocking_calls`](crate::Config::blocking_calls) of its calls run at once; the others wait in line, in the order they came.
///
/// # Cancel safety
/// A future that is dropped while it waits in line has done nothing. One that is dropped later does not end its operation: that
/// runs to its end and keeps its place in the bound until then, and nobody hears of the outcome. It is as with a lost reply: call it
/// again, and a write or delete that did happen says so.
#[derive(Clone, Debug)]
pub struct AsyncStore {
    store: Arc<Store>,
    places: Arc<Semaphore>,
}

/// An object to write, see [`WriteObject`].
#[derive(Clone, Debug)]
pub struct OwnedObject {
    /// Its storage key.
    pub key: Arc<[u8]>,
    /// Its name for all time.
    pub incarnation: ObjectIncarnation,
    /// Its bytes.
    pub value: Arc<[u8]>,
    /// Objects of one hint share a bucket.
    pub placement: Option<u64>,
}

/// What to read, see [`ReadRequest`].
#[derive(Clone, Debug)]
pub struct OwnedRead {
    /// The storage key.
    pub key: Arc<[u8]>,
    /// Only this incarnation will do.
    pub incarnation: Option<ObjectIncarnation>,
    /// A part of the value.
    pub range: Option<ByteRange>,
}

impl AsyncStore {
    /// Wraps a store.
    #[must_use]
    pub fn new(store: Arc<Store>) -> Self {
        let places = Arc::new(Semaphore::new(store.config().blocking_calls));
        Self { store, places }
    }

    /// The store itself, for calls that do not touch the disk: [`Store::find`], [`Store::list`], [`Store::figures`], [`Store::read_only`]. Every
    /// other one blocks: give it to [`AsyncStore::run`].
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Runs any work on the store.
    ///
    /// Once the runtime shuts down, work that has not begun never will, and the future never ends.
    ///
    /// # Panics
    /// If `work` does.
    ///
    /// # Cancel safety
    /// As said at [`AsyncStore`].
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce(&Store) -> T + Send + 'static) -> T {
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
            unreachable!("nobody closes the line");
        };
        let store = Arc::clone(&self.store);
        let running = tokio::task::spawn_blocking(move || {
            // Kept by the work, not by the future: a dropped future does not let one more in.
            let _place = place;
            work(&store)
        });
        match running.await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => panic::resume_unwind(panic),
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// [`Store::write`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As said at [`AsyncStore`].
    pub async fn write(&self, objects: Vec<OwnedObject>) -> Result<Vec<WriteOutcome>, StoreError> {
        self.run(move |store| {
            let borrowed = objects.iter().map(|OwnedObject { key, incarnation, value, placement }| WriteObject {
                key,
                incarnation: *incarnation,
                value,
                placement: *placement,
            });
            store.write(&borrowed.collect::<Vec<_>>())
        })
        .await
    }

    /// [`Store::read`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As said at [`AsyncStore`].
    pub async fn read(&self, what: OwnedRead) -> Result<Vec<u8>, StoreError> {
        self.run(move |store| {
            let OwnedRead { key, incarnation, range } = &what;
            store.read(&ReadRequest { key, incarnation: *incarnation, range: *range })
        })
        .await
    }

    /// [`Store::delete`] of these keys and incarnations.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As said at [`AsyncStore`].
    pub async fn delete(&self, objects: Vec<(Arc<[u8]>, ObjectIncarnation)>) -> Result<Vec<DeleteOutcome>, StoreError> {
        self.run(move |store| {
            let requests = objects.iter().map(|(key, incarnation)| DeleteRequest { key, incarnation: *incarnation });
            store.delete(&requests.collect::<Vec<_>>())
        })
        .await
    }

    /// [`Store::publish_pending`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As said at [`AsyncStore`].
    pub async fn publish_pending(&self) -> Result<usize, StoreError> {
        self.run(Store::publish_pending).await
    }

    /// [`Store::usage`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As said at [`AsyncStore`].
    pub async fn usage(&self) -> Result<Usage, StoreError> {
        self.run(Store::usage).await
    }

    /// Drives GC for ever: step after step while there is something to do, and a look after each `idle` while there is not. Spawn it once.
    ///
    /// # Cancel safety
    /// Dropping it ends GC after the step that runs; what is half done is gone on with by whoever steps next.
    pub async fn drive_gc(&self, idle: Duration) {
        loop {
            match self.run(Store::gc_step).await {
                GcStep::Again => tokio::task::yield_now().await,
                GcStep::Wait(pause) => tokio::time::sleep(pause).await,
                GcStep::Idle(_) | GcStep::Busy | GcStep::ReadOnly => tokio::time::sleep(idle).await,
            }
        }
    }
}
