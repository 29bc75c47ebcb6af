//! Owns the tests of the walk over live objects.

use std::collections::BTreeSet;

use bucket_store::gc::GcStep;
use bucket_store::vfs::sim::SimDisk;
use bucket_store::{Config, DeleteRequest, StoreErrorKind, WriteObject};

use crate::kit::{builder, config, delete, inc, key, list, open, open_with, value, write_all};

#[test]
fn pages_of_every_size_give_every_live_object_once() {
    let disk = SimDisk::new();
    let store = open(&disk);
    let names: Vec<_> = (0..23).map(|n| format!("{n:02}")).collect();
    let objects: Vec<_> = names.iter().zip(1..).map(|(name, seed)| (&**name, seed)).collect();
    write_all(&store, &objects).unwrap();
    for n in [0, 5, 22] {
        delete(&store, &names[n], n as u64 + 1);
    }
    let live: Vec<_> = (0..23).filter(|n| ![0, 5, 22].contains(n)).map(|n| key(&names[n])).collect();
    for most in [1, 2, 3, 7, 20, 21, 100] {
        let listed: Vec<_> = list(&store, most).into_iter().map(|(key, _)| key).collect();
        assert_eq!(listed, live, "in pages of {most}");
    }
    assert_eq!(list(&open(&SimDisk::new()), 5), []);
}

#[test]
fn a_page_of_none_or_too_many_is_refused() {
    let store = open(&SimDisk::new());
    for most in [0, 10_001] {
        let error = store.list(None, most).unwrap_err();
        assert_eq!((error.kind(), error.code()), (StoreErrorKind::Invalid, "ARGUMENT"));
        assert_eq!(error.to_string(), format!("most is {most}; give 1 to max_list_page, which is 10000"));
    }
}

#[test]
fn what_lives_throughout_is_met_whatever_gc_moves_meanwhile() {
    let mut moved = false;
    for steps_between in 1..30 {
        let disk = SimDisk::new();
        let eager = Config { normal_dead_ratio: Some(0.1), gc_copy_share: 1.0, ..config() };
        let store = open_with(builder().config(eager), &disk).unwrap();
        let names: Vec<_> = (0..40).map(|n| key(&format!("{n:02}"))).collect();
        let bytes = value(1, 5000);
        let object = |(key, n)| WriteObject { key, incarnation: inc(n), value: &bytes, placement: None };
        let objects: Vec<_> = names.iter().map(Vec::as_slice).zip(1..).map(object).collect();
        store.write(&objects).unwrap();
        let dead = |n: &usize| n.is_multiple_of(2);
        let doomed: Vec<_> =
            (0..40).filter(dead).map(|n| DeleteRequest { key: &names[n], incarnation: inc(n as u64 + 1) }).collect();
        store.delete(&doomed).unwrap();
        let lives: BTreeSet<_> = (0..40).filter(|n| !dead(n)).map(|n| names[n].clone()).collect();
        let first = store.find(&names[1]).unwrap().bucket;
        let (mut met, mut after) = (BTreeSet::new(), None);
        loop {
            let page = store.list(after, 3).unwrap();
            met.extend(page.objects.into_iter().map(|object| object.key.to_vec()));
            for _ in 0..steps_between {
                assert!(matches!(store.gc_step(), GcStep::Again | GcStep::Idle(_)));
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        moved |= store.find(&names[1]).unwrap().bucket != first;
        assert_eq!(met, lives, "after {steps_between} steps a page");
    }
    assert!(moved, "GC moved nothing in any of these");
}
