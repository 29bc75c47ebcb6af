//! Simulates clients that append to one list by compare and swap under all faults at once. Each recognises its own entry after
//! an unknown outcome; in the end everything acknowledged is in the list once, and what was refused is not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::faulty::{Fault, FaultPlan, FaultyKv, Link, OpKind, ServerLimits, Situation};
use crate::{Compare, Effect, Kv, KvPair, MemoryKv, Txn, TxnKv, TxnOutcome, WatchKv};

const LIST: &[u8] = b"list";

async fn read(kv: &FaultyKv) -> String {
    loop {
        if let Ok(value) = kv.get(LIST).await {
            return String::from_utf8(value.unwrap_or_default().to_vec()).expect("text");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What became of an entry, as far as its client can know.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fate {
    Acknowledged,
    Refused,
    Unknown,
}

/// Appends `entry` with one transaction, sent once.
async fn append(kv: &FaultyKv, entry: &str) -> Fate {
    let list = read(kv).await;
    let txn = Txn {
        compares: vec![Compare::ValueEquals { key: Bytes::from_static(LIST), value: Bytes::from(list.clone()) }],
        puts: vec![KvPair::new(LIST, format!("{list}{entry};"))],
        deletes: vec![],
    };
    match kv.txn(&txn).await {
        Ok(TxnOutcome::Committed) => Fate::Acknowledged,
        Ok(TxnOutcome::CompareFailed) => Fate::Refused,
        Err(error) if error.effect == Effect::NotApplied => Fate::Refused,
        Err(_) => Fate::Unknown,
    }
}

#[tokio::test(start_paused = true)]
async fn acknowledged_is_there_once_refused_is_not() {
    let mut reached = BTreeSet::new();
    for seed in 0..8 {
        let store = Arc::new(MemoryKv::new());
        store.put(LIST, Bytes::new()).await.expect("put");
        let clients: Vec<_> = (0..3).map(|n| FaultyKv::new(Arc::clone(&store), seed * 100 + n)).collect();
        let tasks: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(number, kv)| {
                let kv = Arc::clone(kv);
                kv.plan(FaultPlan::rough(Duration::from_millis(20)));
                tokio::spawn(async move {
                    let mut fates = Vec::new();
                    let watch = kv.watch(b"a", b"z").await;
                    for turn in 0..100 {
                        kv.set_link(match turn % 25 {
                            22 => Link::Cut,
                            23 => Link::RepliesCut,
                            _ => Link::Up,
                        });
                        if turn % 25 == 22 {
                            // Cut after the read, so that it is the write that fails.
                            kv.set_link(Link::Up);
                            let list = read(&kv).await;
                            kv.set_link(Link::Cut);
                            let txn = Txn { puts: vec![KvPair::new("beside", list)], ..Txn::default() };
                            assert!(kv.txn(&txn).await.is_err());
                            continue;
                        }
                        if turn % 25 == 23 {
                            kv.always(OpKind::Get, Some(Fault::Pass));
                            assert!(kv.get(LIST).await.is_err(), "the reply is cut");
                            kv.set_link(Link::Up);
                            kv.always(OpKind::Get, None);
                        }
                        kv.limit_server(if turn == 50 {
                            ServerLimits { request_bytes: 1, txn_ops: 1 }
                        } else {
                            ServerLimits::NONE
                        });
                        kv.fill_server(turn == 51);
                        let entry = format!("{number}.{turn}");
                        let fate = append(&kv, &entry).await;
                        fates.push((entry, fate));
                    }
                    drop(watch);
                    fates
                })
            })
            .collect();
        let mut fates = Vec::new();
        for task in tasks {
            fates.extend(task.await.expect("no panic"));
        }
        // Everything still on its way lands.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let list = String::from_utf8(store.get(LIST).await.expect("read").expect("there").to_vec()).expect("text");
        for (entry, fate) in &fates {
            let count = list.split(';').filter(|e| e == entry).count();
            match fate {
                Fate::Acknowledged => assert_eq!(count, 1, "seed {seed}: {entry} was acknowledged"),
                Fate::Refused => assert_eq!(count, 0, "seed {seed}: {entry} was refused"),
                Fate::Unknown => assert!(count <= 1, "seed {seed}: {entry} is there {count} times"),
            }
        }
        for fate in [Fate::Acknowledged, Fate::Refused, Fate::Unknown] {
            assert!(fates.iter().any(|(_, f)| *f == fate), "seed {seed}: no entry was {fate:?}");
        }
        for kv in &clients {
            reached.extend(kv.occurred().into_keys());
        }
    }
    use Situation as S;
    let wanted = [
        S::Delayed,
        S::FailedBefore,
        S::RequestLost,
        S::ReplyLost,
        S::AppliedLater,
        S::LandedApplied,
        S::LandedRefused,
        S::DuplicateRefused,
        S::RequestCut,
        S::ReplyCut,
        S::HintLost,
        S::TooLarge,
        S::NoSpace,
    ];
    println!("reached: {reached:?}");
    for situation in wanted {
        assert!(reached.contains(&situation), "{situation:?} never happened");
    }
}
