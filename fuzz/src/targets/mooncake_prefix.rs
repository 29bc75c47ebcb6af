//! Owns Mooncake's durable prefix: what decodes is written the same by the encoder for tests, but for white space and order.

use oplog_core::mooncake::{MooncakePrefix, encode};

use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "mooncake_prefix", run, seeds };

fn run(data: &[u8]) -> Verdict {
    match bound::within(data.len(), 32, || MooncakePrefix::decode(data)) {
        Ok(prefix) => {
            let bytes = encode::prefix(prefix.batch_id.get(), prefix.last_seq.get(), prefix.producer_view_version);
            assert_eq!(MooncakePrefix::decode(&bytes), Ok(prefix), "what was read is what is written");
            let boundary = prefix.boundary();
            assert_eq!((boundary.batch_id, boundary.last_seq), (prefix.batch_id, prefix.last_seq));
            Verdict::Accepted
        }
        Err(e) => Verdict::refused_at(&e, data, (e.field, e.offset), (&e.expected, &e.found)),
    }
}

fn seeds() -> Vec<Seed> {
    vec![
        Seed::good("first_batch", encode::prefix(1, 3, Some(1))),
        Seed::good("no_view", encode::prefix(7, 900, None)),
        Seed::bad("float", r#"{"batch_id":1.0,"last_seq":1,"schema_version":1}"#),
        Seed::bad("twice", r#"{"batch_id":1,"batch_id":1,"last_seq":1,"schema_version":1}"#),
        Seed::bad("nested", format!("{}1{}", "[".repeat(200), "]".repeat(200))),
        Seed::bad("above_u64", r#"{"batch_id":18446744073709551616,"last_seq":1,"schema_version":1}"#),
    ]
}
