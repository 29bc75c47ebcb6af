//! The space against a plain array of bytes.
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> MonoTime {
    MonoTime::from_origin(Duration::from_millis(ms))
}

#[test]
fn the_smallest_range_that_is_large_enough_is_taken() {
    let mut space = Space::new(0..1000);
    assert!(space.take(&(100..200)) && space.take(&(230..900)));
    assert_eq!(space.allocate(30, at(0)), Some(200));
    assert_eq!(space.allocate(100, at(0)), Some(0));
    assert_eq!(space.allocate(100, at(0)), Some(900));
    assert_eq!(space.allocate(1, at(0)), None);
}

#[test]
fn a_held_range_is_free_when_its_time_has_come_and_not_before() {
    let mut space = Space::new(0..100);
    assert_eq!(space.allocate(100, at(0)), Some(0));
    space.give_back_at(0..100, at(50), at(0));
    assert_eq!((space.free_bytes(), space.held_bytes()), (0, 100));
    assert_eq!(space.allocate(1, at(49)), None);
    assert_eq!(space.allocate(1, at(50)), Some(0));
    assert_eq!((space.free_bytes(), space.held_bytes()), (99, 0));
}

#[test]
#[should_panic(expected = "released twice")]
fn m2_a_range_released_twice_is_caught() {
    let mut space = Space::new(0..100);
    assert!(space.take(&(10..20)));
    space.give_back(10..20);
    space.give_back(10..20);
}

#[test]
fn addresses_at_the_end_of_the_numbers() {
    let mut space = Space::new(u64::MAX - 10..u64::MAX);
    assert!(space.take(&(u64::MAX - 1..u64::MAX)));
    space.give_back(u64::MAX - 1..u64::MAX);
    assert_eq!(space.free_ranges(), vec![u64::MAX - 10..u64::MAX; 1]);
}

proptest! {
    #[test]
    fn equals_an_array_of_bytes(steps in proptest::collection::vec((0..4_u8, 0..64_u64, 1..20_u64), 1..200)) {
        let mut space = Space::new(0..64);
        let mut free = [true; 64];
        let mut owned: Vec<Range<u64>> = Vec::new();
        let all_free = |free: &[bool; 64], r: &Range<u64>| r.end <= 64 && r.clone().all(|i| free[i as usize]);
        for (kind, start, length) in steps {
            match kind {
                0 => {
                    let range = start..start + length;
                    prop_assert_eq!(space.is_free(&range), all_free(&free, &range));
                    let taken = space.take(&range);
                    prop_assert_eq!(taken, all_free(&free, &range));
                    if taken {
                        range.clone().for_each(|i| free[i as usize] = false);
                        owned.push(range);
                    }
                }
                1 => {
                    let possible = (0..64).any(|s| all_free(&free, &(s..s + length)));
                    let found = space.allocate(length, at(0));
                    prop_assert_eq!(found.is_some(), possible);
                    if let Some(start) = found {
                        let range = start..start + length;
                        prop_assert!(all_free(&free, &range));
                        range.clone().for_each(|i| free[i as usize] = false);
                        owned.push(range);
                    }
                }
                _ => {
                    if !owned.is_empty() {
                        let range = owned.swap_remove(start as usize % owned.len());
                        range.clone().for_each(|i| free[i as usize] = true);
                        space.give_back(range);
                    }
                }
            }
            prop_assert_eq!(space.free_bytes(), free.iter().filter(|f| **f).count() as u64);
            let ranges = space.free_ranges();
            let index: BTreeSet<(u64, u64)> = ranges.iter().map(|r| (r.end - r.start, r.start)).collect();
            prop_assert_eq!(&index, &space.by_length);
        }
    }
}
