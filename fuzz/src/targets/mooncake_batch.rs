//! Owns Mooncake's batch records: as they stand, and with the checksum put right; the record that is kept agrees.

use bytes::Bytes;
use oplog_core::mooncake::{MooncakeBatch, encode};
use oplog_core::record::{BatchRecord, RecordErrorKind};

use super::with_expected;
use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "mooncake_batch", run, seeds };

fn run(data: &[u8]) -> Verdict {
    if let Err(e) = MooncakeBatch::decode(data)
        && e.kind == RecordErrorKind::Checksum
        && let Some(repaired) = with_expected(data, e.offset, &e.found, &e.expected)
    {
        let again = MooncakeBatch::decode(&repaired);
        assert!(again.is_ok() || again.as_ref().is_err_and(|e| e.kind != RecordErrorKind::Checksum), "{again:?}");
        one(&repaired);
    }
    one(data)
}

fn one(data: &[u8]) -> Verdict {
    // A vector of entries of a hundred bytes each stands against the dozen bytes of the smallest entry; text is decoded once more.
    let batch = match bound::within(data.len(), 64, || MooncakeBatch::decode(data)) {
        Ok(batch) => batch,
        Err(e) => return Verdict::refused_at(&e, data, (e.field, e.offset), (&e.expected, &e.found)),
    };
    assert_eq!(batch.last_seq.get() - batch.first_seq.get() + 1, batch.entries.len() as u64);
    let keys: Vec<_> = batch.entries.iter().map(|e| std::str::from_utf8(&e.key).expect("JSON is text")).collect();
    let entries = batch.entries.iter().zip(keys);
    let entries: Vec<_> = entries.map(|(e, key)| (e.op_type, e.tenant.as_str(), key, e.payload.as_slice())).collect();
    let bytes = encode::batch(batch.batch_id.get(), batch.first_seq.get(), &entries);
    assert_eq!(MooncakeBatch::decode(&bytes).as_ref(), Ok(&batch), "what was read is what is written");
    if data.first() == Some(&b'[') {
        let kept = BatchRecord::decode(Bytes::copy_from_slice(data)).expect("it is read and kept as well");
        assert_eq!((kept.header().batch_id, kept.last_seq()), (batch.batch_id, batch.last_seq));
        let same = |(kept, read): (oplog_core::EntryRef<'_>, &oplog_core::mooncake::MooncakeEntry)| {
            (kept.op_type, kept.tenant, kept.key, kept.payload)
                == (read.op_type, read.tenant.as_str(), read.key.as_slice(), read.payload.as_slice())
        };
        assert!(kept.entries().zip(&batch.entries).all(same), "both forms have the same entries");
    }
    Verdict::Accepted
}

fn seeds() -> Vec<Seed> {
    let one = encode::batch(1, 1, &[(1, "default", "key1", b"value1")]);
    let several = encode::batch(
        2,
        2,
        &[(3, "t", "\u{20ac}\"\\\n", b""), (1, "t", "", &[0, 255, 128]), (7, "default", "segment", b"\x01")],
    );
    let text = String::from_utf8_lossy(&one).into_owned();
    vec![
        Seed::bad("too_short", encode::sealed("[1,1,1,1")),
        Seed::bad("nested", format!("{}{}", "[".repeat(10_000), "]".repeat(10_000))),
        Seed::bad("unpadded", encode::sealed(r#"[1,1,1,1,[[1,"t","k","AAA"]]"#)),
        Seed::bad("long_string", format!("\"{}\"", "k".repeat(4_900))),
        Seed::bad("no_entries", encode::sealed("[1,1,1,1,[]")),
        Seed::bad("wrong_checksum", text.replace("key1", "key2")),
        Seed::good("one", one),
        Seed::good("several", several),
    ]
}
