//! Uses the crate as a fork does, by its public names only: what does not compile here any more breaks forks.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use ha_kv::test_kit::{ManualClock, MemoryKv, SeededEntropy};
use ha_types::{ClusterId, LeaderGuard, MonoTime};
use oplog_core::{
    ApplyError, BatchStorage, CaughtUp, EntryRef, LogKeys, OpenOptions, Position, Replica, Seq, StateMachine,
};
use standby::{
    Fault, FaultKind, Health, Leftovers, LogFormat, NotClose, Observer, PromoteError, Refused, Standby, StandbyConfig,
    StandbyConfigError, StandbyEnv, StandbyError, StandbyMetrics, Step, StepError,
};

fn shared<T: Debug + Send + Sync + 'static>() {}
fn error<T: Error + Send + Sync + 'static>() {}
fn movable<T: Send>(value: T) -> T {
    value
}

#[test]
fn what_is_handed_around_crosses_threads_and_what_fails_is_an_error() {
    shared::<Standby<Last>>();
    shared::<Observer>();
    shared::<StandbyConfig>();
    shared::<StandbyEnv>();
    shared::<StandbyMetrics>();
    shared::<Health>();
    shared::<FaultKind>();
    error::<Fault>();
    error::<NotClose>();
    error::<PromoteError>();
    error::<Refused<Last>>();
    error::<StandbyConfigError>();
    error::<StandbyError>();
    error::<StepError>();
    #[cfg(feature = "legacy")]
    shared::<standby::LegacyConfig>();
}

/// The smallest state of a fork.
#[derive(Debug, Default)]
struct Last(Seq);

impl StateMachine for Last {
    fn last_applied(&self) -> Seq {
        self.0
    }
    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        self.0 = entry.seq;
        Ok(())
    }
}

/// A fork's election, won or lost.
struct Leads(bool);

impl LeaderGuard for Leads {
    fn serve_until(&self) -> Option<MonoTime> {
        self.0.then(|| MonoTime::from_origin(Duration::MAX))
    }
    fn holds(&self) -> bool {
        self.0
    }
}

#[tokio::test(start_paused = true)]
async fn a_fork_follows_is_refused_and_is_promoted() {
    let store = Arc::new(MemoryKv::new());
    let keys = LogKeys::of(&ClusterId::new("c").expect("an id"));
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    let log = BatchStorage::open(store.clone(), keys, options).await.expect("opens");
    let env = StandbyEnv {
        clock: Arc::new(ManualClock::new()),
        entropy: Arc::new(SeededEntropy::new(1)),
        watch: Some(store),
    };
    let replica = Replica::empty(Last::default());
    let mut standby = Standby::new(log.clone(), replica, StandbyConfig::default(), env).expect("starts");
    let observer = standby.observer();

    assert!(matches!(movable(standby.step()).await.expect("a round"), Step::Empty));
    log.create_first_prefix().await.expect("the first prefix");
    assert!(matches!(movable(standby.step()).await.expect("a round"), Step::Reached(_)));
    movable(observer.close_to_prefix()).await.expect("nothing is missing");
    assert_eq!(*observer.health().borrow(), Health::Following { lag: 0 });
    assert_eq!(standby.position(), Position::default());

    let refused: Box<Refused<Last>> = movable(standby.promote(&Leads(false))).await.expect_err("not the leader");
    assert!(matches!(refused.error, PromoteError::NotLeader));
    let caught_up: CaughtUp<Last> = movable(refused.standby.promote(&Leads(true))).await.expect("promoted");
    assert_eq!(caught_up.machine().last_applied(), caught_up.prefix().last_seq);
}

#[test]
fn the_table_of_formats_is_asked_without_a_store() {
    assert_eq!(LogFormat::decide(None, Leftovers::default()), LogFormat::Empty);
}
