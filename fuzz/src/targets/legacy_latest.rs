//! Owns the legacy log's `latest`: one number, one text, and an error that names the key.

use std::sync::Arc;

use bytes::Bytes;
use ha_kv::{Kv as _, MemoryKv};
use oplog_core::legacy::LegacyLog;

use super::{at_once, keys};
use crate::{Seed, Target, Verdict};

pub(crate) const TARGET: Target = Target { name: "legacy_latest", run, seeds };

fn run(data: &[u8]) -> Verdict {
    let kv = Arc::new(MemoryKv::new());
    let stored = at_once(kv.put(&keys().legacy_latest(), Bytes::copy_from_slice(data)));
    if let Err(e) = stored {
        return Verdict::refused(&e);
    }
    match at_once(LegacyLog::new(kv, keys()).read_latest()) {
        Ok(seq) => {
            let seq = seq.expect("it is there");
            assert_eq!(seq.to_string().as_bytes(), data, "one number, one text");
            Verdict::Accepted
        }
        Err(e) => {
            assert!(e.to_string().contains("/oplog/c1/latest"), "the key is not named: {e}");
            Verdict::refused(&e)
        }
    }
}

fn seeds() -> Vec<Seed> {
    vec![
        Seed::good("zero", "0"),
        Seed::good("largest", u64::MAX.to_string()),
        Seed::bad("padded", "007"),
        Seed::bad("beyond", "18446744073709551616"),
        Seed::bad("newline", "5\n"),
        Seed::bad("empty", ""),
    ]
}
