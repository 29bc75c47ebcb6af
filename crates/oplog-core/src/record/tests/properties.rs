//! Owns the property tests: the wire is postcard's, sizes are exact, no bytes panic, and what is read is what is written.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{BatchRecord, BatchRef, OpenBatch};
use super::{BatchId, Epoch, Mirror, MirrorEntry, Seq, framed};
use crate::NewEntry;
use crate::record::BatchHeader;

type Raw = (u8, usize, Vec<u8>, Vec<u8>);

fn entries() -> impl Strategy<Value = Vec<Raw>> {
    let key = vec(any::<u8>(), 1..200);
    let payload = prop_oneof![4 => vec(any::<u8>(), 1..300), 1 => (16_000_usize..17_000).prop_map(|n| vec![9; n])];
    vec((any::<u8>(), 0..200_usize, key, payload), 1..200)
}

fn headers() -> impl Strategy<Value = BatchHeader> {
    (2..u64::MAX / 2, 0..u64::MAX / 4, 1..u64::MAX, any::<u32>(), any::<u64>()).prop_map(
        |(batch_id, more, epoch, prev_crc, timestamp_ms)| BatchHeader {
            batch_id: BatchId::new(batch_id),
            first_seq: Seq::new(batch_id + more),
            epoch: Epoch::new(epoch),
            prev_crc,
            timestamp_ms,
        },
    )
}

fn mirror(header: &BatchHeader, entries: &[Raw]) -> Mirror {
    let mut tenants: Vec<String> = Vec::new();
    let entries = entries.iter().map(|(op_type, tenant, key, payload)| {
        let name = format!("tenant-{tenant}");
        let index = tenants.iter().position(|t| *t == name).unwrap_or_else(|| {
            tenants.push(name);
            tenants.len() - 1
        });
        let tenant = u32::try_from(index).unwrap();
        MirrorEntry { op_type: *op_type, tenant, key: key.clone(), payload: payload.clone() }
    });
    let entries = entries.collect();
    Mirror {
        batch_id: header.batch_id.get(),
        first_seq: header.first_seq.get(),
        epoch: header.epoch.get(),
        prev_crc: header.prev_crc,
        timestamp_ms: header.timestamp_ms,
        tenants,
        entries,
    }
}

/// Encodes again what was read: for canonical bytes the result is those bytes.
fn again(batch: &BatchRef<'_>) -> bytes::Bytes {
    let mut open = OpenBatch::new();
    for entry in batch.entries() {
        open.push(&entry.into()).unwrap();
    }
    open.seal(*batch.header()).unwrap().bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_wire_is_postcard_of_the_structure_and_sizes_are_as_said(header in headers(), raw in entries()) {
        let mut batch = OpenBatch::new();
        for (op_type, tenant, key, payload) in &raw {
            let tenant = format!("tenant-{tenant}");
            let entry = NewEntry { op_type: *op_type, tenant: &tenant, key, payload };
            let before = batch.bytes();
            let grown = batch.push(&entry).unwrap();
            prop_assert_eq!(batch.bytes() - before, grown);
            prop_assert!(grown <= OpenBatch::entry_len(&entry));
        }
        let bound = batch.bytes();
        let sealed = batch.seal(header).unwrap();
        let mirror = mirror(&header, &raw);
        prop_assert_eq!(&sealed.bytes[..], &mirror.record()[..]);
        prop_assert!(sealed.bytes.len() <= bound && bound <= sealed.bytes.len() + OpenBatch::HEADER_BOUND);

        let batch = BatchRef::decode(&sealed.bytes).unwrap();
        prop_assert_eq!((batch.header(), batch.crc(), batch.last_seq()), (&header, sealed.crc, sealed.last_seq));
        prop_assert_eq!(batch.entries().len(), raw.len());
        for (index, (entry, expected)) in batch.entries().zip(&mirror.entries).enumerate() {
            prop_assert_eq!(entry.seq.get(), header.first_seq.get() + index as u64);
            prop_assert_eq!((entry.epoch, entry.timestamp_ms), (header.epoch, header.timestamp_ms));
            prop_assert_eq!(entry.tenant, &mirror.tenants[expected.tenant as usize]);
            prop_assert_eq!((entry.op_type, entry.key), (expected.op_type, &expected.key[..]));
            prop_assert_eq!(entry.payload, &expected.payload[..]);
        }
        let owned = BatchRecord::decode(sealed.bytes.clone()).unwrap();
        prop_assert!(owned.entries().eq(batch.entries()));
        prop_assert!(owned.entry(raw.len()).is_none());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..400)) {
        let _ = BatchRef::decode(&bytes);
        if let Ok(batch) = BatchRef::decode(&framed(&bytes)) {
            prop_assert_eq!(&again(&batch)[..], &framed(&bytes)[..]);
        }
    }

    #[test]
    fn a_record_changed_under_a_right_checksum_is_refused_or_still_canonical(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        insert in vec(any::<u8>(), 0..3),
    ) {
        let mut body = Mirror::sample().body();
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let at = cut.index(body.len());
        body.splice(at..at, insert);
        let record = framed(&body);
        if let Ok(batch) = BatchRef::decode(&record) {
            prop_assert_eq!(&again(&batch)[..], &record[..]);
            prop_assert_eq!(batch.entries().count(), batch.count());
            prop_assert!(BatchRecord::decode(record.clone().into()).unwrap().entries().eq(batch.entries()));
        }
    }
}
