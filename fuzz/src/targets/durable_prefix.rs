//! Owns the durable prefix: what decodes encodes to the same bytes; as it stands, and with its checksum put right.

use oplog_core::DurablePrefix;

use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "durable_prefix", run, seeds };

fn run(data: &[u8]) -> Verdict {
    if let Some(repaired) = with_checksum(data) {
        one(&repaired);
    }
    one(data)
}

fn one(data: &[u8]) -> Verdict {
    match bound::within(data.len(), 16, || DurablePrefix::decode(data)) {
        Ok(prefix) => {
            if data.first() == Some(&b'{') {
                assert!(prefix.is_mooncakes() || prefix.batch_id.get() == 0, "Mooncake's has no epoch: {prefix}");
            } else {
                prefix.check().expect("what decodes may be");
                assert_eq!(prefix.encode().as_bytes(), data, "one prefix, one line");
            }
            assert!(prefix.may_become(&prefix), "it may stay as it is");
            Verdict::Accepted
        }
        Err(e) => Verdict::refused_at(&e, data, (e.field, e.offset), (&e.expected, &e.found)),
    }
}

fn with_checksum(data: &[u8]) -> Option<Vec<u8>> {
    let mark = b" checksum=";
    let at = data.windows(mark.len()).rposition(|window| window == mark)?;
    let line = data.get(..at)?;
    Some([line, mark, format!("{:08x}", crc32c::crc32c(line)).as_bytes()].concat())
}

fn seeds() -> Vec<Seed> {
    let golden = include_str!("../../../crates/oplog-core/tests/golden/durable-prefix.txt");
    let claimed = golden.lines().find(|line| !line.contains("epoch=0 ")).expect("a claimed prefix");
    let fresh = DurablePrefix::FRESH.encode();
    vec![
        Seed::good("golden", claimed),
        Seed::good("mooncakes", r#"{"batch_id":3,"last_seq":7,"schema_version":1}"#),
        Seed::bad("leading_zero", fresh.replace("epoch=0", "epoch=00")),
        Seed::bad("newline", format!("{fresh}\n")),
        Seed::bad("wrong_checksum", claimed.replace("checksum=", "checksum=0")),
        Seed::good("fresh", fresh),
    ]
}
