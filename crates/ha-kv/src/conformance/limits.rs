//! Owns the cases about limits and about what is refused before it is sent.

use bytes::Bytes;

use super::case::{Cx, Verdict, Violation, ensure};
use crate::{Delete, Effect, KvError, KvErrorKind, KvPair, RangeLimit, Txn, TxnOutcome};

/// The most that one case sends to be taken; what is to be refused may be larger, as it is not sent.
const AFFORDABLE_BYTES: usize = 4 << 20;

fn refused_as<T: std::fmt::Debug>(answer: Result<T, KvError>, kind: KvErrorKind, what: &str) -> Verdict {
    match answer {
        Err(error) if error.kind == kind && error.effect == Effect::NotApplied => Ok(()),
        other => Err(Violation::Broken(format!("{what} is answered {other:?}, not {kind:?} NotApplied"))),
    }
}

async fn nothing_stored(cx: &Cx<'_>) -> Verdict {
    let (start, end) = cx.all();
    let page = cx.client(1)?.kv.range(&start, &end, RangeLimit::pairs(10)).await?;
    ensure!(page.pairs.is_empty(), "a refused call stored {} pairs", page.pairs.len());
    Ok(())
}

pub(super) async fn value_at_the_limit_is_taken_and_above_refused(cx: &Cx<'_>) -> Verdict {
    let (kv, limit) = (&cx.client(0)?.kv, cx.capabilities()?.max_value_bytes);
    let key = cx.key("k");
    refused_as(kv.put(&key, Bytes::from(vec![0; limit + 1])).await, KvErrorKind::TooLarge, "a value above the limit")?;
    nothing_stored(cx).await?;
    let fits = limit.min(cx.capabilities()?.max_txn_bytes - key.len()).min(AFFORDABLE_BYTES);
    let value = Bytes::from(vec![7; fits]);
    kv.put(&key, value.clone()).await?;
    ensure!(kv.get(&key).await? == Some(value), "a value of {fits} bytes is not read back");
    kv.delete(&key).await?;
    Ok(())
}

fn puts(cx: &Cx<'_>, count: usize) -> Txn {
    let puts = (0..count).map(|n| KvPair::new(cx.key(format!("{n:08}")), "v")).collect();
    Txn { puts, ..Txn::default() }
}

pub(super) async fn operations_at_the_limit_are_taken_and_above_refused(cx: &Cx<'_>) -> Verdict {
    let (kv, limit) = (cx.txn(0)?, cx.capabilities()?.max_txn_ops);
    refused_as(kv.txn(&puts(cx, limit + 1)).await, KvErrorKind::TooLarge, "a transaction above the operation limit")?;
    nothing_stored(cx).await?;
    let outcome = kv.txn(&puts(cx, limit)).await?;
    ensure!(outcome == TxnOutcome::Committed, "{limit} operations are not committed");
    Ok(())
}

pub(super) async fn transaction_at_the_limit_is_taken_and_above_refused(cx: &Cx<'_>) -> Verdict {
    let capabilities = cx.capabilities()?;
    let (kv, limit) = (cx.txn(0)?, capabilities.max_txn_bytes);
    let (a, b) = (cx.key("a"), cx.key("b"));
    // Two values, so that neither alone is above the value limit.
    let txn = |bytes: usize| {
        let values = bytes - a.len() - b.len();
        let half = values / 2;
        let puts = vec![KvPair::new(a.clone(), vec![1; half]), KvPair::new(b.clone(), vec![2; values - half])];
        Txn { puts, ..Txn::default() }
    };
    refused_as(kv.txn(&txn(limit + 1)).await, KvErrorKind::TooLarge, "a transaction above the byte limit")?;
    nothing_stored(cx).await?;
    let fits = limit.min(AFFORDABLE_BYTES);
    ensure!(kv.txn(&txn(fits)).await? == TxnOutcome::Committed, "{fits} bytes are not committed");
    let (start, end) = cx.all();
    kv.delete_range(&start, &end).await?;
    Ok(())
}

pub(super) async fn key_written_twice_is_refused(cx: &Cx<'_>) -> Verdict {
    let kv = cx.txn(0)?;
    let (k, other) = (cx.key("k"), cx.key("l"));
    let put = |key: &Bytes| KvPair::new(key.clone(), "v");
    let many = cx.capabilities()?.max_txn_ops.clamp(2, 12);
    let range = Delete::Range { start: cx.key("a"), end: cx.key("z") };
    let refused = [
        Txn { puts: vec![put(&k), put(&other), put(&k)], ..Txn::default() },
        Txn { puts: vec![put(&k)], deletes: vec![Delete::Key(k.clone())], ..Txn::default() },
        Txn { puts: vec![put(&k)], deletes: vec![range.clone()], ..Txn::default() },
        Txn { puts: (0..many).map(|n| put(&cx.key(format!("{}", n % (many - 1))))).collect(), ..Txn::default() },
        Txn { puts: vec![KvPair::new("", "v")], ..Txn::default() },
    ];
    for txn in &refused {
        refused_as(kv.txn(txn).await, KvErrorKind::InvalidArgument, "a transaction that makes no sense")?;
    }
    nothing_stored(cx).await?;
    // The end of a range is not in it, and deletes may overlap.
    let txn = Txn {
        puts: vec![put(&k)],
        deletes: vec![
            Delete::Range { start: cx.key("a"), end: k.clone() },
            Delete::Key(cx.key("b")),
            Delete::Key(cx.key("b")),
        ],
        ..Txn::default()
    };
    ensure!(kv.txn(&txn).await? == TxnOutcome::Committed, "overlapping deletes beside a put are not committed");
    Ok(())
}
