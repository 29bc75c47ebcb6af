//! Owns the cases about leases. A dead holder's key may stay readable until somebody takes it; only `put_if_absent` tells.

use bytes::Bytes;

use super::case::{Cx, Verdict, Violation, ensure};
use crate::{KvError, KvErrorKind, LeaseId, LeaseKv, PutIfAbsent};

async fn granted(cx: &Cx<'_>, client: usize) -> Result<LeaseId, Violation> {
    Ok(cx.lease(client)?.grant(cx.factory.ttl()).await?.0)
}

fn gone<T: std::fmt::Debug>(answer: Result<T, KvError>, what: &str) -> Verdict {
    match answer {
        Err(error) if error.kind == KvErrorKind::LeaseNotFound => Ok(()),
        other => Err(Violation::Broken(format!("{what} is answered {other:?}, not LeaseNotFound"))),
    }
}

async fn put(kv: &dyn LeaseKv, key: &Bytes, value: &'static str, lease: LeaseId) -> Result<PutIfAbsent, KvError> {
    kv.put_if_absent(key, Bytes::from(value), lease).await
}

pub(super) async fn grant_is_at_least_as_long_as_asked(cx: &Cx<'_>) -> Verdict {
    let asked = cx.factory.ttl();
    let (first, ttl) = cx.lease(0)?.grant(asked).await?;
    let (second, _) = cx.lease(1)?.grant(asked).await?;
    ensure!(ttl >= asked, "asked for {asked:?}, granted {ttl:?}");
    ensure!(first != second, "two leases have one name");
    cx.lease(0)?.revoke(first).await?;
    cx.lease(1)?.revoke(second).await?;
    let none = cx.lease(0)?.grant(std::time::Duration::ZERO).await.err().map(|e| e.kind);
    ensure!(none == Some(KvErrorKind::InvalidArgument), "a lease of no time is answered {none:?}");
    Ok(())
}

pub(super) async fn unknown_lease_is_not_found(cx: &Cx<'_>) -> Verdict {
    let kv = cx.lease(0)?;
    let never = LeaseId::new(0x0bad_1ea5_e000_0001);
    gone(kv.keep_alive(never).await, "keeping alive a lease that never was")?;
    gone(put(kv, &cx.key("k"), "v", never).await, "putting under a lease that never was")?;
    kv.revoke(never).await?;
    ensure!(kv.get(&cx.key("k")).await?.is_none(), "a refused put was stored");
    Ok(())
}

pub(super) async fn key_belongs_to_one_lease(cx: &Cx<'_>) -> Verdict {
    let key = cx.key("k");
    let (a, b) = (granted(cx, 0).await?, granted(cx, 1).await?);
    ensure!(put(cx.lease(0)?, &key, "a", a).await? == PutIfAbsent::Put, "an absent key is not put");
    let second = put(cx.lease(1)?, &key, "b", b).await?;
    ensure!(second == PutIfAbsent::Held(Bytes::from("a")), "a held key is answered {second:?}");
    let again = put(cx.lease(0)?, &key, "a", a).await?;
    ensure!(again == PutIfAbsent::Put, "the same put by the same lease is answered {again:?}");
    let other = put(cx.lease(0)?, &key, "a2", a).await?;
    ensure!(other == PutIfAbsent::Held(Bytes::from("a")), "another value by the same lease is answered {other:?}");
    for client in 0..3 {
        let found = cx.client(client)?.kv.get(&key).await?;
        ensure!(found.as_deref() == Some(b"a"), "client {client} reads {found:?} under the holder's key");
    }
    cx.lease(0)?.revoke(a).await?;
    cx.lease(1)?.revoke(b).await?;
    Ok(())
}

pub(super) async fn key_without_lease_is_never_taken(cx: &Cx<'_>) -> Verdict {
    let key = cx.key("k");
    cx.client(2)?.kv.put(&key, Bytes::from("plain")).await?;
    let lease = granted(cx, 0).await?;
    for _ in 0..3 {
        let answer = put(cx.lease(0)?, &key, "v", lease).await?;
        ensure!(answer == PutIfAbsent::Held(Bytes::from("plain")), "a key without a lease is answered {answer:?}");
        cx.factory.pass(cx.factory.ttl() / 2).await;
        cx.lease(0)?.keep_alive(lease).await?;
    }
    cx.lease(0)?.revoke(lease).await?;
    Ok(())
}

pub(super) async fn kept_alive_lease_keeps_its_key(cx: &Cx<'_>) -> Verdict {
    let key = cx.key("k");
    let (a, b) = (granted(cx, 0).await?, granted(cx, 1).await?);
    ensure!(put(cx.lease(0)?, &key, "a", a).await? == PutIfAbsent::Put, "an absent key is not put");
    for _ in 0..4 {
        cx.factory.pass(cx.factory.ttl() / 2).await;
        cx.lease(0)?.keep_alive(a).await?;
        cx.lease(1)?.keep_alive(b).await?;
        let answer = put(cx.lease(1)?, &key, "b", b).await?;
        ensure!(
            answer == PutIfAbsent::Held(Bytes::from("a")),
            "a key whose lease is kept alive is answered {answer:?}"
        );
    }
    cx.lease(0)?.revoke(a).await?;
    cx.lease(1)?.revoke(b).await?;
    Ok(())
}

pub(super) async fn dead_lease_is_taken_over_and_stays_dead(cx: &Cx<'_>) -> Verdict {
    let key = cx.key("k");
    let (a, b) = (granted(cx, 0).await?, granted(cx, 1).await?);
    ensure!(put(cx.lease(0)?, &key, "a", a).await? == PutIfAbsent::Put, "an absent key is not put");
    let held = put(cx.lease(1)?, &key, "b", b).await?;
    ensure!(held == PutIfAbsent::Held(Bytes::from("a")), "a key that was just put is answered {held:?}");
    // The holder falls silent. A store may take a few TTLs to let go, never for ever.
    let mut taken = false;
    for _ in 0..12 {
        cx.factory.pass(cx.factory.ttl() / 2).await;
        cx.lease(1)?.keep_alive(b).await?;
        if put(cx.lease(1)?, &key, "b", b).await? == PutIfAbsent::Put {
            taken = true;
            break;
        }
    }
    ensure!(taken, "the key of a silent holder is not taken over within six TTLs");
    gone(cx.lease(0)?.keep_alive(a).await, "keeping alive a lease that was taken over")?;
    gone(put(cx.lease(0)?, &key, "a", a).await, "putting under a lease that was taken over")?;
    cx.lease(0)?.revoke(a).await?;
    let found = cx.client(0)?.kv.get(&key).await?;
    ensure!(found.as_deref() == Some(b"b"), "after the take-over the key reads {found:?}");
    cx.lease(1)?.revoke(b).await?;
    Ok(())
}

pub(super) async fn revoke_frees_the_key_at_once(cx: &Cx<'_>) -> Verdict {
    let (key, beside) = (cx.key("k"), cx.key("k2"));
    let (a, b) = (granted(cx, 0).await?, granted(cx, 1).await?);
    for key in [&key, &beside] {
        ensure!(put(cx.lease(0)?, key, "a", a).await? == PutIfAbsent::Put, "an absent key is not put");
    }
    for _ in 0..2 {
        cx.lease(0)?.revoke(a).await?;
        for key in [&key, &beside] {
            ensure!(cx.client(2)?.kv.get(key).await?.is_none(), "a revoked lease's key is still there");
        }
    }
    gone(cx.lease(0)?.keep_alive(a).await, "keeping alive a revoked lease")?;
    let answer = put(cx.lease(1)?, &key, "b", b).await?;
    ensure!(answer == PutIfAbsent::Put, "a freed key is answered {answer:?}");
    cx.lease(1)?.revoke(b).await?;
    Ok(())
}

pub(super) async fn plain_put_drops_the_lease(cx: &Cx<'_>) -> Verdict {
    let key = cx.key("k");
    let a = granted(cx, 0).await?;
    ensure!(put(cx.lease(0)?, &key, "a", a).await? == PutIfAbsent::Put, "an absent key is not put");
    cx.client(1)?.kv.put(&key, Bytes::from("plain")).await?;
    cx.lease(0)?.revoke(a).await?;
    let found = cx.client(0)?.kv.get(&key).await?;
    ensure!(found.as_deref() == Some(b"plain"), "a key that lost its lease by a put reads {found:?} after the revoke");
    Ok(())
}
