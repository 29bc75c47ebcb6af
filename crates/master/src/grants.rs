//! Owns the order in which put grants run out, so that space of forgotten puts comes back without a pass.

use std::collections::BTreeMap;

use ha_types::{MonoTime, ObjectIncarnation};
use parking_lot::Mutex;

use crate::state::{Place, RunningPut};

/// One grant that has run out. Whether its put is still there is looked up in its shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) place: Place,
    pub(crate) incarnation: ObjectIncarnation,
}

/// The grants of all running puts, the first to run out first. There are no others: a put that ends takes its grant along, so
/// that the longest grant allowed does not decide how much memory ended puts hold.
#[derive(Debug, Default)]
pub(crate) struct Grants(Mutex<BTreeMap<(MonoTime, ObjectIncarnation), Place>>);

impl Grants {
    pub(crate) fn add(&self, put: &RunningPut) {
        self.0.lock().insert((put.ranges_until, put.incarnation), put.place);
    }

    /// The put has ended.
    pub(crate) fn forget(&self, put: &RunningPut) {
        self.0.lock().remove(&(put.ranges_until, put.incarnation));
    }

    /// One grant that has run out.
    pub(crate) fn next_due(&self, now: MonoTime) -> Option<Grant> {
        let mut grants = self.0.lock();
        let first = grants.first_entry().filter(|first| first.key().0 <= now)?;
        let ((_, incarnation), place) = first.remove_entry();
        Some(Grant { place, incarnation })
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use ha_kv::MemoryKv;
    use ha_types::{AlwaysLeads, ManualClock, ObjectKey, SeededEntropy, TenantId};
    use oplog_core::{BatchStorage, LogKeys, OpenOptions, Replica, WriterConfig, claim_and_verify};

    use crate::{ClientId, Master, MasterConfig, MasterState, MountSegment, Promise, PutStart, ServeEnv};

    async fn serving() -> Master {
        let (clock, entropy) = (Arc::new(ManualClock::new()), Arc::new(SeededEntropy::new(1)));
        let keys = LogKeys::of(&"test".parse().expect("a cluster id"));
        let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
        let storage = BatchStorage::open(Arc::new(MemoryKv::new()), keys, options).await.expect("a log");
        storage.create_first_prefix().await.expect("a first prefix");
        let replica = Replica::empty(MasterState::new());
        let pause = Duration::from_millis(1);
        let caught_up =
            claim_and_verify(storage, replica, &AlwaysLeads, &*clock, &*entropy, pause).await.expect("a claim");
        let (config, writer, guard, ttl) =
            (MasterConfig::default(), WriterConfig::default(), Arc::new(AlwaysLeads), Duration::from_secs(5));
        Master::serve(caught_up, ServeEnv { config, writer, clock, entropy, guard, ttl }).expect("a master")
    }

    #[tokio::test]
    async fn v5_a_put_that_has_ended_leaves_no_grant_behind_however_long_grants_are() {
        let master = serving().await;
        let (tenant, client) = (TenantId::default_tenant(), ClientId::new(1));
        let segment = "s".parse().expect("a segment id");
        let mount = MountSegment { segment, endpoint: "host:1".into(), base: 0, size: 1000 };
        master.mount_segment(mount).await.expect("a mount");
        for n in 0..10_u8 {
            let key = ObjectKey::new(&[b'k', n]).expect("a key");
            let start = PutStart { tenant: tenant.clone(), key: key.clone(), size: 1, replicas: 1, client };
            let put = master.put_start(&start).expect("a grant").incarnation;
            match n {
                0 => {}
                1..5 => master.put_revoke(&tenant, &key, put, client).expect("a revocation"),
                _ => master.put_end(&tenant, &key, put, client, Promise::Accepted).await.expect("an end"),
            }
        }
        assert_eq!(master.inner.grants.len(), 1, "of the put that runs");
    }
}
