//! The class of an error and its effect decide what the writer does about it (design §2): time cures it, an operator does, or
//! nobody. Every kind, with both effects.

use std::time::Duration;

use ha_kv::faulty::{Fault, OpKind};
use ha_kv::{ErrorClass, KvErrorKind};
use oplog_core::{Closed, Outcome, Refusal, ReserveError, Terminal, WriterConfig};

use crate::support::{Log, ends, entry};

fn kinds() -> impl Iterator<Item = KvErrorKind> {
    Closed::ALL.into_iter().filter_map(|closed| match closed {
        Closed::Store(kind) => Some(kind),
        Closed::Ended | Closed::Prefix | Closed::Draining => None,
    })
}

/// Admission is closed with that reason for a day, nothing ends, and the cure is noticed without a word, sequences contiguous.
#[tokio::test(start_paused = true)]
async fn what_time_or_an_operator_cures_closes_admission_with_the_reason_and_recovers_alone() {
    let mut operators = 0;
    for kind in kinds().filter(|kind| kind.class() != ErrorClass::Permanent) {
        for unknown in [false, true] {
            ends(async {
                let log = Log::new().await;
                let node = log.node(WriterConfig::default()).await;
                let fault = if unknown { Fault::LoseRequest(kind) } else { Fault::FailBefore(kind) };
                assert_eq!(node.reserve().commit(entry(b"1")).expect("committed").await, Outcome::Durable);
                node.kv.always(OpKind::Txn, Some(fault));
                let (first, second) = (node.reserve(), node.reserve());
                let stuck = first.commit(entry(b"2")).expect("committed");
                let closed = Closed::Store(kind);
                node.until(|s| s.closed == Some(closed)).await;
                let behind = second.commit(entry(b"3")).expect("what is reserved may commit");
                tokio::time::sleep(Duration::from_secs(300)).await;
                let status = node.status();
                assert_eq!((status.accepting, status.closed, status.terminal), (false, Some(closed), None), "{kind:?}");
                assert_eq!(closed.class(), kind.class());
                // Only silence counts as silence: what an operator has to cure was said by the store.
                let silent = unknown && kind.class() == ErrorClass::Transient;
                assert_eq!(status.unanswered_since.is_some(), silent, "{kind:?}, unknown: {unknown}");
                let refused = node.writer.reserve().expect_err("closed");
                assert!(
                    matches!(refused, ReserveError::Unavailable { closed: why, .. } if why == closed),
                    "{refused:?}"
                );
                assert_eq!(node.writer.metrics().refused.of(Refusal::Closed(closed)), 1);
                assert_eq!((stuck.outcome(), behind.outcome()), (None, None));

                node.kv.always(OpKind::Txn, None);
                assert_eq!((stuck.await, behind.await), (Outcome::Durable, Outcome::Durable));
                let status = node.until(|s| s.accepting).await;
                assert_eq!((status.closed, status.reason, status.unanswered_since), (None, None, None));
                let next = node.reserve().commit(entry(b"4")).expect("committed");
                assert_eq!((next.seq().get(), next.await), (4, Outcome::Durable));
                assert_eq!(log.payloads().await, [b"1", b"2", b"3", b"4"]);
            })
            .await;
            operators += u32::from(kind.class() == ErrorClass::Operator);
        }
    }
    assert_eq!(operators, 6, "no space, no trust, no writes; each with both effects");
}

/// A definite answer that no retry cures ends the writer at once; *too large* cuts first. One that leaves it open is asked about.
#[tokio::test(start_paused = true)]
async fn what_nobody_cures_ends_the_writer_with_the_truth() {
    for kind in kinds().filter(|kind| kind.class() == ErrorClass::Permanent) {
        ends(async {
            let log = Log::new().await;
            let node = log.node(WriterConfig::default()).await;
            node.kv.always(OpKind::Txn, Some(Fault::FailBefore(kind)));
            let (first, second) = (node.reserve(), node.reserve());
            let stuck = first.commit(entry(b"1")).expect("committed");
            let behind = second.commit(entry(b"2")).expect("committed");
            let terminal = node.until(|s| s.terminal.is_some()).await.terminal.expect("an end");
            let corrupt = matches!(kind, KvErrorKind::Corrupt | KvErrorKind::WrongStore);
            assert_eq!(matches!(terminal, Terminal::Corrupt { .. }), corrupt, "{kind:?}: {terminal}");
            assert_eq!(matches!(terminal, Terminal::Rejected { .. }), !corrupt, "{kind:?}: {terminal}");
            assert_eq!((stuck.await, behind.await), (Outcome::Never, Outcome::Never), "{kind:?}");
            assert_eq!(node.status().closed, Some(Closed::Ended));

            // Applied, and answered with an error all the same: the prefix tells.
            let log = Log::new().await;
            let node = log.node(WriterConfig::default()).await;
            node.kv.script(OpKind::Txn, Fault::FailAfter(kind));
            assert_eq!(node.reserve().commit(entry(b"1")).expect("committed").await, Outcome::Durable, "{kind:?}");
            assert_eq!((node.status().accepting, node.writer.metrics().recovered_unknown), (true, 1), "{kind:?}");
        })
        .await;
    }
}
