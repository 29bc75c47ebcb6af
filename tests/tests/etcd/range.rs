//! Range reads against the reply limit (W6, W11).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_kv::{Effect, EtcdKv, EtcdOptions, Kv as _, KvErrorKind, RangeLimit};
use plimsoll_tests::{BytesProxy, Direction, Flow, eventually};

use crate::support::{connect, etcd_or_skip, options, start};

async fn read_all(kv: &EtcdKv, limit: RangeLimit) -> (Vec<Bytes>, usize) {
    let (mut keys, mut pages, mut from) = (Vec::new(), 0, b"b/".to_vec());
    loop {
        let page = kv.range(&from, b"b0", limit).await.unwrap();
        pages += 1;
        assert!(!page.pairs.is_empty() || !page.more, "a page that goes on holds something");
        keys.extend(page.pairs.iter().map(|p| p.key.clone()));
        match keys.last() {
            Some(last) if page.more => from = [last, &b"\0"[..]].concat(),
            _ => return (keys, pages),
        }
    }
}

#[tokio::test]
async fn w6_large_batches_are_paged_by_bytes() {
    let program = etcd_or_skip!("w6_large_batches_are_paged_by_bytes");
    let server = start(&program).await;
    let kv = connect(&server).await;
    let expected: Vec<Bytes> = (0..5).map(|n| Bytes::from(format!("b/{n:020}"))).collect();
    for key in &expected {
        kv.put(key, Bytes::from(vec![7; 1200 << 10])).await.unwrap();
    }
    assert_eq!(kv.capabilities().max_reply_bytes, 4 << 20);
    // Five of them are 6 MiB. However they are asked for, all come, in order, in pages that fit.
    for limit in [RangeLimit::pairs(1000), RangeLimit { pairs: 1000, bytes: 1 << 20 }, RangeLimit::ONE] {
        let (keys, pages) = read_all(&kv, limit).await;
        assert_eq!(keys, expected, "{limit:?}");
        assert!(pages >= 2, "{limit:?} took {pages} pages");
    }
    // A fresh client knows nothing of the sizes and has to find out.
    let (keys, _) = read_all(&*connect(&server).await, RangeLimit::pairs(1000)).await;
    assert_eq!(keys, expected);
}

#[tokio::test]
async fn a_page_of_small_pairs_is_full_and_of_one_instant() {
    let program = etcd_or_skip!("a_page_of_small_pairs_is_full_and_of_one_instant");
    let server = start(&program).await;
    let kv = connect(&server).await;
    for n in 0..100 {
        kv.put(format!("b/{n:03}").as_bytes(), "v".into()).await.unwrap();
    }
    let page = kv.range(b"b/", b"b0", RangeLimit::pairs(70)).await.unwrap();
    assert_eq!((page.pairs.len(), page.more), (70, true));
    let page = kv.range(b"b/", b"b0", RangeLimit::pairs(100)).await.unwrap();
    assert_eq!((page.pairs.len(), page.more), (100, false));
    // Six bytes a pair: the limit of 60 is reached with the tenth.
    let page = kv.range(b"b/", b"b0", RangeLimit { pairs: 100, bytes: 60 }).await.unwrap();
    assert_eq!((page.pairs.len(), page.more), (10, true));
    let page = kv.range(b"\0", b"\xff", RangeLimit::pairs(1000)).await.unwrap();
    assert_eq!((page.pairs.len(), page.more), (100, false));
}

#[tokio::test]
async fn a_value_above_the_reply_limit_is_a_typed_error_that_names_it() {
    let program = etcd_or_skip!("a_value_above_the_reply_limit_is_a_typed_error_that_names_it");
    let server = start(&program).await;
    let kv = connect(&server).await;
    kv.put(b"b/1", "small".into()).await.unwrap();
    kv.put(b"b/2", Bytes::from(vec![7; 200 << 10])).await.unwrap();
    let narrow = EtcdOptions { max_request_bytes: 64 << 10, max_reply_bytes: 64 << 10, ..options([server.endpoint()]) };
    let narrow = EtcdKv::connect(narrow).await.unwrap();
    let page = narrow.range(b"b/", b"b0", RangeLimit::pairs(10)).await.unwrap();
    assert_eq!((page.pairs.len(), page.more), (1, true), "what can be read is read");
    let error = narrow.range(b"b/1\0", b"b0", RangeLimit::pairs(10)).await.unwrap_err();
    assert_eq!((error.kind, error.key.as_deref()), (KvErrorKind::TooLarge, Some(&b"b/2"[..])), "{error}");
    let error = narrow.get(b"b/2").await.unwrap_err();
    assert_eq!((error.kind, error.key.as_deref()), (KvErrorKind::TooLarge, Some(&b"b/2"[..])), "{error}");
}

/// The store compacts what a page is being read at, between two of its pieces.
#[tokio::test]
async fn w11_a_page_whose_instant_is_compacted_away_is_busy_and_is_read_again() {
    let program = etcd_or_skip!("w11_a_page_whose_instant_is_compacted_away_is_busy_and_is_read_again");
    let server = start(&program).await;
    let (proxy, aside) = (BytesProxy::start(server.address()).await.unwrap(), connect(&server).await);
    for n in 0..40 {
        aside.put(format!("b/{n:03}").as_bytes(), "v".into()).await.unwrap();
    }
    let patient = EtcdOptions { request_timeout: Duration::from_secs(60), ..options([proxy.endpoint()]) };
    let kv = Arc::new(EtcdKv::connect(patient).await.unwrap());
    // A client that knows nothing of the sizes yet asks for a few pairs at first.
    let reading = {
        let (kv, answered) = (kv.clone(), server.answered("Range").await.unwrap());
        proxy.set(Direction::ToClient, Flow::Hold);
        let reading = tokio::spawn(async move { kv.range(b"b/", b"b0", RangeLimit::pairs(1000)).await });
        eventually("the first piece is on its way", async || {
            (server.answered("Range").await.unwrap() > answered).then_some(())
        })
        .await;
        reading
    };
    aside.put(b"b/000", "w".into()).await.unwrap();
    let status = server.ctl(&["endpoint", "status", "--write-out", "json"]).await.unwrap();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let revision = status[0]["Status"]["header"]["revision"].to_string();
    server.ctl(&["compaction", &revision]).await.unwrap();
    proxy.set(Direction::ToClient, Flow::Pass);
    let error = reading.await.unwrap().unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Busy, Effect::NotApplied), "{error}");
    assert!(error.message.contains("required revision has been compacted"), "{error}");
    assert_eq!(kv.range(b"b/", b"b0", RangeLimit::pairs(1000)).await.unwrap().pairs.len(), 40, "of a new instant");
}
