//! What is foretold is what happens, and a repair does that and no more.

use super::*;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new())
}

fn foretold(place: &Place, config: &Config) -> Explanation {
    let seen = place.look();
    explain(&seen, &seen.contents(), config, true).unwrap()
}

/// A store of one MiB, so that a few KiB of buckets matter.
fn small() -> Config {
    Config { capacity_bytes: 1 << 20, bucket_size_bytes: 1 << 20, ..Config::default() }
}

#[test]
fn b10_the_verdicts_and_the_plan_are_the_planners() {
    let place = Place::usual();
    let told = foretold(&place, &small());
    let verdicts: Vec<_> = told.buckets.iter().map(|b| (b.facts.id.0, b.verdict)).collect();
    assert_eq!(verdicts, [(1, Verdict::Dead), (2, Verdict::AllLive)]);
    assert_eq!(told.plan, Plan::RemoveDead(ids(&[1])));
    assert!(!told.room.pressure);
    assert!(told.refused.is_empty() && told.recovery.is_empty() && !told.needs_adoption);

    place.put(3, &[TestRecord::live(b"t\0d", 5, 20_000), TestRecord::dead(b"t\0e", 6, 40_000)]);
    let told = foretold(&place, &small());
    assert!(matches!(told.buckets[2].verdict, Verdict::NoPressure { dead_ratio } if dead_ratio > 0.6));
    let ratio = foretold(&place, &Config { normal_dead_ratio: Some(0.5), ..small() });
    assert_eq!(ratio.buckets[2].verdict, Verdict::Candidate);
    let full = foretold(&place, &Config { capacity_bytes: 100 << 10, bucket_size_bytes: 100 << 10, ..small() });
    assert!(full.room.pressure);
    assert_eq!(full.buckets[2].verdict, Verdict::Candidate);
    assert!(explain(&place.look(), &place.look().contents(), &Config { capacity_bytes: 0, ..small() }, true).is_err());
}

#[test]
fn b6_what_recovery_would_do_is_recoverys_decision_and_the_repair_does_it() {
    let place = Place::usual();
    place.put(9, &[TestRecord::live(b"t\0a", 3, 300), TestRecord::live(b"t\0c", 4, 70_000)]);
    place.put(5, &[TestRecord::live(b"t\0f", 7, 10)]);
    place.put(6, &[TestRecord::live(b"t\0f", 7, 10)]);
    put(&*place.dir, "7.bucket", &[0; 5000]).unwrap();
    put(&*place.dir, ".2.meta.5.tmp", b"x").unwrap();
    place.intents(&[
        Round::Committed { sources: ids(&[1, 2]), target: Some(BucketId(9)) },
        Round::Prepared { sources: ids(&[5]), target: BucketId(6) },
    ]);
    let live = place.look().contents().live();
    assert_eq!(live.records, 3);
    let told = foretold(&place, &small());
    let actions: Vec<_> = told.recovery.iter().map(|d| (d.action, d.gone().to_vec())).collect();
    assert_eq!(actions, [(Action::Finish, ids(&[1, 2])), (Action::RollBack, ids(&[6]))]);
    assert_eq!((told.orphans, told.temporaries), (ids(&[7]), vec![".2.meta.5.tmp".to_owned()]));
    assert_eq!(place.faults(), ["orphan_data 7.meta the file"]);

    let done = repair(Arc::clone(&place.dir) as _, clock()).unwrap();
    assert_eq!(done.rounds.len(), 2);
    assert_eq!((done.orphans.0, done.temporaries, done.high_water), (1, 1, None));
    let contents = place.look().contents();
    assert_eq!(contents.buckets.iter().map(|b| b.id.0).collect::<Vec<_>>(), [5, 9]);
    assert_eq!(contents.live(), live, "nothing that was live is lost");
    assert_eq!(place.faults(), [""; 0]);
    assert!(repair(Arc::clone(&place.dir) as _, clock()).unwrap().is_nothing());
}

#[test]
fn a_repair_writes_a_high_water_mark_above_all_that_was_used() {
    let place = Place::usual();
    place.intents(&[Round::Committed { sources: ids(&[1]), target: None }]);
    put(&*place.dir, ID_HIGH_WATER, &HighWater { next_bucket: 2, next_write_number: 2 }.encode().unwrap()).unwrap();
    let done = repair(Arc::clone(&place.dir) as _, clock());
    // Recovery takes a bucket at the mark for one that was never given out only where an intent names it.
    assert_eq!(done.unwrap().high_water, Some(HighWater { next_bucket: 3, next_write_number: 5 }));
    assert_eq!(place.faults(), [""; 0]);
}

#[test]
fn a_repair_leaves_alone_what_a_person_must_decide() {
    type Spoil<'a> = (&'a str, &'a dyn Fn(&Place));
    let spoil: [Spoil<'_>; 6] = [
        ("MARKER_MISSING", &|p| p.dir.unlink(MARKER).unwrap()),
        ("UNKNOWN_VERSION", &|p| p.change("2.meta", |bytes| bytes[4] = 3)),
        ("HIGH_WATER_DAMAGED", &|p| p.change(ID_HIGH_WATER, |bytes| bytes[8] ^= 1)),
        ("INTENT_DAMAGED", &|p| p.change(GC_INTENT, |bytes| bytes[7] ^= 1)),
        ("COMMITTED_TARGET_DAMAGED", &|p| p.dir.unlink("2.meta").unwrap()),
        ("STRANGE_FILE", &|p| put(&*p.dir, "notes.txt", b"x").unwrap()),
    ];
    for (code, spoil) in spoil {
        let place = Place::usual();
        place.intents(&[Round::Committed { sources: ids(&[1]), target: Some(BucketId(2)) }]);
        put(&*place.dir, "7.bucket", &[0; 5000]).unwrap();
        spoil(&place);
        let before = place.image();
        let error = repair(Arc::clone(&place.dir) as _, clock()).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert_eq!(place.image(), before, "{code}");
        let told = foretold(&place, &small());
        assert!(!told.refused.is_empty() && told.recovery.is_empty(), "{code}: {told:?}");
    }
}

#[test]
fn a_damaged_bucket_is_left_where_it_is() {
    let place = Place::usual();
    place.change("2.meta", |bytes| bytes[30] ^= 1);
    let (data, table) = (place.bytes("2.bucket"), place.bytes("2.meta"));
    let told = foretold(&place, &small());
    assert_eq!(told.quarantined.len(), 1);
    let kept = told.buckets.iter().map(|bucket| bucket.facts.allocated_bytes).sum::<u64>();
    let blocks = place.dir.open("2.bucket").unwrap().allocated_bytes().unwrap();
    assert_eq!((told.room.out_of_reach_bytes, told.room.physical_bytes), (blocks, blocks + kept));
    assert_eq!(told.limits.low_bytes, blocks + ((1 << 20) - blocks) * 8 / 10);
    let done = repair(Arc::clone(&place.dir) as _, clock()).unwrap();
    assert_eq!(done.quarantined.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [2]);
    assert_eq!((place.bytes("2.bucket"), place.bytes("2.meta")), (data, table));
    assert_eq!(place.faults(), ["table_damaged 2.meta crc"]);
}
