//! Owns the records of a bucket file: what verifies encodes to the same bytes, is no other record, and a whole, a ranged and a
//! streaming reader agree on its value.

use bucket_store::format::record::{CHUNK_BYTES, ChunkRange, ChunkSums, RecordHeader};
use ha_types::ObjectIncarnation;

use super::refused_file;
use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "bucket_record", run, seeds };

fn run(data: &[u8]) -> Verdict {
    if let Some(repaired) = with_checksums(data) {
        one(&repaired);
    }
    one(data)
}

fn one(data: &[u8]) -> Verdict {
    let (header, sums) = match bound::within(data.len(), 1, || RecordHeader::decode(data)) {
        Ok(read) => read,
        Err(e) => return refused_file(&e, data),
    };
    let len = RecordHeader::encoded_len(header.key.len(), header.value_len) as usize;
    let (bytes, value) = data.split_at(len);
    header.verify(bytes).expect("it is the header that it says it is");
    is_no_other(&header, bytes);
    let value = value.get(..header.value_len as usize).unwrap_or(value);
    let whole = ChunkRange::whole(header.value_len).expect("no value is empty");
    let read = bound::within(data.len(), 1, || sums.verify(whole, value));
    for piece in [1 + data.len() / 7, 4096, CHUNK_BYTES as usize] {
        assert_eq!(streams(sums, value, piece), read.is_ok(), "in pieces of {piece}");
    }
    if let Err(e) = read {
        return refused_file(&e, data);
    }
    for offset in [0, u64::from(header.value_len) / 2, u64::from(header.value_len) - 1] {
        let range = ChunkRange::covering(header.value_len, offset, 1).expect("within the value");
        let chunks = &value[range.offset() as usize..(range.offset() + range.len()) as usize];
        sums.verify(range, chunks).expect("a range of a right value is right");
    }
    let mut again = Vec::new();
    header.encode_into(value, &mut again);
    assert_eq!(again, bytes, "one record, one header");
    Verdict::Accepted
}

/// Row B11: whatever differs, it is not taken for the other.
fn is_no_other(header: &RecordHeader<'_>, bytes: &[u8]) {
    let mut incarnation = header.incarnation.to_bytes();
    incarnation[15] ^= 1;
    let others = [
        RecordHeader { write_number: header.write_number ^ 1, ..*header },
        RecordHeader { value_len: header.value_len ^ 1, ..*header },
        RecordHeader { incarnation: ObjectIncarnation::from_bytes(incarnation), ..*header },
        RecordHeader { key: &header.key[1..], ..*header },
    ];
    assert!(others.iter().all(|other| other.verify(bytes).is_err()));
    let mut key = header.key.to_vec();
    key[0] ^= 1;
    assert!(RecordHeader { key: &key, ..*header }.verify(bytes).is_err());
}

fn streams(sums: ChunkSums<'_>, value: &[u8], piece: usize) -> bool {
    let mut check = sums.stream();
    value.chunks(piece).all(|piece| check.update(piece).is_ok()) && check.finish().is_ok()
}

fn with_checksums(data: &[u8]) -> Option<Vec<u8>> {
    let at = |at: usize| Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?) as usize);
    let (key_len, value_len) = (at(8)?, at(12)?);
    let sums_at = 40_usize.checked_add(key_len)?;
    let value_at = sums_at.checked_add(4 * value_len.div_ceil(CHUNK_BYTES as usize))?;
    let mut bytes = data.to_vec();
    let value = data.get(value_at..)?;
    for (index, chunk) in value.get(..value_len).unwrap_or(value).chunks(CHUNK_BYTES as usize).enumerate() {
        bytes[sums_at + 4 * index..][..4].copy_from_slice(&crc32c::crc32c(chunk).to_le_bytes());
    }
    let crc = crc32c::crc32c(&bytes[8..value_at]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    Some(bytes)
}

fn seeds() -> Vec<Seed> {
    let record = |key: &[u8], value: &[u8]| {
        let incarnation = ObjectIncarnation::from_bytes(*b"0123456789abcdef");
        let value_len = value.len() as u32;
        let mut bytes = Vec::new();
        RecordHeader { key, incarnation, write_number: 7, value_len }.encode_into(value, &mut bytes);
        bytes.extend_from_slice(value);
        bytes
    };
    let small = record(b"t\0key", b"value");
    let mut flipped = small.clone();
    flipped[50] ^= 1;
    let mut long_key = small.clone();
    long_key[10] = 1;
    let mut long_value = small.clone();
    long_value[15] = 0xff;
    vec![
        Seed::good("two_chunks", record(b"default\0\0\xff", &[7; CHUNK_BYTES as usize + 3])),
        Seed::bad("empty_value", record(b"t\0key", b"")),
        Seed::bad("no_tenant", record(b"key", b"value")),
        Seed::bad("flipped_value", flipped),
        Seed::bad("cut", &small[..small.len() - 1]),
        Seed::bad("long_key", long_key),
        Seed::bad("long_value", long_value),
        Seed::good("small", small),
    ]
}
