//! Owns the graves of buckets that could not be read: what decodes encodes to the same bytes, and it says of each record of each key what
//! its fields say.

use std::sync::Arc;

use bucket_store::format::graves::{Graves, Rank};
use bucket_store::format::names::BucketId;
use bucket_store::format::table::Tombstone;
use ha_types::ObjectIncarnation;

use super::{refused_file, with_last_crc};
use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "bucket_graves", run, seeds };

fn run(data: &[u8]) -> Verdict {
    if let Some(repaired) = with_last_crc(data) {
        one(&repaired);
    }
    one(data)
}

fn one(data: &[u8]) -> Verdict {
    // The nodes of three sets and a key of its own stand against the 27 bytes of the smallest grave.
    let graves = match bound::within(data.len(), 32, || Graves::decode(data)) {
        Ok(graves) => graves,
        Err(e) => return refused_file(&e, data),
    };
    assert_eq!(graves.encode().as_deref(), Ok(data), "one set of graves, one file");
    assert_eq!(graves.encoded_len(), data.len() as u64);
    assert!(graves.away.iter().all(|id| id.is_valid()));
    for (key, grave) in &graves.keys {
        let Rank { write_number, bucket } = grave.replaced;
        assert!(bucket.is_valid());
        let highest = Rank { write_number: u64::MAX, bucket };
        assert!(grave.deleted.iter().all(|it| graves.of(key, highest, *it) == Some(Tombstone::Deleted)));
        let other = ObjectIncarnation::from_bytes([0xa5; 16]);
        if !grave.deleted.contains(&other) {
            let below = Rank { write_number, bucket: BucketId(bucket.0 - 1) };
            assert_eq!(graves.of(key, below, other), Some(Tombstone::Replaced));
            assert_eq!(graves.of(key, grave.replaced, other), None);
        }
    }
    Verdict::Accepted
}

fn seeds() -> Vec<Seed> {
    let key = |name: &str| Arc::from(format!("t\0{name}").into_bytes());
    let rank = |write_number, bucket| Rank { write_number, bucket: BucketId(bucket) };
    let inc = |number| Some(ObjectIncarnation::from_bytes([number; 16]));
    let mut all = Graves { away: [BucketId(3), BucketId(9)].into(), ..Graves::default() };
    all.add(&key("a"), rank(7, 4), None);
    all.add(&key("b"), rank(12, 5), inc(1));
    all.add(&key("b"), rank(11, 6), inc(2));
    let away = Graves { away: all.away.clone(), ..Graves::default() };
    let all = all.encode().expect("graves that may be");
    let change = |at: usize, byte: u8| {
        let mut bytes = all.clone();
        bytes[at] = byte;
        with_last_crc(&bytes).expect("long enough")
    };
    vec![
        Seed::good("none", Graves::default().encode().expect("none may be")),
        Seed::good("away_only", away.encode().expect("graves that may be")),
        Seed::bad("unknown_version", change(4, 2)),
        Seed::bad("many_buckets", change(9, 0xff)),
        Seed::bad("many_keys", change(29, 0xff)),
        Seed::bad("many_incarnations", change(80, 0xff)),
        Seed::bad("buckets_equal", change(18, 3)),
        Seed::bad("no_bucket", change(38, 0)),
        Seed::bad("keys_equal", change(56, b'b')),
        Seed::bad("no_key", change(55, b'x')),
        Seed::bad("cut", &all[..all.len() - 9]),
        Seed::good("keys", all),
    ]
}
