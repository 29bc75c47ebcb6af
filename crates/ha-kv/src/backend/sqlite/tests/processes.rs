//! Tests of several processes on one file.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::child::Child;
use super::{Home, open};
use crate::{Compare, Effect, ErrorClass, Kv, KvPair, SqliteKv, SqliteOptions, Txn, TxnKv, TxnOutcome};

const COUNTER: &[u8] = b"counter";

/// Adds one and says what the counter is then.
async fn add_one(kv: &SqliteKv) -> u64 {
    loop {
        let value = kv.get(COUNTER).await.expect("read").expect("the counter is there");
        let next = std::str::from_utf8(&value).expect("text").parse::<u64>().expect("a number") + 1;
        let txn = Txn {
            compares: vec![Compare::ValueEquals { key: Bytes::from_static(COUNTER), value }],
            puts: vec![KvPair::new(COUNTER, next.to_string()), KvPair::new(format!("at {next}"), "")],
            deletes: vec![],
        };
        match kv.txn(&txn).await {
            Ok(TxnOutcome::Committed) => return next,
            Ok(TxnOutcome::CompareFailed) => {}
            Err(error) if error.class() == ErrorClass::Transient && error.effect == Effect::NotApplied => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Counts up for ever, telling each number once it is acknowledged.
pub(super) async fn count_up(path: &str) {
    let kv = open(SqliteOptions::new(path)).await.expect("opens");
    loop {
        println!("{}", add_one(&kv).await);
    }
}

#[tokio::test]
async fn killed_processes_lose_nothing_acknowledged_and_block_nobody() {
    let home = Home::new();
    let store = home.open().await;
    store.put(COUNTER, Bytes::from("0")).await.expect("put");
    let mut acknowledged = BTreeSet::new();
    let mut mine = 0;
    for round in 0..3 {
        let mut children = [0, 1].map(|_| Child::start("count-up", &home.file().display().to_string()));
        for _ in 0..20 {
            for child in &mut children {
                let number: u64 = child.line().parse().expect("a number");
                assert!(acknowledged.insert(number), "{number} was acknowledged twice");
            }
            let number = add_one(&store).await;
            assert!(acknowledged.insert(number), "{number} was acknowledged twice");
            mine += 1;
        }
        for child in &mut children {
            child.kill();
        }
        // Lines that were still in the pipe are acknowledgements, too.
        for child in children {
            for number in child.rest().lines().filter_map(|l| l.parse::<u64>().ok()) {
                assert!(acknowledged.insert(number), "{number} was acknowledged twice");
            }
        }
        let value = store.get(COUNTER).await.expect("read").expect("there");
        let counter: u64 = std::str::from_utf8(&value).expect("text").parse().expect("a number");
        for number in &acknowledged {
            let found = store.get(format!("at {number}").as_bytes()).await.expect("read");
            assert!(found.is_some() && *number <= counter, "round {round}: {number} was acknowledged and is lost");
        }
    }
    assert!(acknowledged.len() > mine, "the children did nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_created_once_by_many() {
    let home = Home::new();
    let opening: Vec<_> = (0..8).map(|_| tokio::spawn(open(home.options()))).collect();
    let mut stores = Vec::new();
    for opened in opening {
        stores.push(opened.await.expect("no panic").expect("opens"));
    }
    for (number, store) in stores.iter().enumerate() {
        store.put(format!("{number}").as_bytes(), Bytes::new()).await.expect("put");
    }
    let page = stores[0].range(b"0", b"9", crate::RangeLimit::pairs(100)).await.expect("read");
    assert_eq!(page.pairs.len(), 8);
}
