//! Owns the record of a put that was started and has not ended. It is never logged: a successor does not know it.

use ha_types::{MonoTime, ObjectIncarnation};

use crate::ClientId;
use crate::state::{KeyBytes, Place, Replicas, TenantIx};

/// A put that was started and has not ended.
#[derive(Debug)]
pub(crate) struct RunningPut {
    pub(crate) place: Place,
    pub(crate) key: KeyBytes,
    pub(crate) tenant: TenantIx,
    pub(crate) incarnation: ObjectIncarnation,
    pub(crate) client: ClientId,
    pub(crate) size: u64,
    pub(crate) replicas: Replicas,
    /// The last moment at which it may end.
    pub(crate) granted_until: MonoTime,
    /// From when on nobody writes into its ranges any more: the grant and the margin between clocks.
    pub(crate) ranges_until: MonoTime,
}

impl RunningPut {
    pub(crate) fn is(&self, tenant: TenantIx, key: &[u8]) -> bool {
        self.tenant == tenant && *self.key == *key
    }

    pub(crate) fn runs(&self, now: MonoTime) -> bool {
        now <= self.granted_until
    }
}
