//! Uses the crate as a fork does, by its public names only: what does not compile here any more breaks forks.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use ha_kv::test_kit::{Fault, FaultyKv, ManualClock, MemoryKv, OpKind, SeededEntropy};
use ha_kv::{KvErrorKind, TxnKv};
use ha_types::{Clock as _, ClusterId, LeaderGuard, MonoTime};
use oplog_core::record::{
    BatchCompression, BatchHeader, BatchRecord, BatchRef, EntryError, NoZstd, OpenBatch, RecordError, RecordErrorKind,
    SealError, UnknownCompression,
};
use oplog_core::{
    AppliedBatch, ApplyError, BatchId, BatchPage, BatchStorage, CaughtUp, Claim, ClaimError, ClaimFailed, ClaimedLog,
    Closed, CommitError, DrainError, DurablePrefix, EntryRef, Epoch, FaultKind, FirstPrefix, FollowError, LogError,
    LogKey, LogKeys, LogSize, NewEntry, OpenOptions, OrderedWriter, Outcome, Owner, Phase, Position, PrefixError,
    Refusal, Refusals, ReplayFault, Replica, Reservation, ReserveError, RestoreError, RootError, Seq, StageMetrics,
    StateMachine, TakeOverRefused, Terminal, Ticket, WriterConfig, WriterEnv, WriterMetrics, WriterStatus, catch_up,
    claim_and_verify,
};

fn shared<T: Debug + Send + Sync + 'static>() {}
fn error<T: Error + Send + Sync + 'static>() {}
fn movable<T: Send>(value: T) -> T {
    value
}

#[test]
fn what_is_handed_around_crosses_threads() {
    shared::<BatchStorage>();
    shared::<OpenOptions>();
    shared::<LogKeys>();
    shared::<LogKey>();
    shared::<LogSize>();
    shared::<BatchPage>();
    shared::<FirstPrefix>();
    shared::<DurablePrefix>();
    shared::<Position>();
    shared::<Replica<Last>>();
    shared::<AppliedBatch>();
    shared::<CaughtUp<Last>>();
    shared::<ClaimedLog>();
    shared::<Claim>();
    shared::<ClaimFailed<Last>>();
    shared::<OrderedWriter>();
    shared::<Reservation>();
    shared::<Ticket>();
    shared::<WriterConfig>();
    shared::<WriterEnv>();
    shared::<WriterStatus>();
    shared::<WriterMetrics>();
    shared::<StageMetrics>();
    shared::<Refusal>();
    shared::<Refusals>();
    shared::<Phase>();
    shared::<Closed>();
    shared::<Terminal>();
    shared::<FaultKind>();
    shared::<BatchRecord>();
    shared::<oplog_core::audit::AuditReport>();
    #[cfg(feature = "legacy")]
    {
        shared::<oplog_core::legacy::LegacyLog>();
        shared::<oplog_core::legacy::LegacyWriter>();
        shared::<oplog_core::legacy::LegacyTicket>();
        shared::<oplog_core::legacy::LegacyReplica<Last>>();
        shared::<oplog_core::legacy::CutoverOptions>();
    }
    #[cfg(feature = "mooncake")]
    shared::<oplog_core::TakeOver>();
}

#[test]
fn what_fails_is_an_error_that_can_be_boxed() {
    error::<ApplyError>();
    error::<ClaimError>();
    error::<CommitError>();
    error::<DrainError>();
    error::<EntryError>();
    error::<LogError>();
    error::<NoZstd>();
    error::<PrefixError>();
    error::<RecordError>();
    error::<ReplayFault>();
    error::<ReserveError>();
    error::<RestoreError>();
    error::<RootError>();
    error::<SealError>();
    error::<TakeOverRefused>();
    error::<UnknownCompression>();
    #[cfg(feature = "legacy")]
    {
        error::<oplog_core::legacy::CutoverError>();
        error::<oplog_core::legacy::LegacyCommitError>();
        error::<oplog_core::legacy::LegacyEntryError>();
        error::<oplog_core::legacy::LegacyRefusal>();
        error::<oplog_core::legacy::LegacyStartError>();
        error::<oplog_core::legacy::LegacyTerminal>();
        error::<oplog_core::legacy::TailMiss>();
    }
    #[cfg(feature = "mooncake")]
    error::<oplog_core::mooncake::ProducerViewError>();
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

const ENTRY: NewEntry<'static> = NewEntry { op_type: 1, tenant: "default", key: b"k", payload: b"p" };

/// A fork's whole way through the log, on the kit for tests. It names no runtime but the one that it brings itself.
#[tokio::test]
async fn a_fork_opens_claims_writes_waits_follows_and_stops() {
    let client = FaultyKv::new(Arc::new(MemoryKv::new()), 1);
    let store: Arc<dyn TxnKv> = client.clone();
    let keys = LogKeys::new("/fork", &ClusterId::new("c").expect("an id")).expect("a root");
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    let log = movable(BatchStorage::open(store, keys, options)).await.expect("opens");
    let first = movable(log.create_first_prefix()).await.expect("the first prefix");
    assert_eq!(first.prefix(), &DurablePrefix::FRESH);

    let clock = Arc::new(ManualClock::new());
    let env = WriterEnv { clock: clock.clone(), entropy: Arc::new(SeededEntropy::new(1)) };
    let empty = Replica::empty(Last::default());
    let pause = Duration::from_millis(1);
    let claiming = claim_and_verify(log.clone(), empty, &Leads, &*env.clock, &*env.entropy, pause);
    let (machine, claimed) = movable(claiming).await.expect("claimed").into_parts();
    assert_eq!(machine.last_applied(), Seq::ZERO);
    assert_eq!((claimed.claim().epoch, claimed.prefix().epoch), (Epoch::new(1), Epoch::new(1)));
    assert_ne!(claimed.claim().owner, Owner::new(0));

    let writer = OrderedWriter::start(claimed, WriterConfig::default(), env).map_err(|(_, why)| why).expect("starts");
    client.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
    let ticket: Ticket = movable(writer.ready()).await.expect("a place").commit(ENTRY).expect("committed");
    assert_eq!(movable(ticket).await, Outcome::Durable);
    let status: WriterStatus = writer.status().borrow().clone();
    assert!(status.accepting && status.closed.is_none() && status.terminal.is_none(), "{status:?}");
    let metrics: WriterMetrics = writer.metrics();
    assert_eq!((metrics.committed, metrics.recovered_unknown), (1, 1), "the lost reply was seen through: {metrics:?}");
    assert_eq!(metrics.refused.of(Refusal::Invalid), 0);

    let mut follower = Replica::empty(Last::default());
    let prefix = log.require_prefix().await.expect("a prefix");
    movable(catch_up(&log, &mut follower, &prefix, 1 << 20)).await.expect("caught up");
    assert_eq!((follower.applied(), follower.position().batch_id), (Seq::new(1), BatchId::new(1)));
    let again = Replica::restored(follower.into_machine(), Position::default());
    assert_eq!(again.expect_err("another position").machine, Seq::new(1));

    movable(writer.drain(clock.now().saturating_add(Duration::from_secs(1)))).await.expect("drained");
    movable(writer.stop()).await;
    assert!(matches!(writer.reserve(), Err(ReserveError::Unavailable { .. })));
}

#[test]
fn a_record_is_made_and_read_without_a_store() {
    let mut open = OpenBatch::new();
    open.push(&ENTRY).expect("an entry");
    let (batch_id, first_seq, epoch) = (BatchId::new(1), Seq::new(1), Epoch::new(1));
    let header = BatchHeader { batch_id, first_seq, epoch, prev_crc: 0, timestamp_ms: 0 };
    let sealed = open.seal(header).expect("sealed");
    let batch = BatchRef::decode(&sealed.bytes).expect("decodes");
    assert_eq!((batch.count(), batch.last_seq(), batch.compression()), (1, Seq::new(1), BatchCompression::Off));
    assert_eq!(batch.entries().next().map(|entry| entry.payload.to_vec()), Some(b"p".to_vec()));
    let torn = BatchRef::decode(&sealed.bytes[..sealed.bytes.len() - 1]).map(|_| ());
    let kind: RecordErrorKind = torn.expect_err("a byte is missing").kind;
    assert!(!format!("{kind:?}").is_empty());
}

/// What a caller of the writer decides by. An answer more breaks every fork that matches on them all, so it breaks this first.
#[test]
fn the_answers_are_these() {
    let settled = |outcome: Outcome| match outcome {
        Outcome::Durable | Outcome::Never => true,
        Outcome::Unknown => false,
    };
    assert!(settled(Outcome::Durable) && !settled(Outcome::Unknown));
    let worth_another_try = |error: ReserveError| match error {
        ReserveError::Unavailable { closed, .. } => closed != Closed::Ended,
        ReserveError::QueueFull => true,
        ReserveError::OutOfRange { .. } => false,
    };
    assert!(worth_another_try(ReserveError::QueueFull));
    assert!(!worth_another_try(ReserveError::Unavailable { closed: Closed::Ended, reason: String::new() }));
    let of_the_log = |error: FollowError| match error {
        LogError::Store(_) => false,
        LogError::Fault(_) | LogError::Refused(_) => true,
    };
    assert!(of_the_log(LogError::Fault(ReplayFault::new(FaultKind::BatchMissing, b"k", "batch 2", "nothing"))));
}
