//! Owns the exhaustive test of the verdict: every prefix of a small world against what claims and appends can really make.

use std::collections::{BTreeMap, BTreeSet};

use ha_types::{BatchId, Epoch, Owner, Seq};

use super::{Verdict, judge};
use crate::DurablePrefix;

type Numbers = (u64, u64, u64, u64);

const MOST: u64 = 4;
const OUR_OWNER: u64 = 3;

fn prefix((epoch, owner, batch_id, last_seq): Numbers) -> DurablePrefix {
    DurablePrefix {
        epoch: Epoch::new(epoch),
        owner: Owner::new(owner),
        batch_id: BatchId::new(batch_id),
        last_seq: Seq::new(last_seq),
    }
}

fn world() -> Vec<Numbers> {
    let mut all = Vec::new();
    for epoch in 0..=MOST {
        for owner in 0..=OUR_OWNER {
            for batch_id in 0..=MOST {
                all.extend((0..=MOST).map(|last_seq| (epoch, owner, batch_id, last_seq)));
            }
        }
    }
    all.retain(|numbers| prefix(*numbers).check().is_ok());
    all
}

/// Everything that `expected` can become while our claim of it may land at any time and we write nothing.
fn reachable(expected: Numbers) -> BTreeSet<Numbers> {
    let mine = (expected.0 + 1, OUR_OWNER, expected.2, expected.3);
    let mut seen = BTreeSet::from([expected]);
    let mut open = vec![expected];
    while let Some(now) = open.pop() {
        let (epoch, owner, batch_id, last_seq) = now;
        let mut next = Vec::new();
        if now == expected {
            next.push(mine);
        }
        for other in 1..=OUR_OWNER {
            next.extend(((epoch + 1, other) != (mine.0, mine.1)).then_some((epoch + 1, other, batch_id, last_seq)));
        }
        if epoch > 0 && now != mine {
            next.extend((last_seq + 1..=MOST).map(|end| (epoch, owner, batch_id + 1, end)));
        }
        next.retain(|n| n.0 <= MOST && n.2 <= MOST && seen.insert(*n));
        open.extend(next);
    }
    seen
}

#[test]
fn l11_every_prefix_is_judged_as_claims_and_appends_could_have_made_it() {
    let world = world();
    let mut verdicts = BTreeMap::<&str, u64>::new();
    for expected in world.iter().filter(|n| n.0 < MOST && n.1 != OUR_OWNER) {
        let mine = (expected.0 + 1, OUR_OWNER, expected.2, expected.3);
        let reachable = reachable(*expected);
        let (sent_over, sent) = (prefix(*expected), prefix(mine));
        assert_eq!(judge(&sent_over, &sent, None), Verdict::Corrupt(None));
        for found in &world {
            let value = prefix(*found);
            let (name, right) = if *found == mine {
                ("claimed", Verdict::Claimed)
            } else if found == expected {
                ("resend", Verdict::Resend)
            } else if !reachable.contains(found) {
                ("corrupt", Verdict::Corrupt(Some(value)))
            } else if found.0 > expected.0 {
                ("superseded", Verdict::Superseded(value))
            } else {
                ("catch up", Verdict::CatchUp(value))
            };
            assert_eq!(judge(&sent_over, &sent, Some(value)), right, "expected ({sent_over}), found ({value})");
            *verdicts.entry(name).or_default() += 1;
        }
    }
    println!("{verdicts:?}");
    for name in ["claimed", "resend", "corrupt", "superseded", "catch up"] {
        assert!(verdicts.get(name).is_some_and(|n| *n > 10), "{name} hardly ever occurred");
    }
}
