//! Limits of requests, operations and replies (W5, W11, W12).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_kv::{Compare, Delete, Effect, EtcdKv, EtcdOptions, Kv as _, KvErrorKind, KvPair, Txn, TxnKv as _, TxnOutcome};
use plimsoll_tests::{EtcdServerOptions, eventually};

use crate::support::{connect, etcd_or_skip, options, start, start_with};

#[tokio::test]
async fn w5_a_small_server_is_found_by_the_padded_probe() {
    let program = etcd_or_skip!("w5_a_small_server_is_found_by_the_padded_probe");
    let small = EtcdServerOptions { max_request_bytes: Some(64 << 10), ..Default::default() };
    let server = start_with(&program, small).await;
    let error = EtcdKv::connect(options([server.endpoint()])).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::TooLarge, Effect::NotApplied), "{error}");
    assert!(error.message.contains("--max-request-bytes"), "the remedy is named: {error}");

    // Told the truth it works, and the largest value it promises is taken and read back.
    let kv =
        EtcdKv::connect(EtcdOptions { max_request_bytes: 64 << 10, ..options([server.endpoint()]) }).await.unwrap();
    let largest = kv.capabilities().max_value_bytes - 1;
    kv.put(b"k", Bytes::from(vec![1; largest])).await.unwrap();
    assert_eq!(kv.get(b"k").await.unwrap().unwrap().len(), largest);
    let refused = kv.put(b"k", Bytes::from(vec![1; largest + 1])).await.unwrap_err();
    assert_eq!((refused.kind, refused.effect), (KvErrorKind::TooLarge, Effect::NotApplied));
}

#[tokio::test]
async fn w11_the_servers_own_words_for_too_large() {
    let program = etcd_or_skip!("w11_the_servers_own_words_for_too_large");
    let small = EtcdServerOptions { max_request_bytes: Some(256 << 10), ..Default::default() };
    let server = start_with(&program, small).await;
    // The probe only sends what the options say, so here the options must be changed behind its back: 1 MiB is above both the
    // server's own limit and its transport's.
    for (bytes, words) in [(300 << 10, "request is too large"), (1 << 20, "received message larger than max")] {
        let error = EtcdKv::connect(EtcdOptions { max_request_bytes: bytes, ..options([server.endpoint()]) })
            .await
            .unwrap_err();
        assert_eq!((error.kind, error.effect), (KvErrorKind::TooLarge, Effect::NotApplied), "{error}");
        let cause = std::error::Error::source(&error).expect("the server's answer").to_string();
        assert!(cause.contains(words), "{cause}");
    }
}

#[tokio::test]
async fn w12_operations_are_limited_and_no_key_is_written_twice() {
    let program = etcd_or_skip!("w12_operations_are_limited_and_no_key_is_written_twice");
    let server = start(&program).await;
    let kv = connect(&server).await;
    let puts = |count: usize| Txn {
        puts: (0..count).map(|n| KvPair::new(format!("k{n:04}"), "v")).collect(),
        ..Default::default()
    };
    let most = kv.capabilities().max_txn_ops;
    assert_eq!(kv.txn(&puts(most)).await.unwrap(), TxnOutcome::Committed);
    let refused = kv.txn(&puts(most + 1)).await.unwrap_err();
    assert_eq!((refused.kind, refused.effect), (KvErrorKind::TooLarge, Effect::NotApplied), "{refused}");

    // Without our check it is the server that says no.
    let unlimited = EtcdKv::connect(EtcdOptions { max_txn_ops: 1000, ..options([server.endpoint()]) }).await.unwrap();
    let refused = unlimited.txn(&puts(most + 1)).await.unwrap_err();
    assert_eq!((refused.kind, refused.effect), (KvErrorKind::TooLarge, Effect::NotApplied), "{refused}");

    let twice = Txn { puts: vec![KvPair::new("k", "1"), KvPair::new("k", "2")], ..Default::default() };
    let inside = Txn {
        puts: vec![KvPair::new("k5", "1")],
        deletes: vec![Delete::Range { start: "k".into(), end: "l".into() }],
        ..Default::default()
    };
    for txn in [twice, inside] {
        let refused = kv.txn(&txn).await.unwrap_err();
        assert_eq!((refused.kind, refused.effect), (KvErrorKind::InvalidArgument, Effect::NotApplied), "{refused}");
    }

    // Cleaning up is one range, however many keys there are.
    let clean_up = Txn {
        compares: vec![Compare::KeyAbsent { key: "prefix".into() }],
        deletes: vec![Delete::Range { start: "k".into(), end: "l".into() }],
        ..Default::default()
    };
    assert_eq!(kv.txn(&clean_up).await.unwrap(), TxnOutcome::Committed);
    assert_eq!(kv.delete_range(b"k", b"l").await.unwrap(), 0);
}

#[tokio::test]
async fn an_inverted_range_deletes_nothing() {
    let program = etcd_or_skip!("an_inverted_range_deletes_nothing");
    let server = start(&program).await;
    let kv = connect(&server).await;
    kv.put(b"a", "1".into()).await.unwrap();
    // Each of these would mean "this key" or "everything from here on" in etcd's own terms.
    for (start, end) in [(&b"a"[..], &b""[..]), (b"\0", b"\0"), (b"b", b"a"), (b"a", b"\0")] {
        assert_eq!(kv.delete_range(start, end).await.unwrap(), 0);
        let delete = Delete::Range { start: Bytes::copy_from_slice(start), end: Bytes::copy_from_slice(end) };
        assert_eq!(kv.txn(&Txn { deletes: vec![delete], ..Default::default() }).await.unwrap(), TxnOutcome::Committed);
    }
    assert!(kv.get(b"a").await.unwrap().is_some());
    assert_eq!(kv.delete_range(b"\0", b"\xff").await.unwrap(), 1);
}

/// A server that commits faster than it applies refuses what comes on top.
#[tokio::test]
async fn w11_a_server_that_is_far_behind_says_too_many_requests_and_applies_nothing() {
    let program = etcd_or_skip!("w11_a_server_that_is_far_behind_says_too_many_requests_and_applies_nothing");
    let server = start(&program).await;
    let patient = EtcdOptions { request_timeout: Duration::from_secs(120), ..options([server.endpoint()]) };
    let kv = Arc::new(EtcdKv::connect(patient).await.unwrap());
    let values = |from: u32| Txn {
        puts: (from..from + 100).map(|n| KvPair::new(format!("v{n:05}"), vec![7; 1000])).collect(),
        ..Txn::default()
    };
    for from in (0..5000).step_by(100) {
        assert_eq!(kv.txn(&values(from)).await.unwrap(), TxnOutcome::Committed);
    }
    // Each of these makes it sort all values, a hundred times, while it applies it: meanwhile it commits, and applies nothing else.
    let slow = format!("\n{}put done x\n\n\n", "get v w --limit=1 --order=DESCEND --sort-by=VALUE\n".repeat(100));
    let server = Arc::new(server);
    let mut slow_ones = tokio::task::JoinSet::new();
    let (mut next, mut refused) = (0_u32, None);
    for _round in 0..10 {
        for _ in 0..2 {
            let (server, slow) = (server.clone(), slow.clone());
            slow_ones.spawn(async move { server.ctl_with(&["--command-timeout", "120s", "txn"], &slow).await });
        }
        // It lets five thousand be committed and not applied.
        let mut puts = tokio::task::JoinSet::new();
        for n in next..next + 7000 {
            let kv = kv.clone();
            puts.spawn(async move { (n, kv.put(format!("p{n}").as_bytes(), "1".into()).await) });
        }
        next += 7000;
        while let Some(done) = puts.join_next().await {
            if let (n, Err(error)) = done.unwrap()
                && error.message.contains("too many requests")
            {
                refused = Some((n, error));
                break;
            }
        }
        if refused.is_some() {
            break;
        }
    }
    let (n, error) = refused.expect("the server says that there are too many requests");
    assert_eq!((error.kind, error.effect), (KvErrorKind::Busy, Effect::NotApplied), "{error}");
    let found = eventually("it answers again", async || kv.get(format!("p{n}").as_bytes()).await.ok()).await;
    assert_eq!(found, None, "nothing was applied");
}
