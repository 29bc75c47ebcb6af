//! The store must stay the one it was.

use ha_kv::{Effect, EtcdKv, EtcdOptions, Kv as _, KvErrorKind};
use plimsoll_tests::BytesProxy;

use crate::support::{connect_to, etcd_or_skip, options, start, text};

#[tokio::test]
async fn endpoints_of_two_clusters_are_refused() {
    let program = etcd_or_skip!("endpoints_of_two_clusters_are_refused");
    let (one, two) = (start(&program).await, start(&program).await);
    let error = EtcdKv::connect(options([one.endpoint(), two.endpoint()])).await.unwrap_err();
    assert_eq!(error.kind, KvErrorKind::WrongStore);
    assert!(error.message.contains(&two.endpoint()), "{error}");

    let id = connect_to([one.endpoint()]).await.cluster_id();
    let pinned = |endpoint| EtcdOptions { cluster_id: Some(id), ..options([endpoint]) };
    EtcdKv::connect(pinned(one.endpoint())).await.unwrap();
    assert_eq!(EtcdKv::connect(pinned(two.endpoint())).await.unwrap_err().kind, KvErrorKind::WrongStore);
}

#[tokio::test]
async fn an_endpoint_that_turns_out_to_be_of_another_cluster_is_never_written_to() {
    let program = etcd_or_skip!("an_endpoint_that_turns_out_to_be_of_another_cluster_is_never_written_to");
    let (one, two) = (start(&program).await, start(&program).await);
    let other = BytesProxy::start(two.address()).await.unwrap();
    other.set_open(false);
    // The stranger is down while we connect, so it could not be recognised then.
    let kv = connect_to([one.endpoint(), other.endpoint()]).await;
    kv.put(b"k", "mine".into()).await.unwrap();
    other.set_open(true);
    one.process().kill();
    // The first call finds the first member gone; the next one goes to the stranger.
    let gone = kv.put(b"k", "lost".into()).await.unwrap_err();
    assert_eq!(gone.kind, KvErrorKind::Unavailable, "{gone}");
    let error = kv.put(b"k", "stray".into()).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::WrongStore, Effect::NotApplied), "{error}");
    let stranger = connect_to([two.endpoint()]).await;
    assert_eq!(text(stranger.get(b"k").await.unwrap()), None, "the stranger was not written to");
}
