//! Owns the publishing of a bucket's table: steps 3 to 8 of RFC *bucket deletion* §4, and the only way in which a tombstone gets to
//! disk outside of GC's commit. It must not decide which tombstones: `state::burial` does.

use std::sync::Arc;

use super::Store;
use super::data_sync::DataSync;
use super::state::{Engagement, SlotState};
use crate::crashsafe::{self, PublishError, Step};
use crate::error::{Problem, StoreError};
use crate::format::names::BucketId;
use crate::observer::Event;

impl Store {
    /// Makes the bucket's table durable with every tombstone that may be in it by now, and before it its data, where that was not yet.
    /// Does nothing if there is nothing to tell the disk, as when another call that held the lock has just done it, or if the bucket is
    /// gone: then ask the index again.
    ///
    /// # Errors
    /// `TABLE_BUSY` if it is not known whether GC has replaced the bucket, `DATA_BUSY` if its data is being written anew: nothing was
    /// touched. Else the disk's: the new table may or
    /// may not be in place, hidden records stay hidden, and the bucket is suspect until a publish succeeds.
    pub(crate) fn publish_table(&self, id: BucketId) -> Result<(), StoreError> {
        let Some(bucket) = self.state.read().bucket(id).map(|state| Arc::clone(state.bucket())) else { return Ok(()) };
        let mut publishing = bucket.publish.lock();
        let (publication, was_suspect) = {
            // Asked again under the lock: whoever held it may have published, or replaced the bucket (row B4).
            let state = self.state.read();
            let Some(bucket) = state.bucket(id) else { return Ok(()) };
            if bucket.engagement() == Engagement::Uncertain {
                return Err(Problem::TableBusy { bucket: id }.into());
            }
            // Steps 3 and 4: a copy of the table, marked. All that are hidden share this one write.
            match state.publication(id) {
                Some(publication) if !publication.tombstoned.is_empty() || !bucket.is_published() => {
                    (publication, bucket.suspicion().any())
                }
                _ => return Ok(()),
            }
        };
        if self.sync_data_of(&bucket, &mut publishing)? == DataSync::Lost {
            drop(publishing);
            return self.write_anew(&bucket);
        }
        let name = id.table_name();
        let bytes = publication.table.encode().map_err(|error| StoreError::unwritable(&*name, error))?;
        // A table that no delete waits for must not spend what deletes will need.
        let for_deletes = !publication.tombstoned.is_empty() || self.has_hidden(id);
        if let Err(error) = self.publish_counted(for_deletes, || self.try_table(id, &bytes)) {
            self.state.write().publish_failed(id);
            self.observer.event(&Event::BucketSuspect { bucket: id, reason: error.to_string() });
            return Err(error);
        }
        self.state.write().published(id, &publication.tombstoned);
        let trusted = || self.state.read().bucket(id).is_some_and(|bucket| !bucket.suspicion().any());
        if was_suspect && trusted() {
            self.observer.event(&Event::BucketTrusted { bucket: id });
        }
        if !publication.tombstoned.is_empty() {
            let tombstones = publication.tombstoned.len();
            self.observer.event(&Event::TombstonesPublished {
                bucket: id,
                tombstones,
                table_bytes: bytes.len() as u64,
            });
        }
        Ok(())
    }

    fn has_hidden(&self, id: BucketId) -> bool {
        self.state.read().bucket(id).is_some_and(|bucket| bucket.figures().of(SlotState::Hidden).records > 0)
    }

    /// Steps 5 to 8 for the intents: temporary file, sync, rename, sync of the directory. On a full disk the reserve is given up for it,
    /// and it is repeated from the start.
    ///
    /// # Errors
    /// As the disk says; the new bytes may or may not be in place.
    pub(crate) fn publish_intents(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.publish_counted(true, || crashsafe::publish(&*self.vfs, name, bytes))
    }

    /// The same for the table of a copy: on a full disk the reserve stays, and the copy is undone.
    ///
    /// # Errors
    /// As [`Store::publish_intents`].
    pub(crate) fn publish_copy(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.publish_counted(false, || crashsafe::publish(&*self.vfs, name, bytes))
    }

    fn publish_counted(
        &self,
        may_spend: bool,
        publish: impl Fn() -> Result<(), PublishError>,
    ) -> Result<(), StoreError> {
        let mut published = publish();
        // Another call may have spent the reserve since, and this one was too early for what that has freed.
        let helps = || self.reserve.spend(&*self.vfs, &*self.observer) || self.reserve.is_missing();
        if may_spend && published.as_ref().is_err_and(PublishError::is_no_space) && helps() {
            published = publish();
        }
        match published {
            Ok(()) => {
                self.health.succeeded();
                Ok(())
            }
            Err(error) => {
                self.health.failed(error.step.into(), &error.name, &error.source, &*self.observer);
                Err(error.into())
            }
        }
    }

    /// One attempt to publish a table. The sync of the directory that makes the first table of a bucket durable does so for the name of its
    /// data file too. Where such a sync has failed, perhaps another call's, that name is lost, and is given to the file anew: else there would
    /// be a durable table without data.
    pub(super) fn try_table(&self, id: BucketId, bytes: &[u8]) -> Result<(), PublishError> {
        let data_name = id.data_name();
        if !self.vfs.is_vouched(&data_name)
            && let Err(source) = self.vfs.renew(&data_name)
        {
            return Err(PublishError { name: data_name, step: Step::Rename, source });
        }
        crashsafe::publish(&*self.vfs, &id.table_name(), bytes)?;
        crashsafe::vouch(&*self.vfs, &data_name).map_err(|source| {
            let name = data_name.clone();
            PublishError { name, step: Step::SyncDir, source }
        })
    }
}
