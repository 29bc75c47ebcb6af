//! What becomes of a command whose output nobody reads to its end: `head`, a pager that is left, a disk that is full. It costs the output and
//! nothing else.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use bucket_store::format::test_kit::TestRecord;
use bucket_store::vfs::{Access, DiskDir};

use crate::buckets::Buckets;
use crate::kit::{Place, eventually, http, mount, must, plimsoll};

/// A command whose standard output is a pipe of ours.
struct Piped {
    child: Child,
    out: Option<ChildStdout>,
}

impl Piped {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = child.stdout.take();
        Self { child, out }
    }

    /// Reads the first byte, as a reader that then does nothing for long.
    fn reads_a_byte(&mut self) {
        self.out.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }

    /// Closes the pipe, and gives how the command ended and what it said on standard error.
    fn left(mut self) -> (Option<i32>, String) {
        drop(self.out.take());
        let status = eventually("the command to end", || self.child.try_wait().unwrap());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status.code(), said)
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory of which each report is longer than a pipe holds.
fn large() -> Buckets {
    let place = Buckets::usual();
    for id in 10..60 {
        let key =
            |number: u64| [b"default\0".to_vec(), format!("{id}-{number}-").into_bytes(), vec![b'k'; 2000]].concat();
        place.put(id, &[TestRecord::live(&key(1), id as u8, 10), TestRecord::dead(&key(2), id as u8, 10)]);
    }
    place
}

fn on(place: &Buckets, what: &str, more: &[&str]) -> Command {
    let mut command = plimsoll();
    command.args(["bucket", what]).arg(place.path()).args(more);
    command
}

#[test]
fn a_slow_reader_keeps_no_store_from_opening_the_directory() {
    let place = large();
    for id in 10..60 {
        // So that fsck has much to say.
        place.change(&format!("{id}.bucket"), |bytes| bytes.fill(0));
    }
    for id in 100..1000 {
        place.put(id, &[TestRecord::live(format!("default\0{id}").as_bytes(), 1, 10)]);
    }
    let reports: [(&str, &[&str]); 7] = [
        ("explain", &[]),
        ("explain", &["--json"]),
        ("ls", &["--objects", "--all"]),
        ("ls", &["--json", "--width", "1000"]),
        ("ls", &["--width", "1000"]),
        ("fsck", &[]),
        ("fsck", &["--json"]),
    ];
    for (what, more) in reports {
        let mut piped = Piped::start(on(&place, what, more));
        piped.reads_a_byte();
        // It has begun to print, and cannot go on: the pipe is full and nobody empties it.
        DiskDir::open(&place.path(), Access::Store).unwrap_or_else(|error| panic!("{what} {more:?}: {error}"));
        assert!(piped.child.try_wait().unwrap().is_none(), "{what} {more:?}: the report fits into a pipe");
        let (code, said) = piped.left();
        assert_eq!((code, said.as_str()), (Some(i32::from(what == "fsck")), ""), "{what} {more:?}");
    }
}

/// The end of a pipe whose other one is closed.
fn closed_pipe() -> std::io::PipeWriter {
    let (reader, mut writer) = std::io::pipe().unwrap();
    drop(reader);
    // A process that another test is just starting may have a copy of the other end for a moment.
    eventually("the pipe to have no reader", || {
        writer.write(b"x").is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe).then_some(())
    });
    writer
}

/// Runs it with a standard output that is closed already.
fn unread(mut command: Command) -> (Option<i32>, String) {
    let writer = closed_pipe();
    let output = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Runs it with a standard output that takes nothing.
fn on_a_full_disk(mut command: Command) -> (Option<i32>, String) {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn every_command_on_a_directory_ends_quietly_and_its_exit_says_what_it_did() {
    let place = large();
    let asked: [(&str, &[&str], i32); 10] = [
        ("ls", &[], 0),
        ("ls", &["--json"], 0),
        ("ls", &["--objects"], 0),
        ("fsck", &[], 0),
        ("fsck", &["--json"], 0),
        ("fsck", &["--segment", "another"], 1),
        ("explain", &[], 0),
        ("explain", &["--json"], 0),
        ("explain", &["999", "--json"], 2),
        ("--help", &[], 0),
    ];
    for (what, more, expected) in asked {
        let (code, said) = unread(on(&place, what, more));
        assert_eq!(code, Some(expected), "{what} {more:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
        assert!(said.is_empty() || expected == 2, "{what} {more:?}: {said}");
    }

    let place = Buckets::mooncakes();
    let (code, said) = unread(on(&place, "adopt", &["--segment", "ssd-1", "--cluster", "c1", "--one-way"]));
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert_eq!(place.looks("ls", &["--json"]).json()["marker"]["kind"], "ours", "what was to be done is done");
}

#[test]
fn a_report_that_cannot_be_written_is_no_success() {
    let place = large();
    for (what, more, expected) in [("ls", &[][..], 7), ("explain", &["--json"], 7), ("fsck", &["--segment", "x"], 1)] {
        let (code, said) = on_a_full_disk(on(&place, what, more));
        assert_eq!(code, Some(expected), "{what}: {said}");
        assert!(said.contains("the output could not be written") && !said.contains("panicked"), "{said}");
    }
}

#[test]
fn commands_against_a_cluster_and_on_its_log_end_quietly() {
    let place = Place::new(5000);
    let node = place.node("a");
    node.wait_for_role("leader");
    mount(&[&node], "s");
    must(&[&node], &["put", "k", "--size", "10"]);
    let (store, grpc) = (place.store(), node.grpc.clone());
    let log = |words: &[&str]| [words, &["--store", &store]].concat().into_iter().map(str::to_owned).collect();
    let cluster = |words: &[&str]| [words, &["--endpoints", &grpc]].concat().into_iter().map(str::to_owned).collect();
    let asked: [(Vec<String>, i32); 16] = [
        (log(&["oplog", "inspect"]), 141),
        (log(&["oplog", "inspect", "--json", "--entries"]), 141),
        (log(&["oplog", "audit"]), 0),
        (log(&["oplog", "audit", "--json"]), 0),
        (cluster(&["put", "other", "--size", "10"]), 0),
        (cluster(&["get", "k"]), 0),
        (cluster(&["ls"]), 0),
        (cluster(&["ls", "--json"]), 0),
        (cluster(&["get", "nothing", "--json"]), 5),
        (cluster(&["segment", "ls"]), 0),
        (cluster(&["status"]), 0),
        (cluster(&["policy", "--json"]), 0),
        (cluster(&["remove", "k"]), 0),
        (cluster(&["segment", "unmount", "s"]), 0),
        (vec!["config".to_owned(), "check".to_owned(), "--list".to_owned()], 0),
        (vec!["--help".to_owned()], 0),
    ];
    for (words, expected) in asked {
        let mut command = plimsoll();
        command.args(&words);
        let (code, said) = unread(command);
        assert_eq!(code, Some(expected), "{words:?}: {said}");
        assert!(!said.contains("panicked"), "{words:?}: {said}");
    }
}

#[test]
fn a_closed_standard_error_costs_nothing_but_what_is_said_there() {
    let place = Buckets::usual();
    for (what, more, expected) in [("explain", &["999"][..], 2), ("ls", &["--bad-flag"], 2), ("fsck", &[], 0)] {
        let writer = closed_pipe();
        let mut command = on(&place, what, more);
        // Everything is logged, so that log lines meet the closed pipe too.
        command.env("PLIMSOLL_LOG", "trace").stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
        assert_eq!(command.status().unwrap().code(), Some(expected), "{what} {more:?}");
    }
}

#[test]
fn a_node_whose_log_nobody_takes_goes_on() {
    let place = Place::new(5000);
    let mut command = place.serve("a");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(closed_pipe());
    let mut child = command.spawn().unwrap();
    let out = child.stdout.take();
    let mut node = Piped { child, out };
    let mut said = String::new();
    BufReader::new(node.out.as_mut().unwrap()).read_line(&mut said).unwrap();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let admin = said["admin"].as_str().unwrap();
    // It logs when it begins to listen, and at each change of its role.
    eventually("the node to lead", || {
        assert!(node.child.try_wait().unwrap().is_none(), "the node ended");
        (http(admin, "/role").1["role"] == "leader").then_some(())
    });
}
