//! The progress bars of long `oplog` commands: what is drawn on a terminal, and that nothing is drawn beside JSON or without one.

use std::process::Command;

use crate::cutover::log;
use crate::kit::{Place, finish, plimsoll};
use crate::terminal::finish_on_a_terminal;

fn command(place: &Place, args: &[&str]) -> Command {
    let mut command = plimsoll();
    command.arg("oplog").args(args).args(["--store", &place.store()]);
    command
}

/// Clears the line that the bar stood on; the last that is drawn.
const CLEARED: &str = "\r\x1b[2K";

fn draws(place: &Place, args: &[&str], words: &[&str]) {
    let on_terminal = finish_on_a_terminal(command(place, args));
    for word in words {
        assert!(on_terminal.err.contains(word), "{word:?} is drawn: {on_terminal:?}");
    }
    assert!(on_terminal.err.ends_with(CLEARED), "it is gone at the end: {on_terminal:?}");
    assert!(!on_terminal.out.contains('\x1b'), "the report is text: {on_terminal:?}");
    let plain = finish(command(place, args));
    assert_eq!((plain.code, plain.err.as_str()), (on_terminal.code, ""), "no terminal, no bar");
    assert_eq!(plain.out, on_terminal.out, "and the same report");
    let json = finish_on_a_terminal(command(place, &[args, &["--json"]].concat()));
    assert_eq!((json.code, json.err.as_str()), (plain.code, ""), "no bar beside JSON");
    json.json();
}

#[test]
fn an_audit_draws_keys_and_faults_on_a_terminal_only() {
    let sound = log(1..=9, Some("9"));
    draws(&sound, &["audit"], &["auditing ", "10/10 keys", " 0 faults"]);
    let holes = log([1, 2, 5], Some("5"));
    draws(&holes, &["audit"], &["auditing ", " 1 faults"]);
}

#[test]
fn a_cutover_draws_what_it_replays_and_that_it_watches_on_a_terminal_only() {
    let place = log(1..=9, Some("9"));
    let replayed = ["replaying the legacy log ", "9/9"];
    draws(&place, &["cutover", "--check", "--old-primary-stopped"], &replayed);
    let watched = finish_on_a_terminal(command(&place, &["cutover", "--check"]));
    assert_eq!(watched.code, 0, "{watched:?}");
    assert!(watched.err.contains("watching that the old primary is quiet "), "{watched:?}");
    let stopped = finish_on_a_terminal(command(&place, &["cutover", "--check", "--old-primary-stopped"]));
    assert!(!stopped.err.contains("watching"), "what is not done is not said: {stopped:?}");
}
