//! Uses the crate as a fork does, by its public names only: what does not compile here any more breaks forks.

use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::str::FromStr;
use std::time::Duration;

use ha_types::{
    Backoff, BatchId, Clock, ClusterId, ClusterIdError, Entropy, Epoch, LeaderGuard, MonoTime, ObjectIncarnation,
    ObjectKey, ObjectKeyError, OpType, Owner, SegmentId, SegmentIdError, Seq, TenantId, TenantIdError, UnknownOpType,
};

fn shared<T: Send + Sync + ?Sized + 'static>() {}
fn number<T: Copy + Debug + Display + Eq + Ord + Hash + Send + Sync + 'static>() {}
fn id<T>()
where
    T: Clone + Debug + Display + Eq + Ord + Hash + Send + Sync + FromStr<Err: Error + Send + Sync> + 'static,
{
}
fn error<T: Error + Clone + PartialEq + Send + Sync + 'static>() {}

#[test]
fn what_is_handed_around_crosses_threads() {
    number::<Seq>();
    number::<BatchId>();
    number::<Epoch>();
    number::<OpType>();
    id::<ClusterId>();
    id::<SegmentId>();
    id::<TenantId>();
    error::<ClusterIdError>();
    error::<ObjectKeyError>();
    error::<SegmentIdError>();
    error::<TenantIdError>();
    error::<UnknownOpType>();
    shared::<Owner>();
    shared::<ObjectIncarnation>();
    shared::<ObjectKey>();
    shared::<Backoff>();
    shared::<dyn Clock>();
    shared::<dyn Entropy>();
    shared::<dyn LeaderGuard>();
    #[cfg(feature = "system")]
    {
        shared::<ha_types::SystemClock>();
        shared::<ha_types::SystemEntropy>();
    }
    #[cfg(feature = "test-kit")]
    {
        shared::<ha_types::ManualClock>();
        shared::<ha_types::SeededEntropy>();
    }
}

/// What a fork brings instead of ours: a clock, a generator, and whatever elects its leader.
#[derive(Debug)]
struct Own;

impl Clock for Own {
    fn now(&self) -> MonoTime {
        MonoTime::from_origin(Duration::from_secs(5))
    }
    fn unix_ms(&self) -> u64 {
        0
    }
}

impl Entropy for Own {
    fn next_u64(&self) -> u64 {
        u64::MAX
    }
}

impl LeaderGuard for Own {
    fn serve_until(&self) -> Option<MonoTime> {
        Some(self.now().saturating_add(Duration::from_secs(1)))
    }
    fn holds(&self) -> bool {
        self.serve_until() > Some(self.now())
    }
}

#[test]
fn a_fork_brings_its_own_time_randomness_and_election() {
    let (clock, entropy, guard): (&dyn Clock, &dyn Entropy, &dyn LeaderGuard) = (&Own, &Own, &Own);
    assert!(guard.holds());
    assert_eq!(clock.now().saturating_since(MonoTime::ZERO), Duration::from_secs(5));
    let (min, max) = (Duration::from_millis(10), Duration::from_millis(40));
    let mut backoff = Backoff::new(min, max);
    for _ in 0..10 {
        assert!(backoff.next_pause(entropy) <= max, "whatever the generator draws");
    }
    backoff.reset();
}

#[test]
fn counters_end_instead_of_wrapping() {
    assert_eq!(Seq::new(u64::MAX).next(), None);
    assert_eq!(BatchId::new(1).checked_add(2).map(BatchId::get), Some(3));
    assert_eq!(Epoch::new(7).next().map(Epoch::get), Some(8));
    assert_eq!(Seq::new(3).distance_from(Seq::ZERO), 3);
    assert_eq!(Owner::new(1).get(), 1);
}

#[test]
fn ids_serve_as_keys_and_are_found_by_borrowed_text() {
    let clusters = HashSet::from([ClusterId::new("a").expect("an id")]);
    assert!(clusters.contains("a"));
    let keys = BTreeSet::from([ObjectKey::new(b"\xff").expect("a key")]);
    assert!(keys.contains(&b"\xff"[..]));
    assert_eq!(TenantId::default_tenant().as_str().parse(), Ok(TenantId::default_tenant()));
    let incarnation = ObjectIncarnation::of_claim(Epoch::new(1), Owner::new(2), 3).expect("in range");
    assert_eq!(ObjectIncarnation::from_bytes(incarnation.to_bytes()), incarnation);
}

#[test]
fn op_types_go_to_numbers_and_back() {
    for op in OpType::ALL {
        assert_eq!(OpType::try_from(op.number()), Ok(*op), "{}", op.name());
    }
    let refused: Box<dyn Error + Send + Sync> = OpType::try_from(255).expect_err("none of ours").into();
    assert!(refused.to_string().contains("255"));
}
