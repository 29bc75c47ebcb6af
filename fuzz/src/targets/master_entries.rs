//! Owns the payloads of the master: any entries, applied one after another to a state; what is refused has changed nothing.

use ha_types::{Epoch, Seq};
use master::MasterState;
use oplog_core::{EntryRef, StateMachine as _};

use crate::{Seed, Target, Verdict};

pub(crate) const TARGET: Target = Target { name: "master_entries", run, seeds };

/// More entries in one input find nothing more.
const MOST: usize = 16;

/// Reads op type, length of the key, length of the payload, key and payload, as often as there are bytes for them.
fn next<'a>(data: &mut &'a [u8]) -> Option<(u8, &'a [u8], &'a [u8])> {
    let (&[op, key, payload], rest) = data.split_first_chunk::<3>()?;
    let (key, rest) = rest.split_at_checked(usize::from(key).min(rest.len()))?;
    let (payload, rest) = rest.split_at_checked(usize::from(payload).min(rest.len()))?;
    *data = rest;
    Some((op, key, payload))
}

fn run(data: &[u8]) -> Verdict {
    apply(data, Epoch::new(1))
}

/// Applies the entries in `data`, each written under `epoch`, until there are no more.
pub(super) fn apply(mut data: &[u8], epoch: Epoch) -> Verdict {
    let mut state = MasterState::new();
    let mut verdict = Verdict::Accepted;
    for _ in 0..MOST {
        let Some((op_type, key, payload)) = next(&mut data) else { break };
        let seq = state.last_applied().next().expect("few entries");
        let entry = EntryRef { seq, epoch, timestamp_ms: 0, op_type, tenant: "default", key, payload };
        let before = (state.last_applied(), state.contents());
        match state.apply(entry) {
            Ok(()) => assert_eq!(state.last_applied(), seq),
            Err(e) => {
                let refused = Verdict::refused(&e);
                if verdict == Verdict::Accepted {
                    verdict = refused;
                }
                assert_eq!((state.last_applied(), state.contents()), before, "refused, and changed something: {e}");
            }
        }
    }
    assert!(state.last_applied() <= Seq::new(MOST as u64));
    verdict
}

/// One entry as [`apply`] reads it.
pub(super) fn entry(op: u8, key: &[u8], payload: &[u8]) -> Vec<u8> {
    let len = |bytes: &[u8]| u8::try_from(bytes.len()).expect("short");
    [&[op, len(key), len(payload)], key, payload].concat()
}

/// Epoch 1, owner's half 7, counter 1.
const INCARNATION: [u8; 16] = [0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1];

fn seeds() -> Vec<Seed> {
    // As docs/formats/entry-payloads.md has them: a version, then the fields.
    let mount = entry(5, b"seg-a", b"\x01\x06host:1\x80\x20\x80\x80\x04");
    let put = entry(1, b"key1", &[&[1][..], &INCARNATION, &[9; 16], b"\x10\x01\x05seg-a\x80\x20"].concat());
    let removed = entry(3, b"key1", &[&[1][..], &INCARNATION].concat());
    let moved = entry(7, b"seg-a", b"\x01\x06host:2");
    let unmounted = entry(6, b"seg-a", b"\x01");
    vec![
        Seed::good("mount", mount.clone()),
        Seed::good("life", [&mount[..], &put, &moved, &removed, &unmounted].concat()),
        Seed::good("policy", entry(12, b"cluster", b"\x01\x00\xd0\x0f\x88\x27\xb0\xea\x01\xb0\xea\x01")),
        Seed::good("put", [&mount[..], &put].concat()),
        Seed::bad("put_without_segment", put),
        Seed::bad("unknown_op", entry(255, b"k", b"\x01")),
        Seed::bad("no_version", entry(5, b"seg-a", b"")),
        Seed::bad("trailing", entry(6, b"seg-a", b"\x01\x00")),
    ]
}
