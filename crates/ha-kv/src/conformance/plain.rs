//! Owns the cases about single keys.

use bytes::Bytes;

use super::case::{Cx, Verdict, ensure};
use crate::{Effect, KvErrorKind};

pub(super) async fn capabilities_agree_with_the_interfaces(cx: &Cx<'_>) -> Verdict {
    let capabilities = cx.capabilities()?;
    let client = cx.client(0)?;
    ensure!(capabilities.txn == client.kv.as_txn().is_some(), "`capabilities().txn` and `as_txn()` disagree");
    ensure!(capabilities.txn == client.txn.is_some(), "`capabilities().txn` and the factory's client disagree");
    ensure!(
        capabilities.max_value_bytes <= capabilities.max_txn_bytes || !capabilities.txn,
        "a value above every transaction"
    );
    ensure!(capabilities.max_reply_bytes > 0 && capabilities.max_value_bytes > 0, "a limit is 0");
    ensure!(!capabilities.backend.is_empty(), "the backend has no name");
    Ok(())
}

pub(super) async fn absent_key_reads_as_none(cx: &Cx<'_>) -> Verdict {
    let found = cx.client(0)?.kv.get(&cx.key("absent")).await?;
    ensure!(found.is_none(), "an absent key reads as {found:?}");
    Ok(())
}

pub(super) async fn put_is_read_back_and_overwritten(cx: &Cx<'_>) -> Verdict {
    let kv = &cx.client(0)?.kv;
    let key = cx.key("k");
    for value in ["first", "the second is longer", "3"] {
        kv.put(&key, Bytes::from(value)).await?;
        let found = kv.get(&key).await?;
        ensure!(found.as_deref() == Some(value.as_bytes()), "put {value:?}, read {found:?}");
    }
    Ok(())
}

pub(super) async fn empty_value_is_not_absence(cx: &Cx<'_>) -> Verdict {
    let kv = &cx.client(0)?.kv;
    let key = cx.key("empty");
    kv.put(&key, Bytes::new()).await?;
    let found = kv.get(&key).await?;
    ensure!(found == Some(Bytes::new()), "put an empty value, read {found:?}");
    Ok(())
}

pub(super) async fn keys_and_values_are_any_bytes(cx: &Cx<'_>) -> Verdict {
    let kv = &cx.client(0)?.kv;
    // Each differs from another one in a byte that text handling loses.
    let keys: [&[u8]; 8] = [b"a", b"a\0", b"a\0b", b"\xff", b"\xff\xff", b"\xc3\x28", b"A", b"'; --"];
    for (number, key) in (0_u8..).zip(keys) {
        kv.put(&cx.key(key), Bytes::copy_from_slice(&[number, 0, 0xff, 0xc3])).await?;
    }
    for (number, key) in (0_u8..).zip(keys) {
        let found = kv.get(&cx.key(key)).await?;
        ensure!(
            found.as_deref() == Some(&[number, 0, 0xff, 0xc3][..]),
            "key {} reads as {found:?}",
            key.escape_ascii()
        );
    }
    Ok(())
}

pub(super) async fn delete_removes_one_key_or_none(cx: &Cx<'_>) -> Verdict {
    let kv = &cx.client(0)?.kv;
    let (gone, stays) = (cx.key("k"), cx.key("k2"));
    kv.put(&gone, Bytes::from("v")).await?;
    kv.put(&stays, Bytes::from("v")).await?;
    // The second delete finds nothing, which is no error.
    for _ in 0..2 {
        kv.delete(&gone).await?;
        ensure!(kv.get(&gone).await?.is_none(), "a deleted key is still there");
        ensure!(kv.get(&stays).await?.is_some(), "another key was deleted, too");
    }
    Ok(())
}

pub(super) async fn empty_key_is_refused(cx: &Cx<'_>) -> Verdict {
    let kv = &cx.client(0)?.kv;
    let errors = [kv.get(b"").await.err(), kv.put(b"", Bytes::from("v")).await.err(), kv.delete(b"").await.err()];
    for error in errors {
        let answer = error.as_ref().map(|e| (e.kind, e.effect));
        ensure!(
            answer == Some((KvErrorKind::InvalidArgument, Effect::NotApplied)),
            "an empty key is answered {answer:?}"
        );
    }
    Ok(())
}

pub(super) async fn reads_see_every_answered_write(cx: &Cx<'_>) -> Verdict {
    if !cx.capabilities()?.linearizable_read {
        return Err(super::Violation::Skipped("the store declares no linearizable reads".into()));
    }
    let key = cx.key("k");
    for round in 0..30_u32 {
        let value = Bytes::from(round.to_string());
        let writer = usize::from(round % 2 == 1);
        cx.client(writer)?.kv.put(&key, value.clone()).await?;
        for reader in 0..3 {
            let found = cx.client(reader)?.kv.get(&key).await?;
            ensure!(found.as_ref() == Some(&value), "client {reader} reads {found:?} after {value:?} was answered");
        }
    }
    Ok(())
}
