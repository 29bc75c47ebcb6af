//! What is wrong at the start is said in one sentence, and nothing has changed.

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::kit::{Place, finish, plimsoll, plimsoll_at, refused, run};

#[test]
fn a_port_in_use_is_named_before_the_store_is_touched() {
    let place = Place::new(1000);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--listen", "--admin-listen"] {
        let mut serve = plimsoll();
        let other = if flag == "--listen" { "--admin-listen" } else { "--listen" };
        serve.args(["serve", "--node", "a", "--store", &place.store(), flag, &address, other, "127.0.0.1:0"]);
        refused(&finish(serve), 1, &address, "choose another port");
    }
    assert!(!place.db().exists());
}

#[test]
fn a_file_that_is_no_store_is_refused_and_unchanged() {
    let place = Place::new(1000);
    for content in [&b"this is a text and no database, whatever its name says; it is long enough"[..], &[0; 4096]] {
        std::fs::write(place.db(), content).unwrap();
        refused(&finish(place.serve("a")), 1, "log.db", "name another path");
        assert_eq!(std::fs::read(place.db()).unwrap(), content);
    }
}

/// A store whose only node has ended, as one file.
fn ended() -> Place {
    let place = Place::new(1000);
    let a = place.node("a");
    a.wait_for_role("leader");
    a.signal("TERM");
    assert_eq!(a.ended(), Some(0));
    for beside in ["log.db-wal", "log.db-shm"] {
        // The last connection to close takes them along, unless it was cut short.
        let _ = std::fs::remove_file(place.dir.path().join(beside));
    }
    place
}

#[test]
fn another_programs_database_is_refused_and_unchanged() {
    let place = ended();
    // Where SQLite keeps the number of the program that a database belongs to.
    let mut bytes = std::fs::read(place.db()).unwrap();
    bytes[68..72].copy_from_slice(b"else");
    std::fs::write(place.db(), bytes).unwrap();
    let before = std::fs::read(place.db()).unwrap();
    refused(&finish(place.serve("a")), 1, "log.db", "name another path");
    assert_eq!(std::fs::read(place.db()).unwrap(), before);
}

#[test]
fn a_newer_file_is_refused_and_unchanged() {
    let place = ended();
    // Where SQLite keeps the number that counts our layouts.
    let mut bytes = std::fs::read(place.db()).unwrap();
    bytes[60..64].copy_from_slice(&2_u32.to_be_bytes());
    std::fs::write(place.db(), &bytes).unwrap();
    refused(&finish(place.serve("a")), 1, "schema version 2", "use the newer program");
    assert_eq!(std::fs::read(place.db()).unwrap(), bytes);
}

#[test]
fn a_missing_folder_is_named() {
    let place = Place::new(1000);
    let mut serve = plimsoll();
    let store = format!("sqlite://{}/no/such/folder/log.db", place.dir.path().display());
    serve.args(["serve", "--node", "a", "--store", &store, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    refused(&finish(serve), 1, "no/such/folder", "create it");
    assert!(!place.dir.path().join("no").exists());
}

#[test]
fn a_read_only_file_is_named_and_unchanged() {
    const NOBODY: u32 = 65_534;
    let place = ended();
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(place.dir.path(), 0o777);
    mode(&place.db(), 0o444);
    let before = std::fs::read(place.db()).unwrap();
    // The superuser may write whatever the mode says, and the program may lie where others may not look. Copied by another
    // process, as a program that is open for writing here, or in a child just forked, could not be started.
    let program = place.dir.path().join("plimsoll");
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_plimsoll")).arg(&program).status().unwrap().success());
    let mut serve = plimsoll_at(&program);
    serve.args(["serve", "--node", "a", "--store", &place.store(), "--listen", "127.0.0.1:0"]);
    serve.args(["--admin-listen", "127.0.0.1:0"]).current_dir(place.dir.path());
    if std::fs::metadata(place.db()).unwrap().uid() == 0 {
        serve.uid(NOBODY).gid(NOBODY);
    }
    refused(&finish(serve), 1, "log.db is read-only", "make it writable");
    assert_eq!(std::fs::read(place.db()).unwrap(), before);
}

#[test]
fn memory_needs_the_operators_word() {
    let serve = |more: &[&str]| {
        let mut serve = plimsoll();
        serve.args([
            "serve",
            "--node",
            "a",
            "--store",
            "memory:",
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
        ]);
        serve.args(more);
        serve
    };
    refused(&finish(serve(&[])), 1, "memory", "--accept-lost-writes");
}

#[test]
fn a_batch_limit_above_the_stores_is_refused() {
    let place = Place::new(1000);
    let mut serve = place.serve("a");
    serve.args(["--set", "oplog_batch_max_bytes=67108864"]);
    refused(&finish(serve), 1, "oplog_batch_max_bytes is 67108864", "at most");
    assert!(!run(&["oplog", "inspect", "--store", &place.store(), "--json"]).out.contains("epoch"), "no log was begun");
}

#[test]
fn wrong_settings_end_with_2_and_a_suggestion() {
    let place = Place::new(1000);
    let config = place.dir.path().join("plimsoll.toml");
    std::fs::write(&config, "node = 'a'\nlisten_on = '127.0.0.1:0'\n").unwrap();
    for (args, thing, remedy) in [
        (vec!["serve", "--config", config.to_str().unwrap()], "`listen_on`", "did you mean `listen`?"),
        (vec!["serve", "--node", "a", "--store", "sqllite:///x"], "\"sqllite\"", "did you mean `sqlite`?"),
        (vec!["serve", "--node", "a", "--store", "sqlite:///x?busy=1"], "\"busy\"", "it takes busy_timeout_ms"),
        (vec!["serve", "--node", "a", "--store", "memory:", "--listen", "0.0.0.0:0"], "0.0.0.0:0", "--insecure"),
        (
            vec!["serve", "--node", "a", "--store", "memory:", "--set", "oplog_batch_max_entries=0"],
            "oplog_batch_max_entries",
            "from 1",
        ),
        (vec!["serve", "--node", "a"], "store is not set", "--store sqlite:///"),
        (vec!["serve", "--store", "memory:"], "node is not set", "--node"),
    ] {
        let mut serve = plimsoll();
        serve.args(&args);
        refused(&finish(serve), 2, thing, remedy);
    }
    let mut serve = plimsoll();
    serve.args(["serve", "--node", "a", "--store", "memory:"]).env("PLIMSOLL_CLUSTR", "x");
    refused(&finish(serve), 2, "PLIMSOLL_CLUSTR", "did you mean `PLIMSOLL_CLUSTER`?");
}
