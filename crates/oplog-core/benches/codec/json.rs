//! Owns the comparison of our record with the JSON that Mooncake writes of the same entries: its batch record, and its per-entry layout.
//! Both decoders are ours, with all their checks; the encoder of Mooncake's record is the test kit's, which is no faster than it need be.

use std::hint::black_box;

use bytes::Bytes;
use ha_types::{ClusterId, Seq};
use oplog_core::LogKeys;
use oplog_core::legacy::LegacyEntry;
use oplog_core::mooncake::{MooncakeBatch, encode};
use oplog_core::record::{BatchRef, OpenBatch};
use oplog_core::test_kit::metadata::{Metadata, MetadataEntry, Payloads};

use crate::header;
use crate::rounds::interleaved;

const BATCHES: [usize; 2] = [64, 1024];

/// Entries as the rest of the suite has them, their keys as hex so that JSON can hold them: 32 digits and 128 bytes of payload.
fn plain(batch: usize) -> Vec<MetadataEntry> {
    let bytes = crate::arena(batch * (16 + 128));
    let entry = |both: &[u8]| {
        let (key, payload) = both.split_at(16);
        let key = key.iter().map(|byte| format!("{byte:02x}")).collect();
        MetadataEntry { op_type: 1, tenant: "default", key, payload: payload.to_vec() }
    };
    bytes.chunks_exact(16 + 128).map(entry).collect()
}

/// Past the mounts, where the stream is what it stays.
fn realistic(batch: usize) -> Vec<MetadataEntry> {
    Metadata::new(Payloads::Mooncake, 1).skip(100).take(batch).collect()
}

/// The same entries in three forms.
struct Case {
    entries: Vec<MetadataEntry>,
    ours: Bytes,
    mooncake: Vec<u8>,
    /// By entry: its key and its value.
    legacy: Vec<(Bytes, Bytes)>,
}

struct Figures {
    name: &'static str,
    encode_ns: f64,
    decode_ns: f64,
    bytes: usize,
}

fn ours(entries: &[MetadataEntry], open: &mut OpenBatch) -> Bytes {
    for entry in entries {
        open.push(&entry.as_new()).expect("the entry fits");
    }
    open.seal(header()).expect("the batch can be sealed").bytes
}

fn mooncake(entries: &[MetadataEntry]) -> Vec<u8> {
    let entries: Vec<encode::Entry<'_>> =
        entries.iter().map(|e| (e.op_type, e.tenant, e.key.as_str(), &e.payload[..])).collect();
    encode::batch(header().batch_id.get(), header().first_seq.get(), &entries)
}

fn seq(index: usize) -> Seq {
    header().first_seq.checked_add(index as u64).expect("room")
}

fn keys() -> LogKeys {
    LogKeys::of(&ClusterId::new("c1").expect("an id"))
}

fn legacy(entries: &[MetadataEntry]) -> Vec<(Bytes, Bytes)> {
    let keys = keys();
    let encode = |(index, entry): (usize, &MetadataEntry)| {
        let legacy = LegacyEntry::new(seq(index), 1_234_567_890, &entry.as_new()).expect("text");
        (keys.legacy_entry(seq(index)), legacy.encode())
    };
    entries.iter().enumerate().map(encode).collect()
}

impl Case {
    fn new(entries: Vec<MetadataEntry>) -> Self {
        let (ours, mooncake, legacy) = (ours(&entries, &mut OpenBatch::new()), mooncake(&entries), legacy(&entries));
        let case = Self { entries, ours, mooncake, legacy };
        case.check();
        case
    }

    /// All forms hold the same entries.
    fn check(&self) {
        let ours = BatchRef::decode(&self.ours).expect("it decodes");
        let mooncake = MooncakeBatch::decode(&self.mooncake).expect("it decodes");
        assert_eq!(
            (ours.count(), mooncake.entries.len(), self.legacy.len()),
            (self.entries.len(), self.entries.len(), self.entries.len())
        );
        for (index, entry) in ours.entries().enumerate() {
            let theirs = &mooncake.entries[index];
            assert_eq!((entry.op_type, entry.tenant), (theirs.op_type, theirs.tenant.as_str()));
            assert_eq!((entry.key, entry.payload), (&theirs.key[..], &theirs.payload[..]));
            let (key, value) = &self.legacy[index];
            let legacy = LegacyEntry::decode(&keys(), key, value).expect("it decodes");
            assert_eq!((entry.op_type, entry.tenant), (legacy.op_type, legacy.tenant.as_str()));
            assert_eq!((entry.key, entry.payload), (legacy.key.as_bytes(), &legacy.payload[..]));
        }
    }

    fn measure(&self, rounds: usize) -> [Figures; 3] {
        let mut open = OpenBatch::with_capacity(self.ours.len());
        let mut encode_ours = || drop(black_box(ours(black_box(&self.entries), &mut open)));
        let mut encode_mooncake = || drop(black_box(mooncake(black_box(&self.entries))));
        let mut encode_legacy = || drop(black_box(legacy(black_box(&self.entries))));
        let mut decode_ours = || {
            let batch = BatchRef::decode(black_box(&self.ours)).expect("it decodes");
            black_box(batch.entries().fold(0, crate::walk));
        };
        let mut decode_mooncake = || {
            let batch = MooncakeBatch::decode(black_box(&self.mooncake)).expect("it decodes");
            black_box(batch.entries.len());
        };
        let keys = keys();
        let mut decode_legacy = || {
            for (key, value) in black_box(&self.legacy) {
                black_box(LegacyEntry::decode(&keys, key, value).expect("it decodes"));
            }
        };
        let [e1, e2, e3, d1, d2, d3] = interleaved(
            [
                &mut encode_ours,
                &mut encode_mooncake,
                &mut encode_legacy,
                &mut decode_ours,
                &mut decode_mooncake,
                &mut decode_legacy,
            ],
            rounds,
        );
        let legacy_bytes = self.legacy.iter().map(|(key, value)| key.len() + value.len()).sum();
        [
            Figures { name: "plb1", encode_ns: e1, decode_ns: d1, bytes: self.ours.len() },
            Figures { name: "mooncake", encode_ns: e2, decode_ns: d2, bytes: self.mooncake.len() },
            Figures { name: "per-entry", encode_ns: e3, decode_ns: d3, bytes: legacy_bytes },
        ]
    }
}

/// Measures and prints: the record's key is left out, as it is the same; each entry's key is counted for the per-entry layout.
pub(crate) fn run(rounds: usize, json: bool) {
    let cases = BATCHES.map(|batch| [("32 + 128", plain(batch)), ("realistic", realistic(batch))]);
    for (what, entries) in cases.into_iter().flatten() {
        let batch = entries.len();
        let figures = Case::new(entries).measure(rounds);
        let [ours, ..] = &figures;
        for form in &figures {
            let each = |value: f64| value / batch as f64;
            let (encode, decode) = (each(form.encode_ns), each(form.decode_ns));
            let bytes = form.bytes as f64 / batch as f64;
            let (bytes_ratio, encode_ratio) = (ours.bytes as f64 / form.bytes as f64, ours.encode_ns / form.encode_ns);
            let decode_ratio = ours.decode_ns / form.decode_ns;
            let name = form.name;
            if json {
                println!(
                    "{{\"suite\":\"codec\",\"entries\":\"{what}\",\"form\":\"{name}\",\"batch\":{batch},\"encode_ns_per_entry\":{encode:.1},\
                     \"decode_ns_per_entry\":{decode:.1},\"bytes_per_entry\":{bytes:.2},\"our_bytes_ratio\":{bytes_ratio:.3},\
                     \"our_encode_ratio\":{encode_ratio:.4},\"our_decode_ratio\":{decode_ratio:.4}}}"
                );
            } else {
                println!(
                    "{batch:>5} {what:>9}, {name:>9}: encode {encode:>7.1} ns an entry, decode {decode:>7.1}, {bytes:>6.1} bytes; \
                     ours: {bytes_ratio:.3} of its bytes, {encode_ratio:.3} of its encoding, {decode_ratio:.3} of its decoding"
                );
            }
        }
    }
}
