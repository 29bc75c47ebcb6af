//! Every read failing once: what may pass is read again and the report is the same, what may not is the error.

use ha_kv::KvErrorKind;
use ha_kv::faulty::{Fault, FaultyKv, OpKind};
use oplog_core::BatchStorage;
use oplog_core::audit::{AuditOptions, AuditReport, audit};

use crate::kit::{Log, options};
use crate::support::{Crooked, keys};

async fn audit_failing(
    log: &Log,
    kind: OpKind,
    at: usize,
    fault: Fault,
    options: &AuditOptions,
) -> (Result<AuditReport, ha_kv::KvError>, u64) {
    let client = FaultyKv::new(log.kv.clone(), 1);
    for _ in 0..at {
        client.script(kind, Fault::Pass);
    }
    client.script(kind, fault);
    let storage = BatchStorage::open_for_reading(client.clone(), keys());
    let report = audit(&storage, options, &mut |_| {}).await;
    (report, client.calls(kind))
}

#[tokio::test(start_paused = true)]
async fn each_read_that_fails_once_is_tried_again_or_ends_the_audit_by_name() {
    let log = Log::mixed().await;
    let sound = log.audit().await;
    let once = AuditOptions { read_attempts: 1, ..options() };
    for kind in [OpKind::Get, OpKind::Range] {
        let (_, calls) = audit_failing(&log, kind, 0, Fault::Pass, &options()).await;
        assert!(calls > 4, "{kind:?}: {calls}");
        for at in 0..usize::try_from(calls).unwrap() {
            for passing in [KvErrorKind::Unavailable, KvErrorKind::Timeout, KvErrorKind::Busy] {
                let (report, _) = audit_failing(&log, kind, at, Fault::FailBefore(passing), &options()).await;
                assert_eq!(report.unwrap(), sound, "{kind:?} {at}");
                let (report, _) = audit_failing(&log, kind, at, Fault::FailBefore(passing), &once).await;
                assert_eq!(report.unwrap_err().kind, passing, "{kind:?} {at}");
            }
            for lasting in [KvErrorKind::Auth, KvErrorKind::Corrupt, KvErrorKind::WrongStore] {
                let (report, _) = audit_failing(&log, kind, at, Fault::FailBefore(lasting), &options()).await;
                assert_eq!(report.unwrap_err().kind, lasting, "{kind:?} {at}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_away_ends_the_audit() {
    let log = Log::ours().await;
    let client = FaultyKv::new(log.kv.clone(), 1);
    client.always(OpKind::Range, Some(Fault::FailBefore(KvErrorKind::Unavailable)));
    let storage = BatchStorage::open_for_reading(client.clone(), keys());
    let error = audit(&storage, &options(), &mut |_| {}).await.unwrap_err();
    assert_eq!(error.kind, KvErrorKind::Unavailable);
    assert_eq!(client.calls(OpKind::Range), u64::from(options().read_attempts));
}

#[tokio::test(start_paused = true)]
async fn what_one_read_alone_says_is_no_fault() {
    // Once each: a page without its middle, no prefix, and a prefix of the past.
    let log = Log::ours().await;
    let past = log.value(&keys().durable_prefix()).await;
    let mut log = log;
    log.batches(1).await;
    for wrong in [None, Some(past)] {
        let crooked = Crooked::new(log.kv.clone());
        let mut reads = 0;
        crooked.bend_get(move |key, answer| {
            reads += u32::from(key == &keys().durable_prefix()[..]);
            // The first one of all is before the walk.
            if key == &keys().durable_prefix()[..] && reads == 2 { wrong.clone() } else { answer }
        });
        let mut bent = false;
        crooked.bend_range(move |start, mut page| {
            if !bent && page.pairs.len() > 2 && start.starts_with(b"/oplog/") {
                page.pairs.remove(1);
                bent = true;
            }
            page
        });
        let options = AuditOptions { page_bytes: 4096, ..options() };
        let report = crate::kit::audit_of(crooked, &options).await;
        assert_eq!(report.faults.listed(), []);
    }
}
