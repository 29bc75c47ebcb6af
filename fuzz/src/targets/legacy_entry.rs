//! Owns entries of the legacy log: as they stand, and with their sums put right; what decodes is written and read the same.

use oplog_core::legacy::{LegacyEntry, LegacyEntryError, LegacyProblem};
use oplog_core::{NewEntry, Seq};

use super::{keys, with_expected};
use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "legacy_entry", run, seeds };

/// All entries of this target lie under this sequence.
const SEQ: Seq = Seq::new(5);

fn decode(data: &[u8]) -> Result<LegacyEntry, LegacyEntryError> {
    LegacyEntry::decode(&keys(), &keys().legacy_entry(SEQ), data)
}

fn run(data: &[u8]) -> Verdict {
    let mut repaired = data.to_vec();
    // Sequence, hash and checksum are each in the way of what comes after.
    for _ in 0..3 {
        match decode(&repaired).map_err(|e| put_right(&repaired, &e)) {
            Err(Some(next)) => repaired = next,
            _ => break,
        }
    }
    one(&repaired);
    one(data)
}

fn put_right(data: &[u8], e: &LegacyEntryError) -> Option<Vec<u8>> {
    let expected = match e.problem {
        LegacyProblem::WrongSequence | LegacyProblem::Checksum => e.expected.as_str(),
        LegacyProblem::PrefixHash => e.expected.strip_prefix("0 or ")?,
        _ => return None,
    };
    let mark = format!("\"{}\":", e.field);
    let at = data.windows(mark.len()).position(|window| window == mark.as_bytes())? + mark.len();
    with_expected(data, at, &e.found, expected)
}

fn one(data: &[u8]) -> Verdict {
    match bound::within(data.len(), 32, || decode(data)) {
        Ok(entry) => {
            assert_eq!(entry.seq, SEQ);
            assert_eq!(decode(&entry.encode()).as_ref(), Ok(&entry), "what was read is what is written");
            assert_eq!(entry.as_ref().key, entry.key.as_bytes());
            Verdict::Accepted
        }
        Err(e) => {
            assert!(e.key.ends_with("00000000000000000005"), "another key is named: {e}");
            Verdict::refused_at(&e, data, (&e.field, 0), (&e.expected, &e.found))
        }
    }
}

fn seeds() -> Vec<Seed> {
    let entry = NewEntry { op_type: 1, tenant: "default", key: b"key1", payload: b"value1" };
    let entry = LegacyEntry::new(SEQ, 1234, &entry).expect("the format can carry it");
    let text = String::from_utf8_lossy(&entry.encode()).into_owned();
    let counted = LegacyEntry { key_sequence_id: Some(3), ..entry };
    vec![
        Seed::good("counted", counted.encode()),
        Seed::bad("unknown_field", text.replacen('{', r#"{"extra":1,"#, 1)),
        Seed::bad("nameless_field", text.replacen('{', r#"{"":1,"#, 1)),
        Seed::bad("long_string", format!("\"{}\"", "k".repeat(4_900))),
        Seed::bad("twice", text.replacen('{', r#"{"op_type":1,"#, 1)),
        Seed::bad("float", text.replace(r#""op_type":1"#, r#""op_type":1.0"#)),
        Seed::bad("wrong_sequence", text.replace(r#""sequence_id":5"#, r#""sequence_id":6"#)),
        Seed::bad("missing", text.replace(r#""op_type":1,"#, "")),
        Seed::good("plain", text),
    ]
}
