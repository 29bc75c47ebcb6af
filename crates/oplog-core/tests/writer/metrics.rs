//! The figures of RFC batch record, Phase 5: prefix lag, retries, stuck batch age, queue size, callback latency, admission failures
//! by reason, and the stages of a commit.

use std::time::Duration;

use ha_kv::KvErrorKind;
use ha_kv::faulty::{Fault, OpKind};
use ha_types::Clock;
use oplog_core::{Closed, CommitError, Outcome, Phase, Refusal, ReserveError, StageMetrics, WriterConfig};

use crate::support::{Log, entry};

/// How many of `stage` took at most `ms`.
fn within(stage: &StageMetrics, ms: u64) -> u64 {
    let bounds = StageMetrics::BOUNDS_US.iter().zip(stage.buckets);
    bounds.filter(|(bound, _)| **bound <= ms * 1000).map(|(_, count)| count).sum()
}

#[tokio::test(start_paused = true)]
async fn lag_age_queue_and_stages_are_those_of_the_batch_that_is_stuck() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.script(OpKind::Txn, Fault::HoldRequest);
    let (sent, slots) = (node.kv.calls(OpKind::Txn), node.writer.reserve_many(4).expect("slots"));
    let mut slots = slots.into_iter();
    let mut commit = || slots.next().expect("a slot").commit(entry(&[7; 100])).expect("committed");
    let mut tickets = vec![commit()];
    node.kv.reached(OpKind::Txn, sent + 1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    tickets.extend([commit(), commit()]);
    tokio::time::sleep(Duration::from_millis(400)).await;
    let m = node.writer.metrics();
    assert_eq!((m.prefix_lag_entries, m.prefix_lag_ms, m.stuck_batch_age_ms), (3, 700, 700));
    assert_eq!((m.phase, m.waiting_entries, m.slots, m.retries), (Phase::Appending, 2, 3, 0));
    assert!((200..300).contains(&m.waiting_bytes), "{m:?}");
    node.kv.release();
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    let m = node.writer.metrics();
    assert_eq!((m.prefix_lag_entries, m.prefix_lag_ms, m.stuck_batch_age_ms), (0, 0, 0));
    // The first batch was sealed at once and written in 700 ms; the second waited 400 ms and was written at once.
    for (stage, slow) in [(&m.waiting, 400), (&m.writing, 700)] {
        assert_eq!((stage.count, within(stage, 1), within(stage, slow - 300), within(stage, 1000)), (2, 1, 1, 2));
        assert!((slow * 1000..=slow * 1000 + 2000).contains(&stage.max_us), "{stage:?}");
    }
    assert_eq!((m.notifying.count, m.calling_back.count), (0, 0), "nobody called back");
}

/// In real time: while a thread blocks, paused time does not pass.
#[tokio::test]
async fn callback_latency_counts_from_durable_and_too_many_callbacks_close_admission() {
    let log = Log::new().await;
    let node = log.node(WriterConfig { oplog_batch_max_entries: 1, ..WriterConfig::default() }).await;
    let (unblock, blocked) = std::sync::mpsc::sync_channel::<()>(1);
    let blocks = move |_, _| {
        let _ = blocked.recv();
    };
    node.reserve().commit_with(entry(b"x"), blocks).expect("committed");
    let mut owed = 1;
    let refused = loop {
        // Only what is durable is owed a callback; a slot that is not free yet is another reason.
        node.until(|s| s.durable.last_seq.get() == owed).await;
        match node.writer.reserve() {
            Ok(slot) => slot.commit_with(entry(b"x"), |_, _| {}).expect("committed"),
            Err(e) => break e,
        };
        owed += 1;
        assert!(owed < 1000, "nothing bounds the callbacks that wait");
    };
    assert_eq!(refused, ReserveError::QueueFull);
    let m = node.writer.metrics();
    assert_eq!((m.refused.of(Refusal::Callbacks), m.callbacks_waiting), (1, owed), "{m:?}");
    assert!(node.status().accepting, "slow callbacks are no failure");
    unblock.send(()).expect("it waits");
    drop(node.writer.ready().await.expect("room once callbacks have run"));
    node.writer.drain(log.clock.now().saturating_add(Duration::from_secs(60))).await.expect("drained");
    let m = node.writer.metrics();
    assert_eq!((m.calling_back.count, m.notifying.count, m.callbacks_waiting), (owed, owed, 0));
    assert!(m.calling_back.total_us >= m.notifying.total_us);
}

#[tokio::test(start_paused = true)]
async fn every_refusal_is_counted_under_its_reason_and_no_other() {
    let log = Log::new().await;
    let config = WriterConfig {
        oplog_batch_max_entries: 3,
        oplog_batch_max_bytes: 1000,
        oplog_waiting_max_bytes: 1000,
        ..WriterConfig::default()
    };
    let node = log.node(config).await;
    let mut expected = std::collections::BTreeMap::new();
    let mut one_more = |why: Refusal| {
        *expected.entry(why).or_insert(0) += 1;
        let counted: std::collections::BTreeMap<_, _> = Refusal::all()
            .map(|why| (why, node.writer.metrics().refused.of(why)))
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(counted, expected, "after {why:?}");
    };
    let all = node.writer.reserve_many(3).expect("three slots");
    node.writer.reserve().expect_err("no slot is free");
    one_more(Refusal::QueueEntries);
    let mut all = all.into_iter();
    let mut slot = || all.next().expect("a slot");
    assert!(matches!(slot().commit(entry(&[1; 2000])), Err(CommitError::TooLarge { .. })));
    one_more(Refusal::TooLarge);
    assert!(matches!(slot().commit(entry(b"")), Err(CommitError::Invalid(_))));
    one_more(Refusal::Invalid);
    drop(slot());

    node.kv.script(OpKind::Txn, Fault::HoldRequest);
    let (sent, mut slots) = (node.kv.calls(OpKind::Txn), node.writer.reserve_many(3).expect("slots"));
    let mut commit = |payload: &[u8]| slots.pop().expect("a slot").commit(entry(payload)).expect("committed");
    let mut tickets = vec![commit(b"in flight")];
    node.kv.reached(OpKind::Txn, sent + 1).await;
    tickets.extend([commit(&[1; 600]), commit(&[2; 600])]);
    node.writer.reserve().expect_err("too many bytes wait");
    one_more(Refusal::QueueBytes);
    node.kv.release();
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }

    node.kv.always(OpKind::Txn, Some(Fault::FailBefore(KvErrorKind::ReadOnly)));
    let stuck = node.reserve().commit(entry(b"x")).expect("committed");
    node.until(|s| !s.accepting).await;
    node.writer.reserve().expect_err("the store takes no writes");
    one_more(Refusal::Closed(Closed::Store(KvErrorKind::ReadOnly)));
    node.kv.always(OpKind::Txn, None);
    assert_eq!(stuck.await, Outcome::Durable);

    let (left, deadline) = (node.reserve(), log.clock.now());
    node.writer.drain(deadline).await.expect_err("one reservation is open");
    node.writer.ready().await.expect_err("drained");
    one_more(Refusal::Closed(Closed::Draining));
    node.writer.stop().await;
    left.commit(entry(b"x")).expect_err("it has ended");
    one_more(Refusal::Closed(Closed::Ended));
}
