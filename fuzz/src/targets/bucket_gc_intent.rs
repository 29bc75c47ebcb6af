//! Owns the intents of GC: what decodes encodes to the same bytes, no bucket is named twice, and one round at most is prepared.

use std::collections::BTreeSet;

use bucket_store::format::intent::{Intents, MAX_SOURCES, Round};
use bucket_store::format::names::BucketId;

use super::{refused_file, with_last_crc};
use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "bucket_gc_intent", run, seeds };

fn run(data: &[u8]) -> Verdict {
    if let Some(repaired) = with_last_crc(data) {
        one(&repaired);
    }
    one(data)
}

fn one(data: &[u8]) -> Verdict {
    // A round of 56 bytes and its growing set of ids stand against the ten bytes of the smallest one.
    let intents = match bound::within(data.len(), 32, || Intents::decode(data)) {
        Ok(intents) => intents,
        Err(e) => return refused_file(&e, data),
    };
    assert_eq!(intents.encode().as_deref(), Ok(data), "one set of rounds, one file");
    let mut seen = BTreeSet::new();
    for round in &intents.rounds {
        assert!((1..=MAX_SOURCES).contains(&round.sources().len()) && round.sources().is_sorted());
        assert!(round.sources().iter().chain(&round.target()).all(|id| id.is_valid() && seen.insert(*id)));
    }
    assert!(intents.rounds.iter().filter(|round| matches!(round, Round::Prepared { .. })).count() <= 1);
    Verdict::Accepted
}

fn seeds() -> Vec<Seed> {
    let ids = |ids: &[u64]| ids.iter().copied().map(BucketId).collect::<Vec<_>>();
    let rounds = vec![
        Round::Committed { sources: ids(&[1, 2]), target: Some(BucketId(9)) },
        Round::Committed { sources: ids(&[3]), target: None },
        Round::Prepared { sources: ids(&[4, 5, 6, 7, 8, 10, 11, 12]), target: BucketId(13) },
    ];
    let all = Intents { rounds }.encode().expect("rounds that may be");
    let change = |at: usize, byte: u8| {
        let mut bytes = all.clone();
        bytes[at] = byte;
        with_last_crc(&bytes).expect("long enough")
    };
    vec![
        Seed::good("no_rounds", Intents::default().encode().expect("none may be")),
        Seed::bad("unknown_version", change(4, 2)),
        Seed::bad("unknown_state", change(10, 4)),
        Seed::bad("nine_sources", change(11, 9)),
        Seed::bad("many_rounds", change(9, 0xff)),
        Seed::bad("target_is_a_source", change(12, 2)),
        Seed::bad("sources_equal", change(28, 1)),
        Seed::bad("cut", &all[..all.len() - 9]),
        Seed::good("all_states", all),
    ]
}
