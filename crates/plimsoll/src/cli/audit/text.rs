//! Owns the audit's report for people: a table, the faults, and the verdict as the last line.

use std::fmt::Display;

use comfy_table::Table;
use oplog_core::LogKeys;
use oplog_core::audit::{AuditReport, BatchSummary, LegacySummary};

use crate::cli::output;

pub(super) fn print(keys: &LogKeys, report: &AuditReport) {
    outln!("{}\n", table(keys, report));
    for note in &report.notes {
        outln!("note: {note}");
    }
    for fault in report.faults.listed() {
        outln!("FAULT {}: {fault}", fault.kind.name());
    }
    if report.faults.unlisted() > 0 {
        outln!("{} more faults are counted and not listed (--max-faults)", report.faults.unlisted());
    }
    let (keys, bytes) = (report.keys, report.bytes);
    if report.is_sound() {
        outln!("sound: {keys} keys of {bytes} bytes were checked, and no fault was found");
    } else {
        let kinds = report.faults.by_kind().iter().map(|(kind, count)| format!("{count} {kind}"));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        outln!("{} faults in {keys} keys of {bytes} bytes: {kinds}", report.faults.total());
    }
}

fn table(keys: &LogKeys, report: &AuditReport) -> Table {
    let mut table = output::table(["what", "found"]);
    let mut row = |what: &str, found: &dyn Display| {
        table.add_row([what.to_owned(), found.to_string()]);
    };
    row("keys below", &keys.whole_log().0.escape_ascii());
    match &report.prefix {
        Some(prefix) => row("durable prefix", prefix),
        None => row("durable prefix", &"none that can be read"),
    }
    if !report.owners.is_empty() {
        let owners: Vec<_> = report.owners.iter().map(ToString::to_string).collect();
        row("owners seen", &owners.join(", "));
    }
    batches(&report.batches, &mut row);
    legacy(&report.legacy, &mut row);
    let shown = |value: &Option<bytes::Bytes>| {
        value.as_ref().map_or_else(|| "absent".to_owned(), |value| format!("\"{}\"", value.escape_ascii()))
    };
    row("Mooncake's producer view", &shown(&report.producer_view));
    row("the original's election key", &shown(&report.election));
    row("keys of no log", &report.stray_keys);
    table
}

fn batches(all: &BatchSummary, row: &mut dyn FnMut(&str, &dyn Display)) {
    let (Some(first), Some(last)) = (all.first, all.last) else { return row("batches", &"none") };
    row("batches", &format!("{}, from {first} to {last}", all.batches()));
    row("  of ours", &format!("{}, {} compressed", all.plb1, all.compressed));
    row("  of Mooncake's", &all.mooncake);
    row("  unreadable", &all.unreadable);
    if let (Some(first), Some(last)) = (all.first_seq, all.last_seq) {
        row("  entries", &format!("{}, from {first} to {last}", all.entries));
    }
    row("  bytes", &format!("{} ({} raw)", all.bytes, all.raw_bytes));
    if let (Some(first), Some(last)) = (all.first_ms, all.last_ms) {
        row("  unix ms", &format!("{first} to {last}"));
    }
    for range in &all.epochs {
        let found = format!("batches {} to {}, {} entries", range.first, range.last, range.entries);
        row(&format!("  epoch {}", range.epoch), &found);
    }
    if all.more_epochs > 0 {
        row("  more epochs", &all.more_epochs);
    }
}

fn legacy(all: &LegacySummary, row: &mut dyn FnMut(&str, &dyn Display)) {
    match (all.first, all.last) {
        (Some(first), Some(last)) => row("legacy entries", &format!("{}, from {first} to {last}", all.entries)),
        _ => row("legacy entries", &"none"),
    }
    if let Some(latest) = all.latest {
        row("  latest", &latest);
    }
    if let Some(base) = all.base.filter(|base| base.get() > 0) {
        row("  base", &base);
    }
    if all.accepted_holes > 0 {
        row("  accepted holes", &all.accepted_holes);
    }
    if all.above_base > 0 {
        row("  above the base (alarm)", &all.above_base);
    }
    for snapshot in &all.snapshots {
        let sequence = snapshot.sequence.as_ref().map_or_else(|_| "no sequence".to_owned(), ToString::to_string);
        row("  snapshot of the original", &format!("{sequence} at {} (nothing starts from it)", snapshot.key));
    }
    if all.snapshot_count > all.snapshots.len() as u64 {
        row("  snapshots in all", &all.snapshot_count);
    }
}
