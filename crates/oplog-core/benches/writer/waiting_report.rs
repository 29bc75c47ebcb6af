//! Owns how the figures of waiting callers are shown, and what they are held against.

use crate::report::median;
use crate::waiting::{Beside, Case, Round};

/// One figure of a case with its aim.
struct Aim {
    what: &'static str,
    /// Which case.
    of: fn(&Case) -> bool,
    figure: fn(&Round) -> f64,
    aim: f64,
    /// Whether less is better.
    at_most: bool,
}

fn gain(round: &Round) -> f64 {
    round.on.entries_per_s / round.off.entries_per_s
}

fn is(case: &Case, waiting: usize, producers: usize) -> bool {
    case.time.as_micros() == 1000
        && case.beside == Beside::Nobody
        && (case.waiting, case.producers) == (waiting, producers)
}

/// What decides whether the delay is on by default, and what bulk admission is for. All at 1 ms.
const AIMS: [Aim; 7] = [
    Aim { what: "8 waiting: throughput on/off", of: |c| is(c, 8, 0), figure: gain, aim: 1.8, at_most: false },
    Aim { what: "32 waiting: throughput on/off", of: |c| is(c, 32, 0), figure: gain, aim: 1.8, at_most: false },
    Aim { what: "32 waiting, on: p99 in T", of: |c| is(c, 32, 0), figure: |r| r.on.p99, aim: 1.3, at_most: true },
    Aim { what: "8 not waiting: on/off", of: |c| is(c, 0, 8), figure: gain, aim: 0.98, at_most: false },
    Aim { what: "1 waiting: on/off", of: |c| is(c, 1, 0), figure: gain, aim: 0.95, at_most: false },
    Aim {
        what: "32 waiting beside bulk, off: p99 in T",
        of: |c| c.beside == Beside::Bulk,
        figure: |r| r.off.p99,
        aim: 2.0,
        at_most: true,
    },
    Aim {
        what: "32 waiting beside bulk, on: p99 in T",
        of: |c| c.beside == Beside::Bulk,
        figure: |r| r.on.p99,
        aim: 2.0,
        at_most: true,
    },
];

pub(crate) fn case(case: &Case, rounds: &[Round], json: bool) {
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
    let Case { time, waiting, producers, beside } = *case;
    let (time_us, t_us) = (time.as_micros(), of(|r| r.transaction) * 1e6);
    let beside = match beside {
        Beside::Nobody => "",
        Beside::Producer => "producer",
        Beside::Bulk => "bulk",
    };
    let (off, on, ratio) = (of(|r| r.off.entries_per_s), of(|r| r.on.entries_per_s), of(gain));
    let (off_beside, on_beside) = (of(|r| r.off.beside_per_s), of(|r| r.on.beside_per_s));
    let (off_p50, on_p50) = (of(|r| r.off.p50), of(|r| r.on.p50));
    let (off_p99, on_p99) = (of(|r| r.off.p99), of(|r| r.on.p99));
    if json {
        println!(
            "{{\"suite\":\"writer\",\"part\":\"waiting\",\"delay_us\":{time_us},\"transaction_us\":{t_us:.0},\
             \"waiting\":{waiting},\"producers\":{producers},\"beside\":\"{beside}\",\"off_per_s\":{off:.0},\
             \"on_per_s\":{on:.0},\"on_to_off\":{ratio:.3},\"off_beside_per_s\":{off_beside:.0},\
             \"on_beside_per_s\":{on_beside:.0},\"off_p50_t\":{off_p50:.2},\"on_p50_t\":{on_p50:.2},\
             \"off_p99_t\":{off_p99:.2},\"on_p99_t\":{on_p99:.2}}}"
        );
        return;
    }
    let who = match (waiting, beside) {
        (0, _) => format!("{producers} not waiting"),
        (_, "") => format!("{waiting} waiting"),
        _ => format!("{waiting} waiting beside one {beside}"),
    };
    println!("{time_us:>5} us (T {t_us:.0} us) {who:<32} off {off:>8.0}/s, on {on:>8.0}/s, on/off {ratio:.2}");
    if waiting > 0 {
        println!("{:>16} latency in T: p50 off {off_p50:.2} on {on_p50:.2}, p99 off {off_p99:.2} on {on_p99:.2}", "");
    }
    if !beside.is_empty() {
        println!("{:>16} the {beside}: off {off_beside:.0}/s, on {on_beside:.0}/s", "");
    }
}

pub(crate) fn aims(cases: &[Case], measured: &[Vec<Round>], json: bool) {
    for Aim { what, of, figure, aim, at_most } in AIMS {
        for (_, rounds) in cases.iter().zip(measured).filter(|(case, _)| of(case)) {
            let found = median(rounds.iter().map(figure));
            let met = if at_most { found <= aim } else { found >= aim };
            if json {
                println!(
                    "{{\"suite\":\"writer\",\"part\":\"waiting\",\"aim\":\"{what}\",\"at_most\":{at_most},\
                     \"bound\":{aim},\"found\":{found:.3},\"met\":{met}}}"
                );
            } else {
                let (sign, word) = (if at_most { "<=" } else { ">=" }, if met { "met" } else { "MISSED" });
                println!("aim: {what:<40} {found:.3} {sign} {aim} {word}");
            }
        }
    }
}
