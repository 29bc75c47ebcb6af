//! Owns the tests of durable prefix and producer view.

use proptest::prelude::*;

use super::super::{MooncakePrefix, ProducerView, encode};
use crate::PrefixError;

fn refused(text: &str) -> PrefixError {
    MooncakePrefix::decode(text.as_bytes()).expect_err("the prefix was accepted")
}

#[test]
fn the_originals_prefixes_are_read() {
    let plain = MooncakePrefix::decode(br#"{"batch_id":9,"last_seq":1024,"schema_version":1}"#).unwrap();
    assert_eq!((plain.batch_id.get(), plain.last_seq.get(), plain.producer_view_version), (9, 1024, None));
    let text = br#"{"batch_id":9,"last_seq":1024,"producer_view_version":7,"schema_version":1}"#;
    let with_view = MooncakePrefix::decode(text).unwrap();
    assert_eq!(with_view.producer_view_version, Some(7));
    assert_eq!(with_view.boundary(), plain.boundary());
    let boundary = plain.boundary();
    assert_eq!((boundary.epoch.get(), boundary.owner.get()), (0, 0), "it reads as epoch 0");
    assert_eq!(encode::prefix(9, 1024, None), br#"{"batch_id":9,"last_seq":1024,"schema_version":1}"#);
    assert_eq!(encode::prefix(9, 1024, Some(7)), text);
    MooncakePrefix::decode(&encode::prefix(0, 0, None)).unwrap();
    MooncakePrefix::decode(&encode::prefix(u64::MAX - 1, u64::MAX - 1, Some(i64::MAX as u64))).unwrap();
}

#[test]
fn s11_every_wrong_prefix_is_refused_by_field_and_offset() {
    let cases: [(&str, &str, usize); 26] = [
        ("", "object", 0),
        ("{", "object", 0),
        ("{}", "schema_version", 2),
        ("[1]", "object", 0),
        ("null", "object", 0),
        (r#"{"batch_id":9,"last_seq":1024,"schema_version":1} "#, "", 0),
        (r#"{"batch_id":9,"last_seq":1024,"schema_version":1}x"#, "object", 49),
        (r#"{"batch_id":9,"last_seq":1024}"#, "schema_version", 30),
        (r#"{"last_seq":1024,"schema_version":1}"#, "batch_id", 36),
        (r#"{"batch_id":9,"schema_version":1}"#, "last_seq", 33),
        (r#"{"batch_id":9,"batch_id":9,"last_seq":1024,"schema_version":1}"#, "batch_id", 25),
        (r#"{"batch_id":9,"last_seq":1024,"last_seq":1024,"schema_version":1}"#, "last_seq", 41),
        (r#"{"batch_id":9,"last_seq":1024,"schema_version":1,"schema_version":1}"#, "schema_version", 66),
        (r#"{"batch_id":9,"epoch":1,"last_seq":1024,"schema_version":1}"#, "object", 22),
        (r#"{"batch_id":"9","last_seq":1024,"schema_version":1}"#, "batch_id", 12),
        (r#"{"batch_id":9.0,"last_seq":1024,"schema_version":1}"#, "batch_id", 12),
        (r#"{"batch_id":9e0,"last_seq":1024,"schema_version":1}"#, "batch_id", 12),
        (r#"{"batch_id":-9,"last_seq":1024,"schema_version":1}"#, "batch_id", 12),
        (r#"{"batch_id":null,"last_seq":1024,"schema_version":1}"#, "batch_id", 12),
        (r#"{"batch_id":[9],"last_seq":1024,"schema_version":1}"#, "batch_id", 12),
        (r#"{"batch_id":9,"last_seq":18446744073709551616,"schema_version":1}"#, "last_seq", 25),
        (r#"{"batch_id":9,"last_seq":18446744073709551615,"schema_version":1}"#, "last_seq", 25),
        (r#"{"batch_id":9,"last_seq":8,"schema_version":1}"#, "last_seq", 25),
        (r#"{"batch_id":9,"last_seq":1024,"schema_version":2}"#, "schema_version", 47),
        (r#"{"batch_id":9,"last_seq":9,"producer_view_version":0,"schema_version":1}"#, "producer_view_version", 51),
        (
            r#"{"batch_id":9,"last_seq":9,"producer_view_version":9223372036854775808,"schema_version":1}"#,
            "producer_view_version",
            51,
        ),
    ];
    for (text, field, offset) in cases {
        if field.is_empty() {
            // White space around a value changes nothing it says; the raw bytes are what a take-over compares.
            MooncakePrefix::decode(text.as_bytes()).unwrap();
            continue;
        }
        let error = refused(text);
        assert_eq!((error.field, error.offset), (field, offset), "{text}: {error}");
    }
    let long = format!("{{\"batch_id\":9,{}\"last_seq\":9,\"schema_version\":1}}", " ".repeat(200));
    assert_eq!(refused(&long).field, "object");
    assert_eq!(MooncakePrefix::decode(b"{\"batch_id\xff\":9}").unwrap_err().offset, 10);
}

#[test]
fn deep_nesting_is_refused_without_a_stack() {
    let deep = format!("{{\"batch_id\":{}9{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(refused(&deep).field, "object");
    let shallow = format!("{{\"batch_id\":{}9{}}}", "[".repeat(50), "]".repeat(50));
    assert_eq!((refused(&shallow).field, refused(&shallow).offset), ("batch_id", 12));
}

#[test]
fn a_producer_view_is_a_canonical_positive_decimal() {
    assert_eq!(ProducerView::decode(b"7").unwrap().get(), 7);
    assert_eq!(ProducerView::decode(b"7").unwrap().next().unwrap().encode(), "8");
    let last = ProducerView::decode(b"9223372036854775807").unwrap();
    assert_eq!(last.next(), None, "there is no view after the last one");
    assert_eq!(ProducerView::FIRST.encode(), "1");
    for text in ["", "0", "07", "-7", "+7", " 7", "7 ", "7\n", "7.0", "1e3", "9223372036854775808", "seven", "\u{663}"]
    {
        let error = ProducerView::decode(text.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(&text.as_bytes().escape_ascii().to_string()), "{error}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = MooncakePrefix::decode(&bytes);
        let _ = ProducerView::decode(&bytes);
    }

    #[test]
    fn every_changed_byte_of_a_prefix_is_another_prefix_or_refused(at in 0_usize..49, byte in any::<u8>()) {
        let good = encode::prefix(9, 1024, None);
        let mut changed = good.clone();
        changed[at] = byte;
        if let Ok(prefix) = MooncakePrefix::decode(&changed) {
            prop_assert!(changed == good || prefix.boundary() != MooncakePrefix::decode(&good).unwrap().boundary());
        }
    }
}
