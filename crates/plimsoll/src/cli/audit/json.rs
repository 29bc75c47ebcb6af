//! Owns the audit's report for programs: one object, described in `docs/formats/audit-report.md`.

use oplog_core::audit::{AuditReport, AuditSnapshot, EpochRange};
use oplog_core::{DurablePrefix, LogKeys, ReplayFault};
use serde_json::{Value, json};

/// The version of the object; fields are added under the same one.
const SCHEMA: u32 = 1;

pub(super) fn report(keys: &LogKeys, report: &AuditReport) -> Value {
    let (batches, legacy, faults) = (&report.batches, &report.legacy, &report.faults);
    let text = |value: &Option<bytes::Bytes>| value.as_ref().map(|value| value.escape_ascii().to_string());
    json!({
        "schema": SCHEMA,
        "verdict": if report.is_sound() { "sound" } else { "faults" },
        "below": keys.whole_log().0.escape_ascii().to_string(),
        "keys": report.keys,
        "bytes": report.bytes,
        "prefix": report.prefix.as_ref().map(prefix),
        "owners": report.owners.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "batches": {
            "count": batches.batches(),
            "plb1": batches.plb1,
            "compressed": batches.compressed,
            "mooncake": batches.mooncake,
            "unreadable": batches.unreadable,
            "first": batches.first.map(|id| id.get()),
            "last": batches.last.map(|id| id.get()),
            "first_seq": batches.first_seq.map(|seq| seq.get()),
            "last_seq": batches.last_seq.map(|seq| seq.get()),
            "entries": batches.entries,
            "bytes": batches.bytes,
            "raw_bytes": batches.raw_bytes,
            "first_timestamp_ms": batches.first_ms,
            "last_timestamp_ms": batches.last_ms,
            "epochs": batches.epochs.iter().map(epoch).collect::<Vec<_>>(),
            "more_epochs": batches.more_epochs,
        },
        "legacy": {
            "entries": legacy.entries,
            "bytes": legacy.bytes,
            "first": legacy.first.map(|seq| seq.get()),
            "last": legacy.last.map(|seq| seq.get()),
            "latest": legacy.latest.map(|seq| seq.get()),
            "base": legacy.base.map(|seq| seq.get()),
            "above_base": legacy.above_base,
            "accepted_holes": legacy.accepted_holes,
            "snapshots": legacy.snapshots.iter().map(snapshot).collect::<Vec<_>>(),
            "snapshot_count": legacy.snapshot_count,
        },
        "producer_view": text(&report.producer_view),
        "election_key": text(&report.election),
        "snapshot_of_ours": report.snapshot_of_ours,
        "stray_keys": report.stray_keys,
        "notes": report.notes,
        "faults": {
            "count": faults.total(),
            "by_kind": faults.by_kind(),
            "listed": faults.listed().iter().map(fault).collect::<Vec<_>>(),
            "not_listed": faults.unlisted(),
        },
    })
}

/// Nothing could be judged.
pub(super) fn unread(error: &anyhow::Error) -> Value {
    json!({ "schema": SCHEMA, "verdict": "unread", "error": format!("{error:#}") })
}

fn prefix(prefix: &DurablePrefix) -> Value {
    json!({
        "epoch": prefix.epoch.get(),
        "owner": prefix.owner.to_string(),
        "batch_id": prefix.batch_id.get(),
        "last_seq": prefix.last_seq.get(),
    })
}

fn epoch(range: &EpochRange) -> Value {
    json!({
        "epoch": range.epoch.get(),
        "first_batch": range.first.get(),
        "last_batch": range.last.get(),
        "entries": range.entries,
    })
}

fn snapshot(snapshot: &AuditSnapshot) -> Value {
    json!({
        "key": snapshot.key,
        "sequence": snapshot.sequence.as_ref().ok().map(|seq| seq.get()),
        "bootstrap_position": false,
    })
}

fn fault(fault: &ReplayFault) -> Value {
    json!({
        "kind": fault.kind.name(),
        "key": fault.key,
        "seq": fault.seq.map(|seq| seq.get()),
        "expected": fault.expected,
        "found": fault.found,
        "remedy": fault.kind.remedy(),
    })
}
