//! Owns how a log is printed: lines for people, one JSON object a line for programs.

use ha_types::OpType;
use oplog_core::record::BatchRecord;
use oplog_core::{BatchStorage, DurablePrefix, EntryRef, ReplayFault};
use serde_json::{Value, json};

use super::check::Checker;

/// Prints as it goes: a log may be larger than memory.
#[derive(Debug)]
pub(super) struct Printer {
    json: bool,
    entries: bool,
    heading_printed: bool,
    faults: u64,
}

/// A fault as shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) kind: &'static str,
    pub(super) text: String,
}

impl Printer {
    pub(super) fn new(json: bool, entries: bool) -> Self {
        Self { json, entries, heading_printed: false, faults: 0 }
    }

    /// Faults printed.
    pub(super) fn faults(&self) -> u64 {
        self.faults
    }

    pub(super) fn prefix(&self, storage: &BatchStorage, prefix: Option<&DurablePrefix>) {
        let key = storage.keys().durable_prefix();
        let key = key.escape_ascii();
        match (self.json, prefix) {
            (true, Some(p)) => line(&json!({
                "kind": "prefix",
                "key": key.to_string(),
                "epoch": p.epoch.get(),
                "owner": p.owner.to_string(),
                "batch_id": p.batch_id.get(),
                "last_seq": p.last_seq.get(),
            })),
            (true, None) => line(&json!({ "kind": "prefix", "key": key.to_string(), "absent": true })),
            (false, Some(p)) => println!("durable prefix at {key}:\n  {}\n", p.encode()),
            (false, None) => println!("no durable prefix at {key}\n"),
        }
    }

    pub(super) fn batch(&mut self, record: &BatchRecord) {
        let header = record.header();
        if self.json {
            line(&json!({
                "kind": "batch",
                "batch_id": header.batch_id.get(),
                "first_seq": header.first_seq.get(),
                "last_seq": record.last_seq().get(),
                "entries": record.count(),
                "bytes": record.bytes().len(),
                "epoch": header.epoch.get(),
                "crc": format!("{:08x}", record.crc()),
                "prev_crc": format!("{:08x}", header.prev_crc),
                "timestamp_ms": header.timestamp_ms,
            }));
        } else {
            if !self.heading_printed {
                println!(
                    "{:>12} {:>14} {:>14} {:>7} {:>9} {:>6} {:>8} {:>14}",
                    "batch", "first seq", "last seq", "entries", "bytes", "epoch", "crc", "unix ms"
                );
                self.heading_printed = true;
            }
            println!(
                "{:>12} {:>14} {:>14} {:>7} {:>9} {:>6} {:08x} {:>14}",
                header.batch_id,
                header.first_seq,
                record.last_seq(),
                record.count(),
                record.bytes().len(),
                header.epoch,
                record.crc(),
                header.timestamp_ms
            );
        }
        if self.entries {
            record.entries().for_each(|entry| self.entry(&entry));
        }
    }

    fn entry(&self, entry: &EntryRef<'_>) {
        let op =
            OpType::try_from(entry.op_type).map_or_else(|_| format!("op {}", entry.op_type), |op| op.name().to_owned());
        if self.json {
            let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
            line(&json!({
                "kind": "entry",
                "seq": entry.seq.get(),
                "op_type": entry.op_type,
                "op": op,
                "tenant": entry.tenant,
                "key": { "text": std::str::from_utf8(entry.key).ok(), "hex": hex(entry.key) },
                "payload_hex": hex(entry.payload),
            }));
        } else {
            let (key, bytes) = (entry.key.escape_ascii(), entry.payload.len());
            println!("{:>27} {op:<16} {}/{key} ({bytes} bytes)", entry.seq, entry.tenant);
        }
    }

    pub(super) fn fault(&mut self, fault: &ReplayFault) {
        self.faults += 1;
        let shown = Shown::from(fault);
        if self.json {
            line(&json!({ "kind": "fault", "fault": shown.kind, "text": shown.text }));
        } else {
            println!("FAULT {}: {}", shown.kind, shown.text);
        }
    }

    pub(super) fn end(&self, all: &Checker) {
        if self.json {
            line(&json!({
                "kind": "summary",
                "batches": all.batches,
                "entries": all.entries,
                "bytes": all.bytes,
                "faults": self.faults,
            }));
        } else {
            println!(
                "\n{} batches, {} entries, {} bytes, {} faults (nothing truncates the log yet, so it only grows)",
                all.batches, all.entries, all.bytes, self.faults
            );
        }
    }
}

fn line(value: &Value) {
    println!("{value}");
}
