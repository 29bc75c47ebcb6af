//! Owns batch remove: many removals, each for itself, waited for together.

use ha_types::{ObjectKey, TenantId};

use super::remove::Removal;
use crate::{Master, MasterError, Promise};

impl Master {
    /// Removes many objects of one tenant, each for itself; the results are in the order of the keys. The batch is not atomic.
    /// A key that occurs twice is found once.
    ///
    /// # Errors
    /// [`MasterError::Invalid`] for no key or more than the limit, [`MasterError::NotLeader`] and [`MasterError::RetryAfter`]
    /// for a node that takes no writes; then nothing has changed. All else is reported per key.
    ///
    /// # Cancel safety
    /// See [`Master`]: keys already committed are on their way, the others untouched.
    pub async fn batch_remove(
        &self,
        tenant: &TenantId,
        keys: &[ObjectKey],
        promise: Promise,
    ) -> Result<Vec<Result<(), MasterError>>, MasterError> {
        let inner = &self.inner;
        let most = inner.config.max_batch_remove_keys;
        if keys.is_empty() || keys.len() > most {
            return Err(MasterError::Invalid(format!("{} keys are to be removed; give 1 to {most}", keys.len())));
        }
        let _pass = inner.enter_write()?;
        let mut begun: Vec<Result<Removal, MasterError>> = Vec::with_capacity(keys.len());
        for key in keys {
            begun.push(match inner.bulk_admission().await {
                Ok(slot) => inner.refusal(inner.begin_removal(tenant, key, slot)),
                Err(e) => Err(e),
            });
        }
        let mut results = Vec::with_capacity(keys.len());
        for (key, removal) in keys.iter().zip(begun) {
            results.push(match removal {
                Ok(removal) => inner.finish_removal(key, removal, promise).await,
                Err(e) => Err(e),
            });
        }
        Ok(results)
    }
}
