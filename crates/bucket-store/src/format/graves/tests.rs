//! Tests of the bytes of the graves.

use proptest::prelude::*;

use super::super::test_bytes::{hex, refuses_every_cut_and_flip, refuses_more_in_the_body, with_crc};
use super::*;

fn key(name: &str) -> Arc<[u8]> {
    format!("t\0{name}").into_bytes().into()
}

fn inc(n: u8) -> ObjectIncarnation {
    ObjectIncarnation::from_bytes([n; 16])
}

fn rank(write_number: u64, bucket: u64) -> Rank {
    Rank { write_number, bucket: BucketId(bucket) }
}

fn graves() -> Graves {
    let mut graves = Graves { away: [BucketId(9), BucketId(3)].into(), ..Graves::default() };
    graves.add(&key("b"), rank(12, 5), Some(inc(2)));
    graves.add(&key("a"), rank(7, 4), None);
    graves.add(&key("b"), rank(11, 6), Some(inc(1)));
    graves
}

#[test]
fn golden_bytes_of_version_1() {
    let bytes = graves().encode().unwrap();
    let golden = "504c42440100020000000300000000000000090000000000000002000000070000000000000004000000000000000300\
        0000000000007400610c0000000000000005000000000000000300000002000000010101010101010101010101010101\
        0102020202020202020202020202020202740062a170e37b";
    assert_eq!(hex(&bytes), golden);
    assert_eq!(bytes.len() as u64, graves().encoded_len());
    assert_eq!(Graves::decode(&bytes), Ok(graves()));
    refuses_every_cut_and_flip(&bytes, Graves::decode);
    refuses_more_in_the_body(&bytes, Graves::decode);
    let none = Graves::default();
    assert_eq!(Graves::decode(&none.encode().unwrap()), Ok(none));
}

#[test]
fn the_highest_rank_and_every_deleted_incarnation_of_a_key_are_kept() {
    let mut graves = graves();
    assert!(!graves.add(&key("b"), rank(12, 5), Some(inc(1))), "no news");
    assert!(!graves.add(&key("b"), rank(12, 4), None));
    assert_eq!(graves.of(b"t\0b", rank(12, 4), inc(9)), Some(Tombstone::Replaced));
    assert_eq!(graves.of(b"t\0b", rank(12, 5), inc(9)), None, "the one that went says nothing of itself");
    assert_eq!(graves.of(b"t\0b", rank(99, 9), inc(1)), Some(Tombstone::Deleted), "whatever its age");
    assert_eq!(graves.of(b"t\0a", rank(1, 1), inc(1)), Some(Tombstone::Replaced));
    assert_eq!(graves.of(b"t\0c", rank(1, 1), inc(1)), None);
    assert!(graves.add(&key("b"), rank(12, 6), None) && graves.add(&key("b"), rank(1, 1), Some(inc(3))));
    assert_eq!(graves.keys[&key("b")], Grave { replaced: rank(12, 6), deleted: [inc(1), inc(2), inc(3)].into() });
}

#[test]
fn b15_an_unknown_version_is_told_from_damage() {
    let mut bytes = graves().encode().unwrap();
    bytes[4] = 2;
    let err = Graves::decode(&bytes).unwrap_err();
    assert!(err.is_unknown_version());
    assert_eq!((err.field(), err.offset(), err.found().as_str()), ("version", 4, "2"));
}

#[test]
fn each_fault_is_named_with_its_byte() {
    let bytes = graves().encode().unwrap();
    let cases: [(usize, &[u8], &str, u64, &str); 12] = [
        (6, &[0xff; 4], "buckets", 10, "106 bytes"),
        (10, &[0; 8], "away", 10, "0"),
        (10, &[10], "away", 18, "9"),
        (18, &[3], "away", 18, "3"),
        (26, &[0xff; 4], "keys", 30, "86 bytes"),
        (30, &[0xff; 8], "write number", 30, "18446744073709551615"),
        (38, &[0; 8], "bucket", 38, "0"),
        (46, &[0xff; 4], "key", 54, "62 bytes"),
        (50, &[0xff; 4], "incarnations", 54, "62 bytes"),
        (54, b"\0", "key", 54, ""),
        (56, b"c", "key", 113, "\"t\\x00b\""),
        (81, &[3; 16], "incarnation", 97, "02020202020202020202020202020202"),
    ];
    for (at, change, field, offset, found) in cases {
        let mut bytes = bytes[..bytes.len() - 4].to_vec();
        bytes[at..at + change.len()].copy_from_slice(change);
        let err = Graves::decode(&with_crc(bytes)).unwrap_err();
        assert_eq!((err.field(), err.offset()), (field, offset), "{err}");
        assert!(err.found() == found || found.is_empty(), "{err}");
        assert!(!err.is_unknown_version());
    }
    let mut bad = graves();
    bad.away.insert(BucketId(0));
    assert_eq!(bad.encode().unwrap_err().field(), "away");
    let mut bad = graves();
    bad.add(&Arc::from(&b"no key"[..]), rank(1, 1), None);
    assert_eq!(bad.encode().unwrap_err().field(), "key");
}

fn some_graves() -> impl Strategy<Value = Graves> {
    let one = ("[a-c]{1,3}", 0..=MAX_WRITE_NUMBER, 1..u64::MAX >> 1, proptest::option::of(any::<[u8; 16]>()));
    let away = proptest::collection::btree_set((1..u64::MAX >> 1).prop_map(BucketId), 0..4);
    (away, proptest::collection::vec(one, 0..12)).prop_map(|(away, ones)| {
        let mut graves = Graves { away, ..Graves::default() };
        for (name, write_number, bucket, deleted) in ones {
            graves.add(&key(&name), rank(write_number, bucket), deleted.map(ObjectIncarnation::from_bytes));
        }
        graves
    })
}

proptest! {
    #[test]
    fn round_trip_and_no_flipped_bit_passes(graves in some_graves(), bit: proptest::sample::Index) {
        let mut bytes = graves.encode().unwrap();
        prop_assert_eq!(bytes.len() as u64, graves.encoded_len());
        prop_assert_eq!(Graves::decode(&bytes), Ok(graves));
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Graves::decode(&bytes).is_err());
    }

    #[test]
    fn no_bytes_panic_and_what_decodes_encodes_to_the_same(at: proptest::sample::Index, byte: u8, bytes in proptest::collection::vec(any::<u8>(), 0..150)) {
        let _ = Graves::decode(&bytes);
        let _ = Graves::decode(&with_crc([&b"PLBD\x01\0"[..], &bytes].concat()));
        let golden = graves().encode().unwrap();
        let mut bytes = golden[..golden.len() - 4].to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let bytes = with_crc(bytes);
        if let Ok(graves) = Graves::decode(&bytes) {
            prop_assert_eq!(graves.encode().unwrap(), bytes);
        }
    }
}
