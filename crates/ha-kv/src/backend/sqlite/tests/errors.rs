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

/// Run in a directory that is a small disk of its own. The store's file is beside a file that takes a part of the room.
pub(super) async fn fill_the_disk_and_make_room(path: &str) {
    let (store, ballast) = (format!("{path}/store.db"), format!("{path}/ballast"));
    std::fs::write(&ballast, vec![0; 256 << 10]).expect("there is room for it");
    let kv = open(SqliteOptions::new(&store)).await.expect("opens");
    let mut stored = 0_u32;
    let error = loop {
        match kv.put(&stored.to_be_bytes(), Bytes::from(vec![1; 20_000])).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    println!("refused {:?} {:?} {:?}", error.kind, error.effect, error.class());
    let again = kv.put(b"again", Bytes::from(vec![1; 20_000])).await.expect_err("it is still full");
    println!("again {:?}", again.kind);
    let mut lost = 0;
    for n in 0..stored {
        lost += u32::from(!kv.get(&n.to_be_bytes()).await.is_ok_and(|value| value.is_some()));
    }
    println!("stored {} lost {lost}", stored > 10);
    std::fs::remove_file(ballast).expect("removed");
    kv.put(b"more", Bytes::from(vec![1; 20_000])).await.expect("there is room again");
    drop(kv);
    let kv = open(SqliteOptions::new(&store)).await.expect("opens");
    println!("after {:?}", kv.get(b"more").await.expect("read").map(|value| value.len()));
}

/// `FULL` from the write of `COMMIT`, for the operating system has no space: nothing is sure, an operator can cure it, and the same
/// handle goes on once there is room.
#[tokio::test]
async fn w7_a_full_disk_at_the_commit_is_unknown_loses_nothing_acknowledged_and_recovers_alone() {
    let test = "w7_a_full_disk_at_the_commit_is_unknown_loses_nothing_acknowledged_and_recovers_alone";
    let home = Home::new();
    let place = home.0.path().display().to_string();
    let Some(said) = child::run_on_a_small_disk("fill-disk", &place, 2048, test) else { return };
    let lines: Vec<_> =
        said.lines().filter(|l| ["refused", "again", "stored", "after"].iter().any(|w| l.starts_with(w))).collect();
    let wanted = ["refused NoSpace Unknown Operator", "again NoSpace", "stored true lost 0", "after Some(20000)"];
    assert_eq!(lines, wanted, "{said}");
}
