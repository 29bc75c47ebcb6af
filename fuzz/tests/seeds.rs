//! Tests of the targets without an engine: every seed does what it is said to do, and the committed corpus is what the code says.
//! One test, because the bound on allocations counts those of the whole process.

use std::path::Path;

use plimsoll_fuzz::{TARGETS, Verdict, committed_in, drift, write};

#[test]
fn every_seed_does_what_it_says_and_the_committed_corpus_is_what_the_code_says() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(seeds.iter().any(|seed| seed.accepted), "{} has no seed that decodes", target.name);
        assert!(seeds.iter().any(|seed| !seed.accepted), "{} has no seed that is refused", target.name);
        for seed in seeds {
            let verdict = (target.run)(&seed.bytes);
            assert_eq!(verdict == Verdict::Accepted, seed.accepted, "{}/{}: {verdict:?}", target.name, seed.name);
            // Cut short and with a byte changed: nothing is asked but that the properties hold.
            for at in 0..seed.bytes.len().min(512) {
                (target.run)(&seed.bytes[..at]);
                let mut changed = seed.bytes.clone();
                changed[at] ^= 0x15;
                (target.run)(&changed);
            }
        }
    }

    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let found = drift(&committed).expect("the corpus can be read");
    assert!(found.is_empty(), "run `cargo run -p plimsoll-fuzz --example write_corpus`: {found:#?}");

    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path()).expect("the seeds can be written");
    assert_eq!(drift(folder.path()).expect("readable"), Vec::<String>::new());
    let target = &TARGETS[0];
    let name = committed_in(folder.path(), target).expect("readable").keys().next().expect("a seed").clone();
    std::fs::write(folder.path().join(target.name).join(name), "other").expect("writable");
    assert_eq!(drift(folder.path()).expect("readable").len(), 1, "a changed seed is found");
}
