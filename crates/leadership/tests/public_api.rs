//! Uses the crate as a fork does, by its public names only: what does not compile here any more breaks forks.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use ha_kv::test_kit::{ManualClock, MemoryKv, SeededEntropy};
use ha_kv::{LeaseKv, WatchKv};
use ha_types::{Clock as _, LeaderGuard, MonoTime};
use leadership::{
    CampaignError, ElectionConfig, ElectionConfigError, ElectionMetrics, Elector, LeaderAddress, LeaderAddressError,
    Leadership, LossReason, Resignation, StopRule, StopVerdict,
};

fn shared<T: Debug + Send + Sync + 'static>() {}
fn error<T: Error + Send + Sync + 'static>() {}
fn movable<T: Send>(value: T) -> T {
    value
}

#[test]
fn what_is_handed_around_crosses_threads_and_what_fails_is_an_error() {
    shared::<Elector>();
    shared::<Leadership>();
    shared::<ElectionConfig>();
    shared::<ElectionMetrics>();
    shared::<Resignation>();
    shared::<StopRule>();
    error::<CampaignError>();
    error::<ElectionConfigError>();
    error::<LeaderAddressError>();
    error::<LossReason>();
}

#[tokio::test(start_paused = true)]
async fn a_fork_campaigns_leads_and_resigns() {
    let clock = Arc::new(ManualClock::new());
    let memory = Arc::new(MemoryKv::with_clock(clock.clone()));
    let (lease, watch): (Arc<dyn LeaseKv>, Arc<dyn WatchKv>) = (memory.clone(), memory);
    let config = ElectionConfig { ttl: Duration::from_secs(3), ..ElectionConfig::default() };
    let entropy = Arc::new(SeededEntropy::new(1));
    let elector = Elector::new(lease, "leader".into(), "us".into(), config, clock.clone(), entropy)
        .expect("a valid configuration")
        .with_watch(watch);

    let leadership = movable(elector.campaign()).await.expect("nobody else campaigns");
    let guard: Arc<dyn LeaderGuard> = leadership.guard();
    assert!(guard.holds() && guard.serve_until() > Some(clock.now()));
    assert_eq!(movable(elector.leader()).await.expect("a read").as_deref(), Some(&b"us"[..]));
    assert_eq!(movable(leadership.resign()).await, Resignation::HandedOver);
    assert_eq!(movable(leadership.lost()).await, LossReason::Resigned);
    assert!(!guard.holds(), "and never again");
}

#[test]
fn a_leader_is_reached_at_an_address_that_was_checked() {
    let address: LeaderAddress = "10.0.0.1:7400".parse().expect("an address");
    assert_eq!((address.as_str(), LeaderAddress::decode(b"10.0.0.1:7400")), ("10.0.0.1:7400", Ok(address.clone())));
    let error = LeaderAddress::decode(b"10.0.0.1").expect_err("no port");
    assert_eq!((error.field, error.offset), ("port", 8), "{error}");
}

#[test]
fn a_configuration_that_cannot_be_is_refused_before_anything_is_asked() {
    let config = ElectionConfig { ttl: Duration::ZERO, ..ElectionConfig::default() };
    let refused: Box<dyn Error + Send + Sync> = config.validate().expect_err("no time to lead").into();
    assert!(refused.to_string().contains("ttl"), "{refused}");
}

#[test]
fn the_stop_rule_is_asked_without_an_election() {
    let rule = StopRule::new(Duration::from_secs(3));
    let now = MonoTime::from_origin(Duration::from_secs(10));
    assert!(matches!(rule.verdict(now, None), StopVerdict::KeepOn));
    assert!(matches!(rule.verdict(now, Some(MonoTime::ZERO)), StopVerdict::Stop { .. }));
}
