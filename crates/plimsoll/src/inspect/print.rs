//! Owns how a log is printed: lines for people, one JSON object a line for programs.

use bytes::Bytes;
use ha_types::OpType;
use oplog_core::audit::BatchSummary;
use oplog_core::record::{BatchRecord, Encoding};
use oplog_core::{BatchStorage, DurablePrefix, EntryRef, ReplayFault};
use serde_json::{Value, json};

/// Prints as it goes: a log may be larger than memory.
#[derive(Debug)]
pub(super) struct Printer {
    json: bool,
    entries: bool,
    heading_printed: bool,
    faults: u64,
}

/// What Mooncake wrote beside the batches.
#[derive(Clone, Debug)]
pub(super) struct Original {
    pub(super) prefix: Bytes,
    pub(super) view: Option<Bytes>,
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

    pub(super) fn prefix(&self, storage: &BatchStorage, prefix: Option<&DurablePrefix>, original: Option<&Original>) {
        let key = storage.keys().durable_prefix();
        let key = key.escape_ascii();
        if let (Some(p), Some(original)) = (prefix, original) {
            return self.mooncakes_prefix(&key.to_string(), p, original);
        }
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
            (false, Some(p)) => outln!("durable prefix at {key}:\n  {}\n", p.encode()),
            (false, None) => outln!("no durable prefix at {key}\n"),
        }
    }

    fn mooncakes_prefix(&self, key: &str, prefix: &DurablePrefix, original: &Original) {
        let view = original.view.as_ref().map(|view| view.escape_ascii().to_string());
        if self.json {
            return line(&json!({
                "kind": "prefix",
                "encoding": Encoding::MooncakeJson.name(),
                "key": key,
                "epoch": 0,
                "batch_id": prefix.batch_id.get(),
                "last_seq": prefix.last_seq.get(),
                "producer_view": view,
            }));
        }
        let view = view.map_or_else(|| "no producer view".into(), |view| format!("producer view {view}"));
        outln!("durable prefix of Mooncake's at {key} ({view}):\n  {}\n", original.prefix.escape_ascii());
    }

    pub(super) fn batch(&mut self, record: &BatchRecord) {
        let header = record.header();
        if self.json {
            line(&json!({
                "kind": "batch",
                "encoding": record.encoding().name(),
                "batch_id": header.batch_id.get(),
                "first_seq": header.first_seq.get(),
                "last_seq": record.last_seq().get(),
                "entries": record.count(),
                "bytes": record.bytes().len(),
                "raw_bytes": record.raw_bytes(),
                "compression": record.compression().name(),
                "epoch": header.epoch.get(),
                "crc": format!("{:08x}", record.crc()),
                "prev_crc": format!("{:08x}", header.prev_crc),
                "timestamp_ms": header.timestamp_ms,
            }));
        } else {
            if !self.heading_printed {
                outln!(
                    "{:>12} {:>14} {:>14} {:>7} {:>9} {:>9} {:>6} {:>8} {:>14}",
                    "batch",
                    "first seq",
                    "last seq",
                    "entries",
                    "bytes",
                    "raw",
                    "epoch",
                    "crc",
                    "unix ms"
                );
                self.heading_printed = true;
            }
            outln!(
                "{:>12} {:>14} {:>14} {:>7} {:>9} {:>9} {:>6} {:08x} {:>14}",
                header.batch_id,
                header.first_seq,
                record.last_seq(),
                record.count(),
                record.bytes().len(),
                record.raw_bytes(),
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
            outln!("{:>27} {op:<16} {}/{key} ({bytes} bytes)", entry.seq, entry.tenant);
        }
    }

    pub(super) fn fault(&mut self, fault: &ReplayFault) {
        self.faults += 1;
        let shown = Shown::from(fault);
        if self.json {
            line(&json!({ "kind": "fault", "fault": shown.kind, "text": shown.text }));
        } else {
            outln!("FAULT {}: {}", shown.kind, shown.text);
        }
    }

    pub(super) fn end(&self, all: &BatchSummary) {
        if self.json {
            line(&json!({
                "kind": "summary",
                "batches": all.batches(),
                "entries": all.entries,
                "bytes": all.bytes,
                "faults": self.faults,
            }));
        } else {
            outln!(
                "\n{} batches, {} entries, {} bytes, {} faults (nothing truncates the log yet, so it only grows)",
                all.batches(),
                all.entries,
                all.bytes,
                self.faults
            );
        }
    }
}

fn line(value: &Value) {
    outln!("{value}");
}
