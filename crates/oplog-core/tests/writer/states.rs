//! Stop and drain in every state of the writer: each [`Phase`], each [`Terminal`], and what may stand beside them. Every state is
//! brought about, required by name, and left in both ways.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ha_kv::KvErrorKind;
use ha_kv::faulty::{Fault, OpKind};
use ha_types::Clock;
use oplog_core::{Closed, CommitError, Outcome, Phase, Reservation, ReserveError, Terminal, Ticket, WriterConfig};

use crate::support::{Log, Node, ends, entry};

/// A state to be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Idle,
    /// Only a reservation is open.
    Reserved,
    Waiting,
    Appending,
    /// For so long that it shows as silence.
    AppendingUnanswered,
    ReadingPrefix,
    ReadingBatch,
    PausingToAppend,
    /// The same for an operator's reason.
    PausingForAnOperator,
    PausingToReadPrefix,
    PausingToReadBatch,
    /// The parts of a batch that was cut wait behind the first.
    CutPartsWaiting,
    /// A drain that somebody gave up has closed admission.
    Draining,
    EndedFenced,
    EndedCorrupt,
    EndedRejected,
    EndedShutdown,
    EndedRetryBudget,
}

impl State {
    const ALL: [Self; 18] = [
        Self::Idle,
        Self::Reserved,
        Self::Waiting,
        Self::Appending,
        Self::AppendingUnanswered,
        Self::ReadingPrefix,
        Self::ReadingBatch,
        Self::PausingToAppend,
        Self::PausingForAnOperator,
        Self::PausingToReadPrefix,
        Self::PausingToReadBatch,
        Self::CutPartsWaiting,
        Self::Draining,
        Self::EndedFenced,
        Self::EndedCorrupt,
        Self::EndedRejected,
        Self::EndedShutdown,
        Self::EndedRetryBudget,
    ];

    fn phase(self) -> Phase {
        match self {
            Self::Idle | Self::Reserved => Phase::Idle,
            Self::Waiting => Phase::Waiting,
            Self::Appending | Self::AppendingUnanswered | Self::CutPartsWaiting | Self::Draining => Phase::Appending,
            Self::ReadingPrefix => Phase::ReadingPrefix,
            Self::ReadingBatch => Phase::ReadingBatch,
            Self::PausingToAppend | Self::PausingForAnOperator => Phase::PausingToAppend,
            Self::PausingToReadPrefix => Phase::PausingToReadPrefix,
            Self::PausingToReadBatch => Phase::PausingToReadBatch,
            Self::EndedFenced
            | Self::EndedCorrupt
            | Self::EndedRejected
            | Self::EndedShutdown
            | Self::EndedRetryBudget => Phase::Ended,
        }
    }

    /// What a stop makes of the batch in flight; what waits behind it is never.
    fn stopped_flight(self) -> Outcome {
        match self {
            Self::Waiting | Self::PausingToAppend | Self::PausingForAnOperator => Outcome::Never,
            Self::EndedFenced | Self::EndedCorrupt | Self::EndedRejected | Self::EndedShutdown => Outcome::Never,
            _ => Outcome::Unknown,
        }
    }

    /// Whether the end is latched before anybody stops it.
    fn is_over(self) -> bool {
        self.phase() == Phase::Ended || matches!(self, Self::ReadingBatch | Self::PausingToReadBatch)
    }
}

/// A writer in a state.
struct Staged {
    log: Log,
    node: Node,
    /// Of the batch in flight first; each holds its sequence as payload.
    tickets: Vec<Ticket>,
    /// Open all the time; the state `Idle` has none.
    slot: Option<Reservation>,
    /// The other node, where there was one.
    _other: Option<Node>,
}

impl Staged {
    fn commit(&mut self, slot: Reservation) {
        let payload = (self.tickets.len() as u64 + 1).to_le_bytes();
        self.tickets.push(slot.commit(entry(&payload)).expect("committed"));
    }

    /// What waits behind the flight.
    fn commit_behind(&mut self, slots: Vec<Reservation>) {
        for slot in slots {
            self.commit(slot);
        }
    }

    /// Everything the store was made to do wrong is over, and what was held on its way arrives.
    async fn heal(&mut self) {
        self.node.kv.always(OpKind::Txn, None);
        self.node.kv.always(OpKind::Get, None);
        self.node.kv.release();
        self.node.kv.land_held().await;
        tokio::time::sleep(Duration::from_secs(3)).await;
    }

    /// What was told is what is in the log, now that nothing is on its way any more.
    async fn told_the_truth(self, name: &str) {
        let payloads = self.log.payloads().await;
        for (at, ticket) in self.tickets.into_iter().enumerate() {
            let (seq, payload) = (ticket.seq().get(), (at as u64 + 1).to_le_bytes());
            let there = payloads.get(seq as usize - 1).is_some_and(|stored| *stored == payload);
            match ticket.await {
                Outcome::Durable => assert!(there, "{name}: {seq} was called durable"),
                Outcome::Never => assert!(!there, "{name}: {seq} was called lost"),
                Outcome::Unknown => {}
            }
        }
    }
}

async fn stage(state: State) -> Staged {
    let log = Log::new().await;
    let config = WriterConfig {
        oplog_retry_budget: (state == State::EndedRetryBudget).then_some(Duration::from_millis(10)),
        ..WriterConfig::default()
    };
    let node = log.node(config).await;
    let mut staged = Staged { log, node, tickets: Vec::new(), slot: None, _other: None };
    if state == State::Idle {
        return staged;
    }
    staged.slot = Some(staged.node.reserve());
    if state == State::Reserved {
        return staged;
    }
    let behind = staged.node.writer.reserve_many(2).expect("slots");
    let first = staged.node.reserve();
    let kv = Arc::clone(&staged.node.kv);
    let (txns, gets) = (kv.calls(OpKind::Txn), kv.calls(OpKind::Get));
    match state {
        State::Idle | State::Reserved => unreachable!(),
        State::Waiting => staged.commit(first),
        State::Appending | State::AppendingUnanswered => {
            kv.script(OpKind::Txn, Fault::HoldRequest);
            staged.commit(first);
            kv.reached(OpKind::Txn, txns + 1).await;
            if state == State::AppendingUnanswered {
                staged.node.until(|s| s.unanswered_since.is_some()).await;
            }
        }
        State::ReadingPrefix => {
            kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
            kv.script(OpKind::Get, Fault::HoldRequest);
            staged.commit(first);
            kv.reached(OpKind::Get, gets + 1).await;
        }
        State::ReadingBatch | State::PausingToReadBatch => {
            kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
            kv.script(OpKind::Get, Fault::HoldRequest);
            staged.commit(first);
            kv.reached(OpKind::Get, gets + 1).await;
            staged.commit_behind(behind);
            let other = staged.log.node(WriterConfig::default()).await;
            assert_eq!(other.reserve().commit(entry(b"other")).expect("committed").await, Outcome::Durable);
            staged._other = Some(other);
            let fault = match state {
                State::ReadingBatch => Fault::HoldRequest,
                _ => Fault::FailBefore(KvErrorKind::Unavailable),
            };
            kv.always(OpKind::Get, Some(fault));
            kv.release();
            kv.reached(OpKind::Get, gets + 2).await;
            staged.node.until(|s| s.terminal.is_some()).await;
            tokio::task::yield_now().await;
            return staged;
        }
        State::PausingToAppend | State::PausingForAnOperator => {
            let kind = if state == State::PausingToAppend { KvErrorKind::Busy } else { KvErrorKind::NoSpace };
            kv.always(OpKind::Txn, Some(Fault::FailBefore(kind)));
            staged.commit(first);
            staged.node.until(|s| s.closed == Some(Closed::Store(kind))).await;
        }
        State::PausingToReadPrefix => {
            kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
            kv.always(OpKind::Get, Some(Fault::FailBefore(KvErrorKind::Unavailable)));
            staged.commit(first);
            kv.reached(OpKind::Get, gets + 1).await;
            tokio::task::yield_now().await;
        }
        State::CutPartsWaiting => {
            kv.script(OpKind::Txn, Fault::FailBefore(KvErrorKind::TooLarge));
            kv.always(OpKind::Txn, Some(Fault::HoldRequest));
            staged.commit(first);
            staged.commit_behind(behind);
            kv.reached(OpKind::Txn, txns + 2).await;
            assert_eq!(staged.node.writer.metrics().cuts, 1);
            return staged;
        }
        State::Draining => {
            kv.script(OpKind::Txn, Fault::HoldRequest);
            staged.commit(first);
            kv.reached(OpKind::Txn, txns + 1).await;
            staged.node.writer.drain(staged.log.clock.now()).await.expect_err("given up at once");
        }
        State::EndedFenced => {
            kv.script(OpKind::Txn, Fault::HoldRequest);
            staged.commit(first);
            kv.reached(OpKind::Txn, txns + 1).await;
            let _claimed = staged.log.claim(staged.log.client()).await;
            staged.commit_behind(behind);
            kv.release();
            staged.node.until(|s| s.terminal.is_some()).await;
            return settled(staged).await;
        }
        State::EndedCorrupt | State::EndedRejected => {
            let corrupt = state == State::EndedCorrupt;
            let kind = if corrupt { KvErrorKind::Corrupt } else { KvErrorKind::InvalidArgument };
            kv.script(OpKind::Txn, Fault::FailBefore(kind));
            staged.commit(first);
            staged.commit_behind(behind);
            staged.node.until(|s| s.terminal.is_some()).await;
            return settled(staged).await;
        }
        State::EndedShutdown => {
            staged.commit(first);
            staged.commit_behind(behind);
            staged.node.writer.stop().await;
            return settled(staged).await;
        }
        State::EndedRetryBudget => {
            kv.always(OpKind::Txn, Some(Fault::LoseRequest(KvErrorKind::Timeout)));
            staged.commit(first);
            kv.reached(OpKind::Txn, txns + 1).await;
            staged.commit_behind(behind);
            staged.node.until(|s| s.terminal.is_some()).await;
            return settled(staged).await;
        }
    }
    staged.commit_behind(behind);
    staged
}

/// The end of the writer's task, which follows its latch.
async fn settled(staged: Staged) -> Staged {
    while staged.node.writer.metrics().phase != Phase::Ended {
        tokio::task::yield_now().await;
    }
    staged
}

fn terminal_of(state: State, terminal: &Terminal) -> bool {
    match state {
        State::EndedFenced | State::ReadingBatch | State::PausingToReadBatch => {
            matches!(terminal, Terminal::Fenced { .. })
        }
        State::EndedCorrupt => matches!(terminal, Terminal::Corrupt { .. }),
        State::EndedRejected => matches!(terminal, Terminal::Rejected { .. }),
        State::EndedRetryBudget => *terminal == Terminal::RetryBudget,
        _ => *terminal == Terminal::Shutdown,
    }
}

/// Brings `state` about and requires it.
async fn reach(state: State, reached: &mut BTreeSet<Phase>) -> Staged {
    let staged = stage(state).await;
    let phase = staged.node.writer.metrics().phase;
    assert_eq!(phase, state.phase(), "{state:?} was not brought about");
    assert_eq!(staged.node.status().terminal.is_some(), state.is_over(), "{state:?}");
    println!("{state:?}: {}", phase.name());
    reached.insert(phase);
    staged
}

/// Sealing is over within the turn in which it began; the tests of the core stop and drain there.
fn all_but_sealing(reached: &BTreeSet<Phase>) {
    let missing: Vec<_> = Phase::ALL.into_iter().filter(|p| *p != Phase::Sealing && !reached.contains(p)).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

#[tokio::test(start_paused = true)]
async fn stop_in_every_state_is_soon_over_and_tells_everybody_the_truth() {
    let mut reached = BTreeSet::new();
    for state in State::ALL {
        ends(async {
            let mut staged = reach(state, &mut reached).await;
            let at = staged.log.clock.now();
            staged.node.writer.stop().await;
            assert!(staged.log.clock.now().saturating_since(at) <= Duration::from_millis(100), "{state:?}");
            let metrics = staged.node.writer.metrics();
            assert_eq!(
                (metrics.phase, metrics.waiting_entries, metrics.waiting_bytes),
                (Phase::Ended, 0, 0),
                "{state:?}"
            );
            let status = staged.node.status();
            let terminal = status.terminal.expect("an end");
            assert!(terminal_of(state, &terminal), "{state:?}: {terminal}");
            assert_eq!((status.accepting, status.closed), (false, Some(Closed::Ended)), "{state:?}");
            let outcomes: Vec<_> = staged.tickets.iter().map(|t| t.outcome().expect("every ticket is told")).collect();
            if let Some((flight, behind)) = outcomes.split_first() {
                assert_eq!(*flight, state.stopped_flight(), "{state:?}: the batch in flight");
                assert!(behind.iter().all(|outcome| *outcome == Outcome::Never), "{state:?}: {outcomes:?}");
            }
            assert!(matches!(
                staged.node.writer.reserve(),
                Err(ReserveError::Unavailable { closed: Closed::Ended, .. })
            ));
            if let Some(slot) = staged.slot.take() {
                assert!(matches!(slot.commit(entry(b"late")), Err(CommitError::Terminal(_))), "{state:?}");
            }
            assert_eq!(staged.node.writer.metrics().slots, 0, "{state:?}");
            staged.node.writer.stop().await;
            staged.heal().await;
            let drained =
                staged.node.writer.drain(staged.log.clock.now().saturating_add(Duration::from_secs(60))).await;
            assert!(drained.is_ok() || outcomes.iter().any(|o| *o != Outcome::Durable), "{state:?}: {drained:?}");
            staged.told_the_truth(&format!("{state:?}")).await;
        })
        .await;
    }
    all_but_sealing(&reached);
}

#[tokio::test(start_paused = true)]
async fn drain_in_every_state_ends_by_its_deadline_says_what_is_open_and_goes_on_when_asked_again() {
    let mut reached = BTreeSet::new();
    for state in State::ALL {
        ends(async {
            let mut staged = reach(state, &mut reached).await;
            let at = staged.log.clock.now();
            let deadline = |staged: &Staged, ms| staged.log.clock.now().saturating_add(Duration::from_millis(ms));
            let first = staged.node.writer.drain(deadline(&staged, 500)).await;
            let took = staged.log.clock.now().saturating_since(at).as_millis();
            // A store that works drains but for the open reservation; an ended one has nothing to wait for.
            let durable = staged.tickets.iter().filter(|t| t.outcome() == Some(Outcome::Durable)).count();
            match &first {
                Ok(()) => assert!(state == State::Idle || state.phase() == Phase::Ended, "{state:?}: {took} ms"),
                Err(open) => {
                    assert_eq!(open.waiting, (staged.tickets.len() - durable) as u64, "{state:?}: {open}");
                    assert_eq!(open.reserved, u64::from(staged.slot.is_some()), "{state:?}: {open}");
                    assert_eq!(open.callbacks, 0, "{state:?}: {open}");
                }
            }
            // The end of a writer, or of what it waits for, ends the drain; else the deadline does.
            let ended = staged.node.writer.metrics().phase == Phase::Ended;
            let expected = if ended || first.is_ok() { 0..=500 } else { 500..=502 };
            assert!(expected.contains(&took), "{state:?}: {took} ms, {first:?}");
            let closed = staged.node.status().closed;
            assert!(closed.is_some() && staged.node.writer.reserve().is_err(), "{state:?}: admission is closed");

            drop(staged.slot.take());
            staged.heal().await;
            let second = staged.node.writer.drain(deadline(&staged, 60_000)).await;
            let over = state.is_over();
            assert_eq!(second.is_ok(), !over || state == State::Idle, "{state:?}: {second:?}");
            if !over {
                assert!(staged.tickets.iter().all(|t| t.outcome() == Some(Outcome::Durable)), "{state:?}");
                assert!(staged.node.writer.reserve().is_err(), "{state:?}: it stays closed");
                assert_eq!(staged.node.status().terminal, None, "{state:?}: a drained writer has not ended");
            }
            let metrics = staged.node.writer.metrics();
            assert_eq!((metrics.slots, metrics.callbacks_waiting), (0, 0), "{state:?}");
            staged.told_the_truth(&format!("{state:?}")).await;
        })
        .await;
    }
    all_but_sealing(&reached);
}

/// The last handle goes in every state: what was committed is written once the store works, and the writer ends.
#[tokio::test(start_paused = true)]
async fn dropping_every_handle_in_every_state_ends_the_writer_once_nothing_waits() {
    for state in State::ALL {
        ends(async {
            let mut staged = reach(state, &mut BTreeSet::new()).await;
            let (over, committed) = (state.is_over(), staged.tickets.len());
            staged.slot = None;
            staged.tickets.clear();
            let Staged { log, node: Node { kv, writer }, _other, .. } = staged;
            let mut status = writer.status();
            drop(writer);
            tokio::time::sleep(Duration::from_millis(5)).await;
            kv.always(OpKind::Txn, None);
            kv.always(OpKind::Get, None);
            kv.release();
            status.wait_for(|s| s.terminal.is_some()).await.expect("the end is shown");
            if !over {
                assert_eq!(log.payloads().await.len(), committed, "{state:?}: what was committed is written");
            }
        })
        .await;
    }
}

/// Outside paused time, which does not pass while a thread blocks.
#[tokio::test]
async fn stop_and_drain_while_a_callback_blocks_do_not_wait_for_it_and_it_runs_once() {
    for stop in [true, false] {
        let log = Log::new().await;
        let node = log.node(WriterConfig::default()).await;
        let (unblock, blocked) = std::sync::mpsc::sync_channel::<()>(1);
        let (told, heard) = std::sync::mpsc::channel();
        let first = told.clone();
        let blocks = move |seq: oplog_core::Seq, outcome| {
            let _ = blocked.recv();
            first.send((seq.get(), outcome)).expect("sent");
        };
        node.reserve().commit_with(entry(b"1"), blocks).expect("committed");
        node.until(|s| s.durable.last_seq.get() == 1).await;
        let second = move |seq: oplog_core::Seq, outcome| told.send((seq.get(), outcome)).expect("sent");
        node.reserve().commit_with(entry(b"2"), second).expect("committed");
        node.until(|s| s.durable.last_seq.get() == 2).await;
        let soon = |log: &Log, ms| log.clock.now().saturating_add(Duration::from_millis(ms));
        if stop {
            node.writer.stop().await;
            assert_eq!(node.status().terminal, Some(Terminal::Shutdown));
        }
        let open = node.writer.drain(soon(&log, 50)).await.expect_err("two callbacks are open");
        assert_eq!((open.waiting, open.reserved, open.callbacks), (0, 0, 2), "stopped: {stop}");
        assert!(heard.try_recv().is_err());
        unblock.send(()).expect("it waits");
        node.writer.drain(soon(&log, 60_000)).await.expect("all have run");
        let heard: Vec<_> = heard.try_iter().collect();
        assert_eq!(heard, [(1, Outcome::Durable), (2, Outcome::Durable)], "once each, in order");
    }
}
