//! Tests of files that are none, foreign, newer, read-only, full, damaged, or moved away under us.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bytes::Bytes;

use super::{Home, child, open, raw};
use crate::{
    DurableAck, Effect, Kv, KvErrorKind, KvPair, RangeLimit, SqliteKv, SqliteOptions, Txn, TxnKv, TxnOutcome, WatchKv,
};

/// Opening must fail so, say something about the file, and leave it and its directory as they were.
async fn refused(home: &Home, kind: KvErrorKind) {
    let before = fs::read(home.file()).expect("the file is there");
    let error = open(home.options()).await.expect_err("the file is not accepted");
    assert_eq!((error.kind, error.effect), (kind, Effect::NotApplied), "{error}");
    assert!(error.message.contains(';'), "names a remedy: {error}");
    assert!(fs::read(home.file()).expect("the file is still there") == before, "the file was changed");
    let names: Vec<_> =
        fs::read_dir(home.0.path()).expect("the directory").map(|e| e.expect("an entry").file_name()).collect();
    assert_eq!(names, ["store.db"], "nothing was left beside the file");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_unchanged() {
    for contents in [&b"hello"[..], &[b'x'; 100], &[0xff; 5000], "SQLite format 2\0".as_bytes()] {
        let home = Home::new();
        fs::write(home.file(), contents).expect("written");
        refused(&home, KvErrorKind::WrongStore).await;
    }
}

#[tokio::test]
async fn a_damaged_header_is_refused_unchanged() {
    let home = Home::new();
    home.open().await.put(b"k", Bytes::from("v")).await.expect("put");
    let mut bytes = fs::read(home.file()).expect("read");
    for byte in &mut bytes[..16] {
        *byte ^= 0x40;
    }
    fs::write(home.file(), bytes).expect("written");
    refused(&home, KvErrorKind::WrongStore).await;
}

#[tokio::test]
async fn a_newer_schema_is_refused_unchanged() {
    let home = Home::new();
    drop(home.open().await);
    let connection = raw(&home.file());
    connection.pragma_update(None, "user_version", 2).expect("set");
    connection.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).expect("set");
    drop(connection);
    refused(&home, KvErrorKind::Unsupported).await;
}

#[tokio::test]
async fn another_programs_database_is_refused_unchanged() {
    let home = Home::new();
    raw(&home.file()).execute_batch("CREATE TABLE theirs (a)").expect("created");
    refused(&home, KvErrorKind::WrongStore).await;
    raw(&home.file()).pragma_update(None, "application_id", 77).expect("set");
    refused(&home, KvErrorKind::WrongStore).await;
}

#[tokio::test]
async fn s3_a_damaged_page_is_an_error_and_never_an_absent_key() {
    let home = Home::new();
    let store = home.open().await;
    let key = |n: u32| format!("key {n:03}").into_bytes();
    let puts = (0..200).map(|n| KvPair::new(key(n), vec![b'v'; 300])).collect();
    assert_eq!(store.txn(&Txn { puts, ..Txn::default() }).await.expect("put"), TxnOutcome::Committed);
    drop(store);
    let mut bytes = fs::read(home.file()).expect("read");
    // Page 1 holds the schema; of the others every second gets a page type that does not exist.
    for page in bytes.chunks_mut(4096).skip(3).step_by(2) {
        page[0] = 0x77;
    }
    fs::write(home.file(), bytes).expect("written");
    let store = home.open().await;
    let (mut right, mut corrupt) = (0, 0);
    for n in 0..200 {
        match store.get(&key(n)).await {
            Ok(Some(value)) if value == vec![b'v'; 300] => right += 1,
            Err(error) if error.kind == KvErrorKind::Corrupt => corrupt += 1,
            other => panic!("key {n} on a damaged file reads {other:?}"),
        }
    }
    assert!(right > 0 && corrupt > 0, "{right} right, {corrupt} corrupt: the damage hit nothing or everything");
}

#[tokio::test]
async fn s3_a_lost_table_is_corrupt_not_empty() {
    let home = Home::new();
    let store = home.open().await;
    raw(&home.file()).execute_batch("DROP TABLE kv").expect("dropped");
    assert_eq!(store.get(b"k").await.expect_err("no table").kind, KvErrorKind::Corrupt);
    let error = store.put(b"k", Bytes::from("v")).await.expect_err("no table");
    assert_eq!((error.kind, error.effect), (KvErrorKind::Corrupt, Effect::NotApplied));
}

/// Run as a user whom permissions bind: root may write everywhere.
pub(super) async fn read_only_as_a_user(directory: &str) {
    let path = std::path::Path::new(directory);
    for name in ["read-only-dir/none.db", "read-only-dir/there.db", "read-only-file.db"] {
        let error = open(SqliteOptions::new(path.join(name))).await.expect_err("it is read-only");
        assert_eq!((error.kind, error.effect), (KvErrorKind::ReadOnly, Effect::NotApplied), "{name}: {error}");
    }
    println!("refused");
}

#[tokio::test]
async fn read_only_files_and_directories_are_refused() {
    let home = Home::new();
    let mode = |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    mode(home.0.path(), 0o777);
    let directory = home.beside("read-only-dir");
    fs::create_dir(&directory).expect("created");
    for file in [directory.join("there.db"), home.beside("read-only-file.db")] {
        drop(open(SqliteOptions::new(&file)).await.expect("opens while it is writable"));
        mode(&file, 0o444);
    }
    mode(&directory, 0o555);
    let output = child::run_unprivileged("read-only", &home.0.path().display().to_string());
    mode(&directory, 0o755);
    assert!(output.contains("refused"), "{output}");
}

#[tokio::test]
async fn deleted_under_us_is_told_and_heals_when_it_is_back() {
    let home = Home::new();
    let store = home.open().await;
    store.put(b"k", Bytes::from("v")).await.expect("put");
    let away = home.beside("away.db");
    fs::rename(home.file(), &away).expect("moved");
    let error = store.put(b"k", Bytes::from("lost")).await.expect_err("the file is gone");
    assert_eq!((error.kind, error.effect), (KvErrorKind::WrongStore, Effect::NotApplied), "{error}");
    let txn = Txn { puts: vec![KvPair::new("k", "lost")], ..Txn::default() };
    assert_eq!(store.txn(&txn).await.expect_err("gone").kind, KvErrorKind::WrongStore);
    assert_eq!(store.get(b"k").await.expect_err("gone").kind, KvErrorKind::WrongStore);
    assert_eq!(store.range(b"a", b"z", RangeLimit::ONE).await.expect_err("gone").kind, KvErrorKind::WrongStore);
    assert_eq!(store.watch(b"a", b"z").await.expect_err("gone").kind, KvErrorKind::WrongStore);
    assert!(!home.file().exists(), "nothing new was created in its place");
    fs::rename(&away, home.file()).expect("moved back");
    assert_eq!(store.get(b"k").await.expect("it is back").as_deref(), Some(&b"v"[..]));
    store.put(b"k", Bytes::from("w")).await.expect("it is back");
}

#[tokio::test]
async fn replaced_under_us_is_told_and_the_other_file_stays_as_it_is() {
    let home = Home::new();
    let store = home.open().await;
    store.put(b"k", Bytes::from("v")).await.expect("put");
    let mut watch = store.watch(b"a", b"z").await.expect("watch");
    watch.changed().await.expect("the first hint");
    let other = home.beside("other.db");
    drop(open(SqliteOptions::new(&other)).await.expect("another store"));
    let other_bytes = fs::read(&other).expect("read");
    fs::rename(&other, home.file()).expect("replaced");
    for _ in 0..2 {
        let error = store.put(b"k", Bytes::from("lost")).await.expect_err("another file");
        assert_eq!((error.kind, error.effect), (KvErrorKind::WrongStore, Effect::NotApplied), "{error}");
        assert_eq!(store.get(b"k").await.expect_err("another file").kind, KvErrorKind::WrongStore);
    }
    let ended = loop {
        if let Err(error) = watch.changed().await {
            break error.kind;
        }
    };
    assert_eq!(ended, KvErrorKind::WrongStore, "the watch ends with the reason");
    assert!(fs::read(home.file()).expect("read") == other_bytes, "the other file was changed");
}

#[tokio::test]
async fn a_deleted_write_ahead_log_is_told() {
    let home = Home::new();
    let store = home.open().await;
    store.put(b"k", Bytes::from("v")).await.expect("put");
    fs::remove_file(home.beside("store.db-wal")).expect("deleted");
    let error = store.put(b"k", Bytes::from("lost")).await.expect_err("the log is gone");
    assert_eq!((error.kind, error.effect), (KvErrorKind::WrongStore, Effect::NotApplied), "{error}");
    assert_eq!(store.get(b"k").await.expect_err("the log is gone").kind, KvErrorKind::WrongStore);
}

#[tokio::test]
async fn w7_a_full_store_refuses_writes_reads_on_and_recovers_alone() {
    let home = Home::new();
    let store = open(SqliteOptions { max_file_bytes: Some(512 << 10), ..home.options() }).await.expect("opens");
    let mut stored = 0;
    let error = loop {
        match store.put(format!("k{stored:02}").as_bytes(), Bytes::from(vec![1; 30_000])).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100, "the limit is not kept");
    };
    assert_eq!((error.kind, error.effect), (KvErrorKind::NoSpace, Effect::NotApplied), "{error}");
    assert!(stored > 10, "only {stored} values fit");
    for _ in 0..3 {
        let full = store.put(b"more", Bytes::from(vec![1; 30_000])).await.expect_err("full");
        assert_eq!((full.kind, full.effect), (KvErrorKind::NoSpace, Effect::NotApplied));
    }
    assert_eq!(store.get(b"more").await.expect("reads go on"), None);
    assert!(store.get(b"k00").await.expect("reads go on").is_some());
    // Deleting works on a full store, and what it frees is used again.
    assert_eq!(store.delete_range(b"k00", b"k05").await.expect("deletes go on"), 5);
    store.put(b"more", Bytes::from(vec![1; 30_000])).await.expect("there is space again");
}

#[tokio::test]
async fn an_error_of_the_commit_is_unknown_and_the_next_call_works() {
    let home = Home::new();
    let store = home.open().await;
    // A constraint that SQLite checks at COMMIT and not before, kept by a trigger.
    raw(&home.file())
        .execute_batch(
            "CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE child (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);
             CREATE TRIGGER poison AFTER INSERT ON kv WHEN NEW.key = x'70' BEGIN INSERT INTO child VALUES (1); END;",
        )
        .expect("prepared");
    let error = store.put(b"p", Bytes::from("v")).await.expect_err("the commit fails");
    assert_eq!(error.effect, Effect::Unknown, "{error}");
    assert!(store.inner.writer.lock().is_none(), "the connection was closed");
    let txn = Txn { puts: vec![KvPair::new("q", "v")], ..Txn::default() };
    assert_eq!(store.txn(&txn).await.expect("a new connection"), TxnOutcome::Committed);
    assert_eq!(store.get(b"p").await.expect("read"), None);
}

#[tokio::test]
async fn a_name_that_looks_like_a_uri_is_a_name() {
    let home = Home::new();
    let path = home.beside("file:x?mode=memory");
    let store = open(SqliteOptions::new(&path)).await.expect("opens");
    store.put(b"k", Bytes::from("v")).await.expect("put");
    assert!(path.exists(), "the store is in the file of that name");
}

#[tokio::test]
async fn a_symbolic_link_is_the_file_it_names() {
    let home = Home::new();
    let link = home.beside("link.db");
    drop(home.open().await);
    std::os::unix::fs::symlink(home.file(), &link).expect("linked");
    let (one, two) = (home.open().await, open(SqliteOptions::new(&link)).await.expect("opens"));
    one.put(b"k", Bytes::from("v")).await.expect("put");
    assert_eq!(two.get(b"k").await.expect("read").as_deref(), Some(&b"v"[..]));
    assert!(home.beside("store.db-wal").exists() && !home.beside("link.db-wal").exists());
}

#[tokio::test]
async fn bad_options_are_refused_by_name() {
    let home = Home::new();
    let bad: [(SqliteOptions, KvErrorKind, &str); 9] = [
        (SqliteOptions::new(home.beside("no/such/dir.db")), KvErrorKind::InvalidArgument, "directory"),
        (SqliteOptions::new("/"), KvErrorKind::InvalidArgument, "path"),
        (SqliteOptions::new(home.0.path()), KvErrorKind::WrongStore, "regular file"),
        (
            SqliteOptions { watch_interval: std::time::Duration::ZERO, ..home.options() },
            KvErrorKind::InvalidArgument,
            "watch",
        ),
        (SqliteOptions { read_connections: 0, ..home.options() }, KvErrorKind::InvalidArgument, "read connections"),
        (SqliteOptions { max_txn_bytes: 0, ..home.options() }, KvErrorKind::InvalidArgument, "transaction"),
        (SqliteOptions { max_txn_ops: 0, ..home.options() }, KvErrorKind::InvalidArgument, "operations"),
        (SqliteOptions { max_file_bytes: Some(1), ..home.options() }, KvErrorKind::InvalidArgument, "file limit"),
        (SqliteOptions { holder: "x".repeat(257), ..home.options() }, KvErrorKind::InvalidArgument, "holder"),
    ];
    for (options, kind, word) in bad {
        let error = open(options).await.expect_err(word);
        assert_eq!((error.kind, error.effect), (kind, Effect::NotApplied), "{error}");
        assert!(error.message.contains(word), "{error}");
    }
    assert!(!home.file().exists());
}

#[tokio::test]
async fn memory_file_systems_declare_no_durability() {
    let shm = std::path::Path::new("/dev/shm");
    if rustix::fs::statfs(shm).is_ok_and(|found| found.f_type != 0x0102_1994) || !shm.exists() {
        // Past the capture of the test harness, on a line of its own, so that whoever counts tests sees it.
        let line = b"\nSKIPPED tmpfs: memory_file_systems_declare_no_durability\n";
        return std::io::Write::write_all(&mut std::io::stdout(), line).expect("standard output takes a line");
    }
    let directory = tempfile::tempdir_in(shm).expect("a directory");
    let store = open(SqliteOptions::new(directory.path().join("s"))).await.expect("opens");
    assert!(matches!(store.capabilities().durable_ack, DurableAck::No { .. }));
}

#[tokio::test]
async fn what_was_answered_is_there_after_reopening() {
    let home = Home::new();
    for round in 0..3_u8 {
        let store: SqliteKv = home.open().await;
        for before in 0..round {
            assert_eq!(store.get(&[before + 1]).await.expect("read").as_deref(), Some(&[before][..]));
        }
        store.put(&[round + 1], Bytes::copy_from_slice(&[round])).await.expect("put");
    }
}
