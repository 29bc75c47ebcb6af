//! Owns batch records: both readers agree, what decodes encodes to the same bytes, and the numbers hold together.

use bytes::Bytes;
use oplog_core::NewEntry;
use oplog_core::record::{BatchRecord, BatchRef, Encoding, Inflated, OpenBatch, RecordError, RecordErrorKind};

use super::golden;
use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "batch_record", run, seeds };

/// Magic, version, flags; then four bytes of CRC, then the body.
const CRC_AT: usize = 6;
const BODY_AT: usize = 10;

fn run(data: &[u8]) -> Verdict {
    if let Some(repaired) = with_crc(data) {
        one(&repaired);
    }
    one(data)
}

fn one(data: &[u8]) -> Verdict {
    // Three bytes of a frame can be 128 KiB of zeros; what a decoder may not do is believe a length.
    let compressed = data.get(5) == Some(&1);
    let (per_byte, per_byte_kept) = if compressed { (48 << 10, 96 << 10) } else { (32, 64) };
    let mut room = Inflated::new();
    let owned = bound::within(data.len(), per_byte_kept, || BatchRecord::decode(Bytes::copy_from_slice(data)));
    let batch = match bound::within(data.len(), per_byte, || BatchRef::decode_in(data, &mut room)) {
        Ok(batch) => batch,
        Err(e) => {
            if Encoding::of(data) == Encoding::MooncakeJson {
                return owned.map_or_else(|e| refused(&e, data), |_| Verdict::Accepted);
            }
            assert_eq!(owned, Err(e.clone()), "both readers refuse for the same reason");
            return refused(&e, data);
        }
    };
    let owned = owned.expect("what is read in place is read and kept as well");
    assert_eq!((owned.header(), owned.crc(), owned.last_seq()), (batch.header(), batch.crc(), batch.last_seq()));
    assert!(owned.entries().eq(batch.entries()), "both readers give the same entries");
    match BatchRef::decode(data) {
        Ok(in_place) => assert!(!compressed && in_place.entries().eq(batch.entries())),
        Err(e) => assert!(compressed && e.kind == RecordErrorKind::Compressed),
    }
    assert_eq!(batch.entries().count(), batch.count());
    assert_eq!(batch.entries().last().map(|e| e.seq), Some(batch.last_seq()));

    let mut again = OpenBatch::new();
    for entry in batch.entries() {
        let entry = NewEntry::from(entry);
        OpenBatch::check(&entry).expect("an entry that was read may be written");
        again.push(&entry).expect("an entry that was read may be written");
    }
    let sealed = again.seal(*batch.header()).expect("a batch that was read may be written");
    // A compressed record holds what the plain one holds; only the plain form is one of a kind.
    if !compressed {
        assert_eq!(sealed.bytes, data, "one batch, one record");
    } else {
        let plain = BatchRef::decode(&sealed.bytes).expect("what was written is read");
        assert!(plain.entries().eq(batch.entries()), "compressed or not, the entries are the same");
    }
    Verdict::Accepted
}

fn refused(e: &RecordError, data: &[u8]) -> Verdict {
    // Inside a compressed body an offset is that of the raw record.
    let offset = if data.get(5) == Some(&1) { e.offset.min(data.len()) } else { e.offset };
    Verdict::refused_at(e, data, (e.field, offset), (&e.expected, &e.found))
}

fn with_crc(data: &[u8]) -> Option<Vec<u8>> {
    let (head, body) = (data.get(..CRC_AT)?, data.get(BODY_AT..)?);
    let crc = crc32c::crc32c_append(crc32c::crc32c(head.get(4..)?), body);
    Some([head, &crc.to_le_bytes(), body].concat())
}

fn seeds() -> Vec<Seed> {
    let one_entry = golden(include_str!("../../../crates/oplog-core/tests/golden/plb1-one-entry.hex"));
    let mut flipped = one_entry.clone();
    if let Some(last) = flipped.last_mut() {
        *last ^= 1;
    }
    let cut = one_entry.get(..one_entry.len() / 2).unwrap_or_default().to_vec();
    let zstd = golden(include_str!("../../../crates/oplog-core/tests/golden/plb1-zstd.hex"));
    let cut_frame = with_crc(zstd.get(..zstd.len() - 9).unwrap_or_default()).unwrap_or_default();
    vec![
        Seed::good("zstd", zstd),
        Seed::bad("zstd_cut_frame", cut_frame),
        Seed::good("two_tenants", golden(include_str!("../../../crates/oplog-core/tests/golden/plb1-two-tenants.hex"))),
        Seed::good(
            "largest_numbers",
            golden(include_str!("../../../crates/oplog-core/tests/golden/plb1-largest-numbers.hex")),
        ),
        Seed::bad("flipped", flipped),
        Seed::bad("cut", cut),
        Seed::bad("unknown_flag", [b"PLB1\x01\x80".as_slice(), &[0; 16]].concat()),
        Seed::good("one_entry", one_entry),
    ]
}
