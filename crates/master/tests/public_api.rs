//! Uses the crate as a fork does, by its public names only: what does not compile here any more breaks forks.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use ha_kv::test_kit::{ManualClock, MemoryKv, SeededEntropy};
use ha_types::{ClusterId, LeaderGuard, MonoTime, ObjectKey, TenantId};
use master::{
    ClientId, Contents, GetReply, ListPage, Master, MasterConfig, MasterError, MasterState, MasterStats, MountSegment,
    Policy, PolicyChange, Promise, PutGrant, PutStart, ReplicaRange, SegmentInfo, ServeEnv, ServeFailed, Serving,
};
use oplog_core::{BatchStorage, LogKeys, OpenOptions, Replica, StateMachine, WriterConfig, claim_and_verify};

fn shared<T: Debug + Send + Sync + 'static>() {}
fn error<T: Error + Send + Sync + 'static>() {}
fn state_machine<T: StateMachine>() {}
fn movable<T: Send>(value: T) -> T {
    value
}

#[test]
fn what_is_handed_around_crosses_threads_and_what_fails_is_an_error() {
    state_machine::<MasterState>();
    shared::<Master>();
    shared::<MasterConfig>();
    shared::<MasterState>();
    shared::<MasterStats>();
    shared::<Contents>();
    shared::<GetReply>();
    shared::<ListPage>();
    shared::<Policy>();
    shared::<PolicyChange>();
    shared::<PutGrant>();
    shared::<ReplicaRange>();
    shared::<SegmentInfo>();
    shared::<ServeEnv>();
    shared::<Serving>();
    error::<MasterError>();
    error::<ServeFailed>();
    #[cfg(feature = "mooncake")]
    {
        shared::<master::MooncakeContents>();
        shared::<master::MooncakeSegment>();
    }
}

/// A fork's election.
struct Leads;

impl LeaderGuard for Leads {
    fn serve_until(&self) -> Option<MonoTime> {
        Some(MonoTime::from_origin(Duration::MAX))
    }
    fn holds(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_fork_serves_objects_from_a_log_of_its_own() {
    let keys = LogKeys::of(&ClusterId::new("c").expect("an id"));
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    let log = BatchStorage::open(Arc::new(MemoryKv::new()), keys, options).await.expect("opens");
    log.create_first_prefix().await.expect("the first prefix");
    let (clock, entropy) = (Arc::new(ManualClock::new()), Arc::new(SeededEntropy::new(1)));
    let empty = Replica::empty(MasterState::new());
    let pause = Duration::from_millis(1);
    let caught_up = claim_and_verify(log, empty, &Leads, &*clock, &*entropy, pause).await.expect("claimed");
    let (config, writer) = (MasterConfig::default(), WriterConfig::default());
    let env = ServeEnv { config, writer, clock, entropy, guard: Arc::new(Leads), ttl: Duration::from_secs(5) };
    let master = Master::serve(caught_up, env).expect("serves");

    let segment = MountSegment {
        segment: "seg".parse().expect("an id"),
        endpoint: "10.0.0.1:9000".into(),
        base: 0,
        size: 1 << 20,
    };
    movable(master.mount_segment(segment)).await.expect("mounted");
    let (tenant, key) = (TenantId::default_tenant(), ObjectKey::new(b"k").expect("a key"));
    let absent = master.get(&tenant, &key, None).expect_err("nothing was put");
    assert_eq!((absent.code(), absent), ("OBJECT_NOT_FOUND", MasterError::ObjectNotFound { key: key.clone() }));

    let client = ClientId::new(1);
    let put = PutStart { tenant: tenant.clone(), key: key.clone(), size: 64, replicas: 1, client };
    let grant = master.put_start(&put).expect("there is space");
    let ended = master.put_end(&tenant, &key, grant.incarnation, client, Promise::Durable);
    movable(ended).await.expect("durable");
    assert_eq!(master.get(&tenant, &key, None).expect("it is there").replicas, grant.replicas);
    assert_eq!(*master.serving().borrow(), Serving::Open);
}
