//! Errors that real files can be made to give, beside those of `files` (full, read-only, damaged, no database, moved) and `leases`
//! (busy).

use bytes::Bytes;

use super::{Home, child, open};
use crate::{Effect, Kv, KvErrorKind, SqliteOptions};

/// `CANTOPEN`: something that is no file stands where SQLite's own file has to be.
#[tokio::test]
async fn what_sqlite_cannot_open_is_unavailable_and_works_once_it_can() {
    let home = Home::new();
    home.open().await.put(b"k", Bytes::from("v")).await.expect("put");
    for name in ["store.db-wal", "store.db-shm"] {
        let _ = std::fs::remove_file(home.beside(name));
    }
    std::fs::create_dir(home.beside("store.db-wal")).expect("created");
    let error = open(home.options()).await.expect_err("its log is a directory");
    assert_eq!((error.kind, error.effect), (KvErrorKind::Unavailable, Effect::NotApplied), "{error}");
    assert!(error.message.contains("could not be opened") || error.message.contains("read or written"), "{error}");
    std::fs::remove_dir(home.beside("store.db-wal")).expect("removed");
    assert_eq!(home.open().await.get(b"k").await.expect("read").as_deref(), Some(&b"v"[..]));
}

/// Run where no file may grow beyond a limit.
pub(super) async fn fill_until_the_system_refuses(path: &str) {
    let store = open(SqliteOptions::new(path)).await.expect("opens");
    for n in 0..1000_u32 {
        let Err(error) = store.put(&n.to_be_bytes(), Bytes::from(vec![1; 20_000])).await else { continue };
        println!("{n} {:?} {:?}", error.kind, error.effect);
        let read = store.get(&0_u32.to_be_bytes()).await;
        println!("reads {}", read.is_ok_and(|value| value.is_some()));
        return;
    }
    println!("never refused");
}

/// `IOERR` from the write of `COMMIT`: nothing is sure, what was answered before is there, and the file is sound.
#[tokio::test]
async fn an_io_error_of_the_commit_is_unknown_and_loses_nothing_acknowledged() {
    let home = Home::new();
    let said = child::run_limited("fill", &home.file().display().to_string(), 2048);
    let line =
        |from: &str| said.lines().find(|line| line.contains(from)).unwrap_or_else(|| panic!("{said}")).to_owned();
    let refusal = line("Unknown");
    let mut words = refusal.split(' ');
    let stored: u32 = words.next().and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(words.collect::<Vec<_>>(), ["Unavailable", "Unknown"], "{said}");
    assert_eq!(line("reads"), "reads true", "{said}");
    assert!(stored > 10, "{said}");
    let store = home.open().await;
    for n in 0..stored {
        assert!(store.get(&n.to_be_bytes()).await.expect("sound").is_some(), "{n} was acknowledged");
    }
    store.put(b"more", Bytes::from("v")).await.expect("it goes on");
}
