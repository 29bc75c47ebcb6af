//! The demo judges itself: what is tested here is that it comes to its end, says so, and leaves nothing behind.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::kit::{eventually, plimsoll};

/// A small demo whose files all lie below `folder`.
fn demo(folder: &Path, more: &[&str]) -> Command {
    let mut command = plimsoll();
    command.args(["demo", "--clients", "2", "--workers", "60", "--ttl-ms", "2000"]).args(more).env("TMPDIR", folder);
    command
}

/// Command lines of processes that have to do with `folder`.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(folder)).collect()
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn s4_a_killed_primary_loses_nothing_that_was_acknowledged() {
    for graceful in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = demo(folder.path(), &["--acknowledged", "500", "--json"]);
        if graceful {
            command.arg("--graceful");
        }
        let output = command.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{out}\n{err}");
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (&report["suite"], &report["backend"], &report["lost"]),
            (&"demo".into(), &"sqlite".into(), &0.into())
        );
        assert!(report["acknowledged"].as_u64().unwrap() >= 600, "{out}");
        assert!(report["failovers"].as_u64().unwrap() >= 1, "{out}");
        assert!(is_empty(folder.path()), "a file stayed behind");
        assert_eq!(processes_of(folder.path()), Vec::<String>::new());
    }
}

/// Starts a demo that would run for long, and waits until it has all its processes.
fn long_demo(folder: &Path) -> std::process::Child {
    let mut command = demo(folder, &["--acknowledged", "10000000"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("two nodes and two clients", || (processes_of(folder).len() >= 4).then_some(()));
    child
}

#[test]
fn ctrl_c_leaves_no_process_and_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = long_demo(folder.path());
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let status = eventually("the demo to end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(1));
    assert!(is_empty(folder.path()), "a file stayed behind");
    eventually("its processes to end", || processes_of(folder.path()).is_empty().then_some(()));
}

#[test]
fn a_demo_that_is_killed_takes_its_processes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = long_demo(folder.path());
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("its processes to end", || processes_of(folder.path()).is_empty().then_some(()));
}

#[test]
fn a_backend_that_cannot_be_shared_and_nonsense_are_refused_by_name() {
    for (more, said) in [
        (&["--backend", "memory:"][..], "inside one process"),
        (&["--backend", "etdc://h:1"], "did you mean `etcd`"),
        (&["--rounds", "0"], "--rounds"),
        (&["--acknowledged", "0"], "--acknowledged"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let output = demo(folder.path(), more).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && err.contains(said), "{err}");
        assert!(is_empty(folder.path()));
    }
}
