//! Owns the tests of the durable prefix.

use ha_types::{BatchId, Epoch, Owner, Seq};
use proptest::prelude::*;

use super::{DurablePrefix, PrefixError};
use crate::ReplayFault;

const GOLDEN: &str = include_str!("../../tests/golden/durable-prefix.txt");

fn prefix(epoch: u64, owner: u64, batch_id: u64, last_seq: u64) -> DurablePrefix {
    DurablePrefix {
        epoch: Epoch::new(epoch),
        owner: Owner::new(owner),
        batch_id: BatchId::new(batch_id),
        last_seq: Seq::new(last_seq),
    }
}

fn golden() -> Vec<(&'static str, DurablePrefix)> {
    let most = u64::MAX - 1;
    let values = [
        prefix(0, 0, 0, 0),
        prefix(0, 0, 0, 1024),
        prefix(7, 0x9f3c_5a1e_0b7d_4c22, 42, 30511),
        prefix(most, u64::MAX, most, most),
    ];
    assert_eq!(GOLDEN.lines().count(), values.len());
    GOLDEN.lines().zip(values).collect()
}

/// The line with its checksum made right, so that only what it says is judged.
fn resealed(line: &str) -> Vec<u8> {
    let covered = line.split(" checksum=").next().unwrap();
    format!("{covered} checksum={:08x}", crc32c::crc32c(covered.as_bytes())).into_bytes()
}

fn refused(bytes: &[u8]) -> PrefixError {
    DurablePrefix::decode(bytes).expect_err(&String::from_utf8_lossy(bytes))
}

#[test]
fn golden_lines_are_written_and_read_byte_for_byte() {
    for (line, value) in golden() {
        assert_eq!(value.encode(), line);
        assert_eq!(DurablePrefix::decode(line.as_bytes()).unwrap(), value);
    }
    assert_eq!(golden().last().unwrap().0.len(), DurablePrefix::MAX_BYTES, "the longest line");
}

#[test]
fn s10_every_flipped_bit_and_every_cut_of_a_prefix_is_detected() {
    for (line, value) in golden() {
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut bytes = line.as_bytes().to_vec();
                bytes[at] ^= 1 << bit;
                assert!(DurablePrefix::decode(&bytes).is_err(), "bit {bit} of byte {at} of {value} was not missed");
            }
            refused(&line.as_bytes()[..at]);
        }
    }
}

#[test]
fn s11_another_schema_version_is_refused_by_name() {
    let error = refused(&resealed("schema_version=2 epoch=1 color=blue"));
    assert_eq!((error.field, error.offset, &*error.found), ("schema_version", 15, "2"));
}

/// What a reader tells its operator: the key, what is wrong in it, and what to do.
#[test]
fn a_fault_names_the_key_the_field_and_the_remedy_in_one_sentence() {
    for (bytes, thing) in [
        (&b"garbage"[..], "schema_version at byte 0"),
        (b"", "an empty value"),
        (b"schema_version=1 epoch=18446744073709551615", "epoch at byte 23"),
        (b"\xff\n", "\\xff\\n"),
    ] {
        let fault = ReplayFault::prefix_undecodable(b"/oplog/c/durable_prefix", &refused(bytes)).to_string();
        for word in ["/oplog/c/durable_prefix: ", thing, "; use the version that wrote it, or restore"] {
            assert!(fault.contains(word), "{word}: {fault}");
        }
        assert!(!fault.contains('\n'), "{fault}");
    }
}

#[test]
#[cfg(not(feature = "mooncake"))]
fn mooncakes_prefix_is_refused_by_name() {
    let error = refused(br#"{"batch_id":9,"last_seq":1024,"schema_version":1}"#);
    assert!(error.to_string().contains("Mooncake"), "{error}");
}

#[test]
#[cfg(feature = "mooncake")]
fn mooncakes_prefix_reads_as_epoch_zero() {
    let prefix = DurablePrefix::decode(br#"{"batch_id":9,"last_seq":1024,"schema_version":1}"#).unwrap();
    assert_eq!((prefix.epoch.get(), prefix.batch_id.get(), prefix.last_seq.get()), (0, 9, 1024));
    assert!(prefix.is_mooncakes());
    assert!(prefix.check().is_err(), "nothing is appended to it, and nothing claims it as if it were ours");
    let error = refused(br#"{"batch_id":9,"last_seq":"1024","schema_version":1}"#);
    assert_eq!((error.field, error.offset), ("last_seq", 25));
}

#[test]
fn only_the_canonical_line_is_read() {
    let owner = "owner=9f3c5a1e0b7d4c22";
    let good = format!("schema_version=1 epoch=7 {owner} batch_id=42 last_seq=30511");
    assert!(DurablePrefix::decode(&resealed(&good)).is_ok());
    let cases = [
        ("schema_version", 0, good.replace("schema_version", "schema-version")),
        ("schema_version", 15, good.replace("version=1", "version=01")),
        ("epoch", 23, good.replace("epoch=7", "epoch=07")),
        ("epoch", 23, good.replace("epoch=7", "epoch=+7")),
        ("epoch", 23, good.replace("epoch=7", "epoch=-7")),
        ("epoch", 23, good.replace("epoch=7", "epoch=")),
        ("epoch", 23, good.replace("epoch=7", "epoch= 7")),
        ("epoch", 23, good.replace("epoch=7", "epoch=18446744073709551616")),
        ("epoch", 23, good.replace("epoch=7", "epoch=99999999999999999999999")),
        ("epoch", 16, good.replace(" epoch", "  epoch")),
        ("epoch", 16, good.replace("epoch=7 ", "")),
        ("owner", 31, good.replace("9f3c", "9F3C")),
        ("owner", 31, good.replace("9f3c5a1e0b7d4c22", "9f3c5a1e0b7d4c2")),
        ("batch_id", 47, good.replace("4c22", "4c220")),
        ("batch_id", 47, good.replace(" batch_id=42 last_seq=30511", " last_seq=30511 batch_id=42")),
        ("checksum", 74, format!("{good} ")),
        ("checksum", 74, format!("{good} term=3")),
    ];
    for (field, offset, line) in cases {
        let error = refused(&resealed(&line));
        assert_eq!((error.field, error.offset), (field, offset), "{line}: {error}");
    }
    let whole = String::from_utf8(resealed(&good)).unwrap();
    for (field, offset, line) in [
        ("line", 92, format!("{whole}\n")),
        ("line", 92, format!("{whole} x=1")),
        ("checksum", 84, whole.to_uppercase().replace(&good.to_uppercase(), &good).replace("CHECKSUM", "checksum")),
        ("line", 0, String::new()),
    ] {
        let error = refused(line.as_bytes());
        assert_eq!((error.field, error.offset), (field, offset), "{line}: {error}");
    }
}

#[test]
fn numbers_that_leave_no_room_or_contradict_each_other_are_refused() {
    let most = u64::MAX;
    for (field, value) in [
        ("epoch", prefix(most, 1, 0, 0)),
        ("batch_id", prefix(1, 1, most, most - 1)),
        ("last_seq", prefix(1, 1, 1, most)),
        ("owner", prefix(0, 1, 0, 0)),
        ("owner", prefix(1, 0, 0, 0)),
        ("batch_id", prefix(0, 0, 1, 1)),
        ("last_seq", prefix(1, 1, 5, 4)),
    ] {
        assert_eq!(value.check().unwrap_err().field, field, "{value}");
        assert_eq!(refused(value.encode().as_bytes()).field, field, "{value}");
    }
}

#[test]
fn l3_only_a_prefix_that_falls_in_nothing_may_follow() {
    let now = prefix(3, 9, 5, 50);
    for later in [now, prefix(3, 9, 6, 51), prefix(4, 8, 5, 50), prefix(9, 8, 7, 52), prefix(4, 9, 5, 50)] {
        assert!(now.may_become(&later), "{later}");
    }
    for never in [
        prefix(2, 9, 6, 60),
        prefix(3, 8, 5, 50),
        prefix(3, 9, 4, 50),
        prefix(3, 9, 6, 49),
        prefix(3, 9, 5, 51),
        prefix(3, 9, 6, 50),
        prefix(3, 9, 7, 51),
        prefix(4, 8, 4, 40),
    ] {
        assert!(!now.may_become(&never), "{never}");
    }
}

proptest! {
    #[test]
    fn every_prefix_survives_and_no_bytes_panic(
        epoch in 0..u64::MAX, owner: u64, batch_id in 0..u64::MAX, more: u64, noise: Vec<u8>, cut in 0_usize..160,
    ) {
        let last_seq = batch_id.saturating_add(more).min(u64::MAX - 1);
        let value = prefix(epoch, owner, batch_id, last_seq);
        let line = value.encode();
        prop_assert!(line.len() <= DurablePrefix::MAX_BYTES);
        match value.check() {
            Ok(()) => prop_assert_eq!(DurablePrefix::decode(line.as_bytes()).unwrap(), value),
            Err(_) => prop_assert!(DurablePrefix::decode(line.as_bytes()).is_err()),
        }
        let _ = DurablePrefix::decode(&noise);
        let spliced = [line.as_bytes().get(..cut).unwrap_or(line.as_bytes()), &noise].concat();
        if let Ok(read) = DurablePrefix::decode(&spliced) {
            prop_assert_eq!(read.encode().into_bytes(), spliced);
        }
    }
}
