//! Owns listing a tenant's objects, page by page.

use std::collections::BTreeMap;

use ha_types::{ObjectKey, TenantId};

use crate::inner::Inner;
use crate::state::{Shard, TenantIx};
use crate::{ListPage, ListedObject, Master, MasterError, locks};

impl Master {
    /// One page of the readable objects of a tenant, in byte order of their keys, after `start_after`. What is there during the
    /// whole call is in it; what comes or goes meanwhile may be. Grants no lease.
    ///
    /// A page takes a pass over all objects, a shard at a time: this is for people and audits.
    ///
    /// # Errors
    /// [`MasterError::Invalid`] for a limit of 0 or above the configured one, [`MasterError::NotLeader`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn list(
        &self,
        tenant: &TenantId,
        start_after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<ListPage, MasterError> {
        let inner = &*self.inner;
        let most = inner.config.max_list_page;
        if limit == 0 || limit > most {
            return Err(MasterError::Invalid(format!("{limit} keys a page were asked for; give 1 to {most}")));
        }
        inner.check_serving()?;
        let tenant = inner.state.tenants.read().get(tenant.as_str());
        let mut page = Page { after: start_after.map(ObjectKey::as_bytes), limit, first: BTreeMap::new(), more: false };
        if let Some(tenant) = tenant {
            for shard in 0..inner.state.shards.count() {
                inner.state.shards.with_shard(shard, |shard| page.add_from(inner, shard, tenant));
                if shard % 32 == 31 {
                    locks::assert_none_held();
                    tokio::task::yield_now().await;
                }
            }
        }
        inner.check_serving()?;
        Ok(ListPage { objects: page.first.into_values().collect(), more: page.more })
    }
}

/// The first keys seen so far.
struct Page<'a> {
    after: Option<&'a [u8]>,
    limit: usize,
    first: BTreeMap<Box<[u8]>, ListedObject>,
    more: bool,
}

impl Page<'_> {
    fn add_from(&mut self, inner: &Inner, shard: &Shard, tenant: TenantIx) {
        let segments = inner.state.segments.read();
        for object in shard.objects().filter(|o| o.tenant == tenant) {
            let key = &*object.key;
            if self.after.is_some_and(|after| key <= after) || !object.is_readable(&segments) {
                continue;
            }
            if self.first.len() == self.limit {
                self.more = true;
                match self.first.last_entry() {
                    Some(last) if key < &**last.key() => drop(last.remove()),
                    _ => continue,
                }
            }
            let listed = ListedObject {
                key: ObjectKey::new(key).expect("only valid keys are stored"),
                incarnation: object.incarnation,
                size: object.size,
                replicas: object.statuses(&segments).count(),
            };
            self.first.insert(key.into(), listed);
        }
    }
}
