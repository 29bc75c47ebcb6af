//! Owns the taking of turns: what is compared is measured in the same rounds, and a figure is the median of them.

use std::time::{Duration, Instant};

/// The middle one; of an even number the upper of the two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Median nanoseconds of one call of each, in rounds that take every one in turn. A turn is short, so that on a busy machine most
/// turns pass without an interruption and the median is one of those.
pub(crate) fn interleaved<const N: usize>(mut calls: [&mut dyn FnMut(); N], rounds: usize) -> [f64; N] {
    let turns: Vec<u32> = calls.iter_mut().map(|call| turn(call)).collect();
    let mut times = [(); N].map(|()| Vec::with_capacity(rounds));
    for _ in 0..rounds {
        for ((call, turn), times) in calls.iter_mut().zip(&turns).zip(&mut times) {
            times.push(time(call, *turn).as_secs_f64() * 1e9 / f64::from(*turn));
        }
    }
    times.map(median)
}

/// How many calls make a turn.
fn turn(call: &mut dyn FnMut()) -> u32 {
    let mut calls = 1;
    while time(call, calls) < Duration::from_micros(100) {
        calls *= 2;
    }
    calls
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn time(call: &mut dyn FnMut(), calls: u32) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    start.elapsed()
}
