//! Owns the cases about several clients at once.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::case::{CLIENTS, Cx, Verdict, Violation, ensure};
use crate::{Compare, Effect, ErrorClass, KvError, KvPair, RangeLimit, Txn, TxnKv, TxnOutcome};

const TASKS: usize = 8;

/// Sends `txn` until it is answered. A refusal that asks for another try gets it; an unknown outcome is the caller's.
async fn insist(kv: &dyn TxnKv, txn: &Txn) -> Result<TxnOutcome, KvError> {
    loop {
        match kv.txn(txn).await {
            Err(error) if error.effect == Effect::NotApplied && error.class() == ErrorClass::Transient => {
                tokio::task::yield_now().await;
            }
            answer => return answer,
        }
    }
}

fn client_of(cx: &Cx<'_>, task: usize) -> Result<Arc<dyn TxnKv>, Violation> {
    let client = cx.client(task % CLIENTS)?;
    client.txn.clone().ok_or_else(|| Violation::Skipped("the store has no transactions".into()))
}

async fn join<T: 'static>(mut tasks: JoinSet<Result<T, KvError>>) -> Result<Vec<T>, Violation> {
    let mut results = Vec::new();
    while let Some(done) = tasks.join_next().await {
        results.push(done.map_err(|e| Violation::Broken(format!("a call panicked: {e}")))??);
    }
    Ok(results)
}

pub(super) async fn one_creator_wins(cx: &Cx<'_>) -> Verdict {
    for round in 0..5 {
        let key = cx.key(format!("{round}"));
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (kv, key) = (client_of(cx, task)?, key.clone());
            tasks.spawn(async move {
                let txn = Txn {
                    compares: vec![Compare::KeyAbsent { key: key.clone() }],
                    puts: vec![KvPair::new(key, task.to_string())],
                    deletes: vec![],
                };
                insist(&*kv, &txn).await.map(|outcome| (task, outcome))
            });
        }
        let results = join(tasks).await?;
        let winners: Vec<usize> =
            results.iter().filter(|(_, o)| *o == TxnOutcome::Committed).map(|(task, _)| *task).collect();
        ensure!(winners.len() == 1, "{} of {TASKS} creators of one key won", winners.len());
        let found = cx.client(0)?.kv.get(&key).await?;
        let winner = winners.first().map(|w| Bytes::from(w.to_string()));
        ensure!(found == winner, "the winner is {winner:?}, the key reads {found:?}");
    }
    Ok(())
}

/// Reads a number and adds one to it, by compare and swap, until that succeeds.
async fn add_one(kv: &dyn TxnKv, key: &Bytes) -> Result<(), KvError> {
    loop {
        let value = kv.get(key).await?.unwrap_or_default();
        let number: u64 = String::from_utf8_lossy(&value).parse().unwrap_or(0);
        let txn = Txn {
            compares: vec![Compare::ValueEquals { key: key.clone(), value }],
            puts: vec![KvPair::new(key.clone(), (number + 1).to_string())],
            deletes: vec![],
        };
        if insist(kv, &txn).await? == TxnOutcome::Committed {
            return Ok(());
        }
    }
}

pub(super) async fn no_update_is_lost(cx: &Cx<'_>) -> Verdict {
    const EACH: usize = 10;
    let key = cx.key("counter");
    cx.client(0)?.kv.put(&key, Bytes::from("0")).await?;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (kv, key) = (client_of(cx, task)?, key.clone());
        tasks.spawn(async move {
            for _ in 0..EACH {
                add_one(&*kv, &key).await?;
            }
            Ok(())
        });
    }
    join(tasks).await?;
    let found = cx.client(0)?.kv.get(&key).await?;
    let expected = Bytes::from((TASKS * EACH).to_string());
    ensure!(found.as_ref() == Some(&expected), "{TASKS} clients added {EACH} each, the counter reads {found:?}");
    Ok(())
}

pub(super) async fn a_range_sees_no_half_transaction(cx: &Cx<'_>) -> Verdict {
    const KEYS: usize = 4;
    let keys: Vec<Bytes> = (0..KEYS).map(|k| cx.key(format!("{k}"))).collect();
    let mut tasks = JoinSet::new();
    for task in 0..2 {
        let (kv, keys) = (client_of(cx, task)?, keys.clone());
        tasks.spawn(async move {
            for round in 0..20 {
                let value = Bytes::from(format!("{task}.{round}"));
                let puts = keys.iter().map(|k| KvPair::new(k.clone(), value.clone())).collect();
                let _ = insist(&*kv, &Txn { puts, ..Txn::default() }).await?;
            }
            Ok(())
        });
    }
    let (start, end) = cx.all();
    for _ in 0..40 {
        let page = cx.client(2)?.kv.range(&start, &end, RangeLimit::pairs(KEYS + 1)).await?;
        let mut values: Vec<&Bytes> = page.pairs.iter().map(|p| &p.value).collect();
        values.dedup();
        let whole = page.pairs.is_empty() || (page.pairs.len() == KEYS && values.len() == 1);
        ensure!(whole, "a page shows half a transaction: {page:?}");
    }
    join(tasks).await?;
    Ok(())
}
