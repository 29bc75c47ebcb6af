//! Owns the producer view: one number, one text.

use oplog_core::mooncake::ProducerView;

use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "producer_view", run, seeds };

fn run(data: &[u8]) -> Verdict {
    match bound::within(data.len(), 8, || ProducerView::decode(data)) {
        Ok(view) => {
            assert_eq!(view.encode().as_bytes(), data, "one number, one text");
            assert!(view.next().is_none_or(|next| next > view && next.get() == view.get() + 1));
            Verdict::Accepted
        }
        Err(e) => Verdict::refused(&e),
    }
}

fn seeds() -> Vec<Seed> {
    vec![
        Seed::good("first", "1"),
        Seed::good("last", i64::MAX.to_string()),
        Seed::bad("zero", "0"),
        Seed::bad("padded", "01"),
        Seed::bad("beyond", (i64::MAX as u64 + 1).to_string()),
        Seed::bad("signed", "+1"),
    ]
}
