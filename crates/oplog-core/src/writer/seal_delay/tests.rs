//! The rule by itself, on a clock that moves only when it is told to.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ha_types::{Clock, ManualClock};

use super::*;
use crate::WriterConfig;
use crate::writer::class::Class;
use crate::writer::core::Core;
use crate::writer::tests::kit::{ENTRY, claimed};

const RULE: SealDelay = SealDelay { max: Duration::from_micros(200) };
const STEP: Duration = Duration::from_micros(1);

const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// After how many steps of a microsecond a wait ends; `commits` says how many entries have come by then.
fn ends_after(rule: SealDelay, took: Duration, woken: usize, commits: impl Fn(u64) -> u64) -> u64 {
    let mut wait = rule.after(took, woken, 100, MonoTime::ZERO).expect("it applies");
    let over = |step: &u64| wait.is_over(100 + commits(*step), MonoTime::ZERO.saturating_add(STEP * *step as u32));
    (0..10_000).find(over).expect("it ends")
}

#[test]
fn nothing_is_waited_for_with_zero_after_a_fast_store_or_where_nobody_was_woken() {
    let applies = |rule: SealDelay, took, woken| rule.after(took, woken, 0, MonoTime::ZERO).is_some();
    assert!(applies(RULE, us(100), 1));
    assert!(!applies(RULE, us(99), 1), "the store is too fast to gain from it");
    assert!(!applies(RULE, us(1000), 0), "nobody was woken, nobody comes back");
    assert!(!applies(SealDelay::new(Duration::ZERO), us(1000), 32), "zero is the RFC's rule");
}

#[test]
fn it_ends_with_the_last_return_the_silence_or_the_time() {
    assert_eq!(ends_after(RULE, us(1000), 32, |step| 4 * step), 8, "32 came back");
    assert_eq!(ends_after(RULE, us(1000), 1, |step| u64::from(step >= 3)), 3, "a lone caller costs what it takes");
    assert_eq!(ends_after(RULE, us(1000), 32, |_| 0), 50, "nobody for a twentieth of the transaction");
    assert_eq!(ends_after(RULE, us(1000), 32, |step| step.min(10)), 60, "nobody since the tenth");
    assert_eq!(ends_after(RULE, us(5000), 32, |_| 0), 50, "nobody for the longest silence");
    assert_eq!(ends_after(RULE, us(200), 32, |_| 0), 10, "nobody for a twentieth of a short one");
    assert_eq!(ends_after(RULE, us(400), 1000, |step| step / 10), 100, "a quarter of the transaction");
    assert_eq!(
        ends_after(RULE, us(60_000_000), 1000, |step| step / 10),
        200,
        "the setting, however long the store took"
    );
    let short = SealDelay::new(us(7));
    assert_eq!(ends_after(short, us(60_000_000), 1000, |_| 0), 7, "a shorter setting");
}

#[test]
fn a_miss_is_not_remembered() {
    for _ in 0..3 {
        assert_eq!(ends_after(RULE, us(1000), 8, |_| 0), 50);
        assert_eq!(ends_after(RULE, us(1000), 8, |step| step), 8);
    }
}

/// A wait over a real core; `step` runs between two looks and says whether there is another. Counts the looks.
async fn looks(slots: usize, woken: usize, mut step: impl FnMut(usize, &mut Core, &ManualClock) -> bool) -> usize {
    let clock = Arc::new(ManualClock::new());
    let config = WriterConfig { oplog_batch_max_entries: slots, oplog_batch_max_bytes: 256, ..WriterConfig::default() };
    let shared = Shared::new(&claimed().await, config, clock.clone());
    let wait = RULE.after(us(1000), woken, 0, clock.now()).expect("it applies").wait(&shared);
    let mut wait = pin!(wait);
    let mut looked = 0;
    poll_fn(|_| {
        loop {
            looked += 1;
            // `yield_now` wakes at once, so whoever polls again is no busier than a scheduler.
            if wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                return Poll::Ready(());
            }
            assert!(shared.with_core(|core| step(looked, core, &clock)), "it still waits after look {looked}");
        }
    })
    .await;
    looked
}

fn commit(core: &mut Core) {
    core.reserve(Class::Waiter, 1).expect("a slot");
    core.commit(Class::Waiter, &ENTRY, &mut None, || MonoTime::ZERO).expect("committed");
}

#[tokio::test]
async fn it_ends_at_once_when_nobody_who_could_come_would_be_in_the_next_batch() {
    let ends = |end: fn(&mut Core)| {
        looks(4, 32, move |look, core, _| {
            if look == 3 {
                end(core);
            }
            look <= 3
        })
    };
    assert_eq!(ends(Core::stop).await, 4, "stopped");
    assert_eq!(ends(Core::start_drain).await, 4, "drained");
    assert_eq!(ends(Core::orphan).await, 4, "no handle is left");
    assert_eq!(ends(|core| (0..4).for_each(|_| commit(core))).await, 4, "every slot is an entry's");
}

#[tokio::test]
async fn it_ends_when_the_next_batch_is_full_in_bytes() {
    let looked = looks(1000, 1000, |look, core, _| {
        commit(core);
        look < 100
    });
    let looked = looked.await;
    assert!((5..50).contains(&looked), "a batch of 256 bytes was full after {looked} entries");
}

#[tokio::test]
async fn it_ends_although_the_clock_stands_still() {
    assert_eq!(looks(4, 32, |_, _, _| true).await, MOST_YIELDS as usize + 1);
}

#[tokio::test]
async fn the_clock_is_asked_at_each_look() {
    let step = |_: usize, _: &mut Core, clock: &ManualClock| {
        clock.advance(us(10));
        true
    };
    assert_eq!(looks(4, 32, step).await, 6, "fifty microseconds of silence, after as many steps of ten");
}
