//! Owns the cases about one transaction at a time.

use std::task::Poll;

use bytes::Bytes;

use super::case::{Cx, Verdict, Violation, ensure};
use crate::{Compare, Delete, KvPair, RangeLimit, Txn, TxnOutcome};

fn equals(key: &Bytes, value: &'static [u8]) -> Compare {
    Compare::ValueEquals { key: key.clone(), value: Bytes::from_static(value) }
}

fn absent(key: &Bytes) -> Compare {
    Compare::KeyAbsent { key: key.clone() }
}

async fn contents(cx: &Cx<'_>) -> Result<Vec<KvPair>, Violation> {
    let (start, end) = cx.all();
    Ok(cx.client(1)?.kv.range(&start, &end, RangeLimit::pairs(100)).await?.pairs)
}

pub(super) async fn commit_applies_everything(cx: &Cx<'_>) -> Verdict {
    let kv = cx.txn(0)?;
    let key = |k: &str| cx.key(k);
    for k in ["gone", "r1", "r2", "r3", "stays", "swapped"] {
        kv.put(&key(k), Bytes::from("old")).await?;
    }
    let txn = Txn {
        compares: vec![equals(&key("swapped"), b"old"), absent(&key("new")), equals(&key("gone"), b"old")],
        puts: vec![KvPair::new(key("swapped"), "new"), KvPair::new(key("new"), "")],
        deletes: vec![
            Delete::Key(key("gone")),
            Delete::Range { start: key("r1"), end: key("r3") },
            Delete::Key(key("never")),
        ],
    };
    ensure!(kv.txn(&txn).await? == TxnOutcome::Committed, "a transaction whose compares hold is not committed");
    let expected =
        [("new", ""), ("r3", "old"), ("stays", "old"), ("swapped", "new")].map(|(k, v)| KvPair::new(key(k), v));
    let found = contents(cx).await?;
    ensure!(found == expected, "after the commit the store holds {found:?}");
    Ok(())
}

pub(super) async fn failed_compare_changes_nothing(cx: &Cx<'_>) -> Verdict {
    let kv = cx.txn(0)?;
    let (there, missing) = (cx.key("there"), cx.key("missing"));
    kv.put(&there, Bytes::from("v")).await?;
    let before = contents(cx).await?;
    let holds = equals(&there, b"v");
    let failing = [
        vec![equals(&there, b"w")],
        vec![equals(&missing, b"")],
        vec![absent(&there)],
        vec![holds.clone(), absent(&there)],
        vec![absent(&there), holds.clone()],
        vec![holds, absent(&missing), equals(&missing, b"v")],
    ];
    for compares in failing {
        let txn = Txn {
            puts: vec![KvPair::new(cx.key("put"), "v")],
            deletes: vec![Delete::Key(there.clone()), Delete::Range { start: cx.key("t"), end: cx.key("u") }],
            compares,
        };
        let outcome = kv.txn(&txn).await?;
        ensure!(outcome == TxnOutcome::CompareFailed, "{:?} is answered {outcome:?}", txn.compares);
        ensure!(contents(cx).await? == before, "a failed compare changed the store");
    }
    Ok(())
}

pub(super) async fn compare_is_exact(cx: &Cx<'_>) -> Verdict {
    let kv = cx.txn(0)?;
    let key = cx.key("k");
    let compare =
        async |value: &'static [u8]| kv.txn(&Txn { compares: vec![equals(&key, value)], ..Txn::default() }).await;
    kv.put(&key, Bytes::from_static(b"ab\0")).await?;
    for (value, holds) in [(&b"ab\0"[..], true), (b"ab", false), (b"ab\0\0", false), (b"AB\0", false), (b"", false)] {
        let committed = compare(value).await? == TxnOutcome::Committed;
        ensure!(committed == holds, "`ab\\0` compared with {} is {committed}", value.escape_ascii());
    }
    kv.put(&key, Bytes::new()).await?;
    ensure!(compare(b"").await? == TxnOutcome::Committed, "an empty value does not equal itself");
    kv.delete(&key).await?;
    ensure!(compare(b"").await? == TxnOutcome::CompareFailed, "an absent key equals the empty value");
    Ok(())
}

pub(super) async fn transaction_without_writes_is_answered(cx: &Cx<'_>) -> Verdict {
    let kv = cx.txn(0)?;
    ensure!(kv.txn(&Txn::default()).await? == TxnOutcome::Committed, "the empty transaction is not committed");
    let txn = Txn { compares: vec![absent(&cx.key("k"))], ..Txn::default() };
    ensure!(kv.txn(&txn).await? == TxnOutcome::Committed, "a compare alone is not answered by itself");
    Ok(())
}

/// What a caller relies on after an unknown outcome: sent again, a transaction that compares what it changes is refused.
pub(super) async fn repeated_transaction_fails_its_compare(cx: &Cx<'_>) -> Verdict {
    let kv = cx.txn(0)?;
    let key = cx.key("k");
    kv.put(&key, Bytes::from("1")).await?;
    let txn = Txn {
        compares: vec![equals(&key, b"1")],
        puts: vec![KvPair::new(key.clone(), "2"), KvPair::new(cx.key("beside"), "x")],
        deletes: vec![],
    };
    ensure!(kv.txn(&txn).await? == TxnOutcome::Committed, "the first time it is not committed");
    for number in 0..3 {
        let outcome = cx.txn(number)?.txn(&txn).await?;
        ensure!(outcome == TxnOutcome::CompareFailed, "the repetition by client {number} is answered {outcome:?}");
    }
    Ok(())
}

pub(super) async fn dropped_future_applies_wholly_or_not(cx: &Cx<'_>) -> Verdict {
    let kv = cx.txn(0)?;
    let (a, b) = (cx.key("a"), cx.key("b"));
    for round in 0..10_u32 {
        let value = round.to_string();
        let txn =
            Txn { puts: vec![KvPair::new(a.clone(), value.clone()), KvPair::new(b.clone(), value)], ..Txn::default() };
        {
            let mut call = kv.txn(&txn);
            // Polled once, then dropped: wherever the call is by then.
            std::future::poll_fn(|context| {
                let _ = call.as_mut().poll(context);
                Poll::Ready(())
            })
            .await;
        }
        // Whether it has landed by now or lands during these reads, a page shows both writes or neither.
        for _ in 0..5 {
            let found = contents(cx).await?;
            let mut values: Vec<&Bytes> = found.iter().map(|p| &p.value).collect();
            values.dedup();
            ensure!(values.len() <= 1 && found.len() != 1, "a dropped transaction applied by half: {found:?}");
        }
    }
    // The store goes on.
    ensure!(
        kv.txn(&Txn { puts: vec![KvPair::new(a.clone(), "end")], ..Txn::default() }).await? == TxnOutcome::Committed,
        "no more commits"
    );
    Ok(())
}
