//! Tests of the intent file's bytes.

use proptest::prelude::*;

use super::super::names::BucketId;
use super::super::test_bytes::{hex, refuses_every_cut_and_flip, refuses_more_in_the_body, with_crc};
use super::{Intents, Round};

fn ids(ids: &[u64]) -> Vec<BucketId> {
    ids.iter().copied().map(BucketId).collect()
}

fn prepared(sources: &[u64], target: u64) -> Round {
    Round::Prepared { sources: ids(sources), target: BucketId(target) }
}

fn committed(sources: &[u64], target: Option<u64>) -> Round {
    Round::Committed { sources: ids(sources), target: target.map(BucketId) }
}

/// State, target or 0, sources.
type Unchecked<'a> = (u8, u64, &'a [u64]);

/// The bytes of a file whose rounds are not checked.
fn unchecked(rounds: &[Unchecked<'_>]) -> Vec<u8> {
    let mut out = b"PLBI\x01\0".to_vec();
    out.extend_from_slice(&(rounds.len() as u32).to_le_bytes());
    for (state, target, sources) in rounds {
        out.extend_from_slice(&[*state, sources.len() as u8]);
        if *state != 3 {
            out.extend_from_slice(&target.to_le_bytes());
        }
        sources.iter().for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
    }
    with_crc(out)
}

#[test]
fn golden_bytes_of_version_1() {
    let rounds = vec![committed(&[1, 2], Some(9)), committed(&[3], None), prepared(&[4, 7], 10)];
    let intents = Intents { rounds };
    let bytes = intents.encode().unwrap();
    let golden = "504c42490100030000000202090000000000000001000000000000000200000000000000\
                  0301030000000000000001020a0000000000000004000000000000000700000000000000f51e9cf3";
    assert_eq!(hex(&bytes), golden);
    assert_eq!(Intents::decode(&bytes), Ok(intents));
    refuses_every_cut_and_flip(&bytes, Intents::decode);
    refuses_more_in_the_body(&bytes, Intents::decode);
}

#[test]
fn no_rounds_are_a_file_too() {
    let bytes = Intents::default().encode().unwrap();
    assert_eq!(bytes.len(), 14);
    assert_eq!(Intents::decode(&bytes), Ok(Intents::default()));
}

#[test]
fn equal_unordered_too_many_or_no_buckets_are_refused_by_name() {
    let nine: Vec<u64> = (1..=9).collect();
    let cases: [(&[Unchecked<'_>], &str, &str); 9] = [
        (&[(1, 9, &[])], "count of sources", "0"),
        (&[(2, 99, &nine)], "count of sources", "9"),
        (&[(3, 0, &[5, 5])], "rounds[0].sources", "bucket 5 again"),
        (&[(3, 0, &[5, 4])], "rounds[0].sources", "4"),
        (&[(2, 5, &[5, 6])], "rounds[0].sources", "bucket 5 again"),
        (&[(2, 9, &[1]), (3, 0, &[9])], "rounds[1].sources", "bucket 9 again"),
        (&[(1, 9, &[1]), (1, 10, &[2])], "rounds[1].state", "a second one after rounds[0]"),
        (&[(2, 0, &[1])], "rounds[0].target", "0"),
        (&[(3, 0, &[1 << 63])], "rounds[0].sources", "9223372036854775808"),
    ];
    for (rounds, field, found) in cases {
        let err = Intents::decode(&unchecked(rounds)).unwrap_err();
        assert_eq!((err.field(), err.found().as_str()), (field, found), "{rounds:?}");
        let made = rounds.iter().map(|(state, target, sources)| match state {
            1 => prepared(sources, *target),
            2 => committed(sources, Some(*target)),
            _ => committed(sources, None),
        });
        let err = Intents { rounds: made.collect() }.encode().unwrap_err();
        assert_eq!((err.field(), err.found().as_str()), (field, found), "encoding {rounds:?}");
    }
    let err = Intents::decode(&unchecked(&[(3, 0, &[1]), (3, 0, &[3, 3])])).unwrap_err();
    assert_eq!(err.offset(), 6 + 4 + 10 + 2 + 8, "the second 3");
}

#[test]
fn b15_unknown_versions_and_states_are_told_from_damage() {
    let mut bytes = unchecked(&[(3, 0, &[1])]);
    bytes[4] = 2;
    assert!(Intents::decode(&bytes).unwrap_err().is_unknown_version());
    let err = Intents::decode(&unchecked(&[(4, 7, &[1])])).unwrap_err();
    assert!(err.is_unknown_version(), "{err}");
    assert_eq!((err.offset(), err.found().as_str()), (10, "4"));
}

#[test]
fn a_count_that_the_file_cannot_hold_is_refused_before_room_is_taken_for_it() {
    let mut bytes = b"PLBI\x01\0".to_vec();
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    bytes.extend_from_slice(&[0; 30]);
    let err = Intents::decode(&with_crc(bytes)).unwrap_err();
    assert_eq!((err.field(), err.found().as_str()), ("rounds", "30 bytes"));
}

fn some_intents() -> impl Strategy<Value = Intents> {
    let ids = proptest::collection::btree_set(1..10_000_u64, 0..40);
    (ids, proptest::collection::vec((0_u8..3, 1_usize..9), 0..8)).prop_map(|(ids, shapes)| {
        let mut ids = ids.into_iter();
        let mut rounds = Vec::new();
        let mut has_prepared = false;
        for (kind, count) in shapes {
            let sources: Vec<u64> = ids.by_ref().take(count).collect();
            let target = ids.next();
            if sources.is_empty() {
                break;
            }
            rounds.push(match (kind, target) {
                (0, Some(target)) if !has_prepared => {
                    has_prepared = true;
                    prepared(&sources, target)
                }
                (1, target) => committed(&sources, target),
                _ => committed(&sources, None),
            });
        }
        Intents { rounds }
    })
}

proptest! {
    #[test]
    fn round_trip_and_no_flipped_bit_passes(intents in some_intents(), bit: proptest::sample::Index) {
        let mut bytes = intents.encode().unwrap();
        prop_assert_eq!(Intents::decode(&bytes), Ok(intents));
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Intents::decode(&bytes).is_err());
    }

    #[test]
    fn no_bytes_panic_and_what_decodes_encodes_to_the_same(bytes in proptest::collection::vec(prop_oneof![0_u8..4, any::<u8>()], 0..80)) {
        let _ = Intents::decode(&bytes);
        let bytes = with_crc([&b"PLBI\x01\0"[..], &bytes].concat());
        if let Ok(intents) = Intents::decode(&bytes) {
            prop_assert_eq!(intents.encode().unwrap(), bytes);
        }
    }
}
