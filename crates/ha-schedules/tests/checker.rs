//! Tests that the checker finds what goes wrong, and that its primitives do what production's do, in every order.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ha_schedules::Schedules;
use ha_schedules::sync::{AtomicU64, Mutex, Notify, OnceLock, Runtime, RwLock, sleep, timeout, watch, yield_now};
use shuttle::future::block_on;
use shuttle::thread;

const SCHEDULES: Schedules = Schedules::of_each_kind(200);

#[test]
#[should_panic(expected = "an addition is lost")]
fn an_addition_in_two_steps_is_found() {
    SCHEDULES.explore("lost_addition", &[], |_| {
        let sum = Arc::new(AtomicU64::new(0));
        let add = |sum: &AtomicU64| {
            let before = sum.load(Ordering::SeqCst);
            sum.store(before + 1, Ordering::SeqCst);
        };
        let other = thread::spawn({
            let sum = Arc::clone(&sum);
            move || add(&sum)
        });
        add(&sum);
        other.join().expect("the other ends");
        assert_eq!(sum.load(Ordering::SeqCst), 2, "an addition is lost");
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn two_who_wait_for_each_other_are_found() {
    SCHEDULES.explore("deadlock", &[], |_| {
        let (left, right) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let other = thread::spawn({
            let (left, right) = (Arc::clone(&left), Arc::clone(&right));
            move || {
                let _right = right.lock();
                let _left = left.lock();
            }
        });
        {
            let _left = left.lock();
            let _right = right.lock();
        }
        other.join().expect("the other ends");
    });
}

#[test]
#[should_panic(expected = r#"never reached in 400 schedules: ["never"]"#)]
fn a_situation_that_never_occurs_is_found() {
    SCHEDULES.explore("never", &["always", "never"], |reached| {
        let sum = Arc::new(Mutex::new(0));
        let other = thread::spawn({
            let sum = Arc::clone(&sum);
            move || *sum.lock() += 1
        });
        let seen = *sum.lock();
        reached.mark_if(seen < 2, "always");
        reached.mark_if(seen == 2, "never");
        other.join().expect("the other ends");
    });
}

#[test]
fn locks_exclude_and_a_look_at_one_that_is_held_is_refused() {
    SCHEDULES.explore("locks", &["it was held", "it was free"], |reached| {
        let (lock, many) = (Arc::new(Mutex::new(0)), Arc::new(RwLock::new(0)));
        let other = thread::spawn({
            let (lock, many) = (Arc::clone(&lock), Arc::clone(&many));
            move || {
                let (mut one, mut all) = (lock.lock(), many.write());
                *one += 1;
                thread::yield_now();
                *all += 1;
            }
        });
        match lock.try_lock() {
            Some(one) => {
                assert_eq!(*many.read(), *one, "both were changed in one hold");
                reached.mark("it was free");
            }
            None => reached.mark("it was held"),
        }
        other.join().expect("the other ends");
        assert_eq!((*lock.lock(), *many.read()), (1, 1));
        let reader = many.read();
        assert!(many.try_write().is_none(), "while one reads, nobody writes");
        drop(reader);
        *many.try_write().expect("nobody has it") += 1;
        let mut alone = Arc::into_inner(many).expect("the last one");
        assert_eq!(*alone.get_mut(), 2);
    });
}

#[test]
fn a_panic_poisons_no_lock() {
    SCHEDULES.explore("panic", &["looked before", "looked after"], |reached| {
        let (lock, many) = (Arc::new(Mutex::new(1)), Arc::new(RwLock::new(1)));
        let dies = thread::spawn({
            let (lock, many) = (Arc::clone(&lock), Arc::clone(&many));
            move || {
                let died = catch_unwind(AssertUnwindSafe(|| {
                    let (mut one, mut all) = (lock.lock(), many.write());
                    (*one, *all) = (2, 2);
                    std::panic::resume_unwind(Box::new("gone"));
                }));
                assert!(died.is_err());
            }
        });
        let (one, all) = (*lock.lock(), *many.read());
        reached.mark(if one == 1 { "looked before" } else { "looked after" });
        assert!(one <= all, "both were changed in one hold");
        dies.join().expect("it was caught");
        assert_eq!(lock.try_lock().map(|one| *one), Some(2));
        assert_eq!(many.try_write().map(|all| *all), Some(2));
        assert_eq!((*lock.lock(), *many.read()), (2, 2));
    });
}

#[test]
fn a_cell_is_set_once() {
    SCHEDULES.explore("once", &["seen before", "ours stays", "the other's stays"], |reached| {
        let cell = Arc::new(OnceLock::new());
        let other = thread::spawn({
            let cell = Arc::clone(&cell);
            move || cell.set("other").is_ok()
        });
        reached.mark_if(cell.get().is_some(), "seen before");
        let ours = cell.set("ours").is_ok();
        let theirs = other.join().expect("the other ends");
        assert!(ours != theirs, "one of both");
        let stays = *cell.get().expect("it is set");
        assert_eq!(stays == "ours", ours);
        reached.mark(if ours { "ours stays" } else { "the other's stays" });
    });
}

#[test]
fn a_wake_up_is_kept_for_the_next_who_waits_and_one_for_all_is_not() {
    SCHEDULES.explore("wake_up", &["woken", "all were woken before it waited"], |reached| {
        let (kept, all) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        Runtime::current().spawn({
            let (kept, all) = (Arc::clone(&kept), Arc::clone(&all));
            async move {
                kept.notify_one();
                all.notify_waiters();
            }
        });
        block_on(async {
            // Waits for ever if a wake-up before it is lost.
            kept.notified().await;
            let woken = timeout(Duration::ZERO, all.notified()).await.is_ok();
            reached.mark(if woken { "woken" } else { "all were woken before it waited" });
        });
    });
}

#[test]
fn a_timer_fires_before_and_after_what_it_limits() {
    SCHEDULES.explore("timer", &["in time", "too late"], |reached| {
        let told = Arc::new(watch::Sender::new(0));
        let mut shown = told.subscribe();
        Runtime::current().spawn_blocking({
            let told = Arc::clone(&told);
            move || {
                told.send_if_modified(|value| {
                    *value = 1;
                    true
                })
            }
        });
        block_on(async {
            sleep(Duration::from_secs(3600)).await;
            match timeout(Duration::from_secs(3600), shown.wait_for(|value| *value == 1)).await {
                Ok(seen) => {
                    assert_eq!(*seen.expect("the sender is there"), 1);
                    reached.mark("in time");
                }
                Err(_) => reached.mark("too late"),
            }
            yield_now().await;
        });
    });
}
