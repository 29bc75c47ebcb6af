//! Owns the measurement of the batch record: encoding and decoding against one memcpy of the encoded length into a reused buffer.
//!
//! `cargo bench -p oplog-core --bench codec -- [--quick] [--json]`. Times are nanoseconds for one whole batch: the median of
//! interleaved rounds. Encoding is every push and the seal, with the record let go of before the next one; decoding is all
//! checks and a walk over every entry; the owned form is copied out of the caller's slice first. Beside it, realistic entries in our
//! record, in Mooncake's and in the per-entry layout.

mod json;
#[path = "../kit/rounds.rs"]
mod rounds;

use std::hint::black_box;

use bytes::Bytes;
use ha_types::{BatchId, Epoch, Seq};
use oplog_core::record::{BatchHeader, BatchRecord, BatchRef, OpenBatch};
use oplog_core::{EntryRef, NewEntry};

use crate::rounds::interleaved;

const BATCHES: [usize; 3] = [1, 64, 1024];
const PAYLOADS: [usize; 2] = [128, 400];
const KEY_BYTES: usize = 32;

/// Prebuilt entries, their keys and payloads one behind the other in `arena`, and the record that they make.
struct Case<'a> {
    payload: usize,
    entries: Vec<NewEntry<'a>>,
    record: Bytes,
}

/// Median nanoseconds of one batch.
struct Figures {
    copy: f64,
    encode: f64,
    decode: f64,
    owned: f64,
}

fn header() -> BatchHeader {
    BatchHeader {
        batch_id: BatchId::new(1_000_000),
        first_seq: Seq::new(1_000_000_000),
        epoch: Epoch::new(7),
        prev_crc: 0x1234_5678,
        timestamp_ms: 1_700_000_000_000,
    }
}

/// Bytes without a pattern, the same in every run.
fn arena(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(step).collect()
}

impl<'a> Case<'a> {
    fn new(payload: usize, arena: &'a [u8]) -> Self {
        let parts = arena.chunks_exact(KEY_BYTES + payload).map(|both| both.split_at(KEY_BYTES));
        let entries = parts.map(|(key, payload)| NewEntry { op_type: 1, tenant: "default", key, payload });
        let mut case = Self { payload, entries: entries.collect(), record: Bytes::new() };
        case.record = case.encode(&mut OpenBatch::new());
        case
    }

    fn encode(&self, open: &mut OpenBatch) -> Bytes {
        for entry in &self.entries {
            open.push(entry).expect("the entry fits");
        }
        open.seal(header()).expect("the batch can be sealed").bytes
    }

    /// Every way does the same work on the same bytes.
    fn check(&self) {
        let read = BatchRef::decode(&self.record).expect("it decodes");
        assert!(read.entries().map(NewEntry::from).eq(self.entries.iter().copied()));
        let owned = BatchRecord::decode(self.record.clone()).expect("it decodes");
        assert!(owned.entries().eq(read.entries()));
    }

    fn measure(&self, rounds: usize) -> Figures {
        self.check();
        let mut copied = vec![0; self.record.len()];
        let mut open = OpenBatch::with_capacity(self.record.len());
        let mut encode = || drop(black_box(self.encode(&mut open)));
        let mut copy = || copied.copy_from_slice(black_box(&self.record));
        let mut decode = || {
            let batch = BatchRef::decode(black_box(&self.record)).expect("it decodes");
            black_box(batch.entries().fold(0, walk));
        };
        let mut owned = || {
            let bytes = Bytes::copy_from_slice(black_box(&self.record));
            let batch = BatchRecord::decode(bytes).expect("it decodes");
            black_box(batch.entries().fold(0, walk));
        };
        let [copy, encode, decode, owned] = interleaved([&mut copy, &mut encode, &mut decode, &mut owned], rounds);
        assert_eq!(copied, self.record, "the baseline copies the very bytes");
        Figures { copy, encode, decode, owned }
    }
}

/// Looks at every part of an entry, without touching each byte: what a state machine does is not the codec's.
fn walk(sum: u64, entry: EntryRef<'_>) -> u64 {
    let ends = entry.key.last().copied().unwrap_or(0) ^ entry.payload.last().copied().unwrap_or(0);
    sum.wrapping_add(entry.seq.get()).wrapping_add(u64::from(ends)).wrapping_add(entry.tenant.len() as u64)
}

fn print(case: &Case<'_>, figures: &Figures, json: bool) {
    let per_entry = case.record.len() as f64 / case.entries.len() as f64;
    let Figures { copy, encode, decode, owned } = figures;
    let (batch, payload) = (case.entries.len(), case.payload);
    if json {
        println!(
            "{{\"suite\":\"codec\",\"batch\":{batch},\"payload\":{payload},\"encode_ns\":{encode:.1},\
             \"decode_ns\":{decode:.1},\"owned_ns\":{owned:.1},\"copy_ns\":{copy:.1},\
             \"bytes_per_entry\":{per_entry:.2},\"copy_ratio\":{:.2},\"decode_ratio\":{:.2},\"owned_ratio\":{:.2}}}",
            encode / copy,
            decode / copy,
            owned / copy
        );
    } else {
        println!(
            "{batch:>5} x {payload:>3} B: copy {copy:>8.1} ns, encode {encode:>8.1} ({:.2}x), decode {decode:>8.1} ({:.2}x), \
             owned {owned:>8.1} ({:.2}x), {per_entry:.2} bytes an entry",
            encode / copy,
            decode / copy,
            owned / copy
        );
    }
}

#[allow(clippy::disallowed_methods, reason = "a benchmark has a command line")]
fn main() {
    let flag = |name: &str| std::env::args().any(|arg| arg == name);
    let rounds = if flag("--quick") { 201 } else { 2001 };
    for batch in BATCHES {
        for payload in PAYLOADS {
            let arena = arena(batch * (KEY_BYTES + payload));
            let case = Case::new(payload, &arena);
            print(&case, &case.measure(rounds), flag("--json"));
        }
    }
    json::run(if flag("--quick") { 101 } else { 1001 }, flag("--json"));
}
