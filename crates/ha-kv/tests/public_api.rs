//! Uses the crate as a fork does, by its public names only: what does not compile here any more breaks forks.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_kv::{
    Capabilities, Compare, Delete, DurableAck, Effect, ErrorClass, HintSender, HintStream, Hints, Kv, KvError,
    KvErrorKind, KvPair, LeaseId, LeaseKv, MemoryKv, PutIfAbsent, RangeLimit, RangePage, Txn, TxnKv, TxnOutcome,
    WatchKv, hint_channel, prefix_end,
};

fn shared<T: Debug + Send + Sync + ?Sized + 'static>() {}
fn movable<T: Send>(value: T) -> T {
    value
}

#[test]
fn what_is_handed_around_crosses_threads() {
    shared::<dyn Kv>();
    shared::<dyn TxnKv>();
    shared::<dyn LeaseKv>();
    shared::<dyn WatchKv>();
    shared::<MemoryKv>();
    shared::<KvError>();
    shared::<Capabilities>();
    shared::<DurableAck>();
    shared::<Txn>();
    shared::<RangePage>();
    shared::<LeaseId>();
    shared::<PutIfAbsent>();
    shared::<HintSender>();
    shared::<HintStream>();
    shared::<Hints>();
    #[cfg(feature = "sqlite")]
    shared::<ha_kv::SqliteKv>();
    #[cfg(feature = "etcd")]
    shared::<ha_kv::EtcdKv>();
    #[cfg(feature = "redis")]
    shared::<ha_kv::RedisKv>();
    #[cfg(feature = "faulty")]
    shared::<ha_kv::faulty::FaultyKv>();
    #[cfg(feature = "conformance")]
    shared::<dyn ha_kv::conformance::Factory>();
}

/// A store of a fork around one of ours. It names nothing but this crate, `bytes` and `async_trait`.
#[derive(Debug)]
struct Wrapped(Arc<dyn TxnKv>, Arc<dyn LeaseKv>);

#[async_trait::async_trait]
impl Kv for Wrapped {
    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        self.0.get(key).await
    }
    async fn put(&self, key: &[u8], value: Bytes) -> Result<(), KvError> {
        self.0.put(key, value).await
    }
    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        self.0.range(start, end, limit.within(&self.capabilities())).await
    }
    async fn delete(&self, key: &[u8]) -> Result<(), KvError> {
        self.0.delete(key).await
    }
    async fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<u64, KvError> {
        self.0.delete_range(start, end).await
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { backend: "wrapped", durable_ack: DurableAck::Yes, ..self.0.capabilities() }
    }
    fn as_txn(&self) -> Option<&dyn TxnKv> {
        Some(self)
    }
}

#[async_trait::async_trait]
impl TxnKv for Wrapped {
    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError> {
        txn.check(&self.capabilities())?;
        self.0.txn(txn).await
    }
}

#[async_trait::async_trait]
impl LeaseKv for Wrapped {
    async fn grant(&self, ttl: Duration) -> Result<(LeaseId, Duration), KvError> {
        self.1.grant(ttl).await
    }
    async fn keep_alive(&self, lease: LeaseId) -> Result<(), KvError> {
        self.1.keep_alive(LeaseId::new(lease.get())).await
    }
    async fn revoke(&self, lease: LeaseId) -> Result<(), KvError> {
        self.1.revoke(lease).await
    }
    async fn put_if_absent(&self, key: &[u8], value: Bytes, lease: LeaseId) -> Result<PutIfAbsent, KvError> {
        self.1.put_if_absent(key, value, lease).await
    }
}

#[async_trait::async_trait]
impl WatchKv for Wrapped {
    async fn watch(&self, _start: &[u8], _end: &[u8]) -> Result<HintStream, KvError> {
        let (sender, stream) = hint_channel();
        sender.hint();
        Ok(stream)
    }
}

#[tokio::test]
async fn a_store_of_a_forks_own_stands_behind_every_interface() {
    let memory = Arc::new(MemoryKv::new());
    let store = Arc::new(Wrapped(memory.clone(), memory));
    let (kv, txn): (Arc<dyn Kv>, Arc<dyn TxnKv>) = (store.clone(), store.clone());
    let (lease, watch): (Arc<dyn LeaseKv>, Arc<dyn WatchKv>) = (store.clone(), store);
    assert!(kv.as_txn().is_some() && kv.capabilities().durable_ack.is_yes());

    movable(kv.put(b"a/1", "x".into())).await.expect("put");
    let change = Txn {
        compares: vec![
            Compare::ValueEquals { key: "a/1".into(), value: "x".into() },
            Compare::KeyAbsent { key: "a/2".into() },
        ],
        puts: vec![KvPair::new("a/2", "y")],
        deletes: vec![Delete::Key("a/1".into()), Delete::Range { start: "b".into(), end: "c".into() }],
    };
    assert_eq!(movable(txn.txn(&change)).await.expect("txn"), TxnOutcome::Committed);
    assert_eq!(txn.txn(&change).await.expect("txn"), TxnOutcome::CompareFailed);

    let end = prefix_end(b"a/").expect("an end");
    let page = movable(kv.range(b"a/", &end, RangeLimit::pairs(10))).await.expect("range");
    assert_eq!((page.pairs, page.more), (vec![KvPair::new("a/2", "y")], false));
    assert_eq!(movable(kv.delete_range(b"a/", &end)).await.expect("delete_range"), 1);

    let (held, ttl) = movable(lease.grant(Duration::from_secs(1))).await.expect("grant");
    assert!(ttl >= Duration::from_secs(1));
    let put = movable(lease.put_if_absent(b"leader", "us".into(), held)).await.expect("put_if_absent");
    assert_eq!(put, PutIfAbsent::Put);
    movable(lease.keep_alive(held)).await.expect("keep_alive");
    movable(lease.revoke(held)).await.expect("revoke");
    assert_eq!(movable(kv.get(b"leader")).await.expect("get"), None);

    let mut hints = movable(watch.watch(b"a", b"b")).await.expect("watch");
    movable(hints.changed()).await.expect("a hint");
    drop(Hints::new(Some(watch), "a".into(), "b".into(), Hints::MIN_PAUSE));
}

/// What a caller decides by. A kind or class more breaks every fork that matches on them all, so it breaks this first.
fn to_do(kind: KvErrorKind) -> ErrorClass {
    match kind {
        KvErrorKind::Unavailable | KvErrorKind::Timeout | KvErrorKind::Busy => ErrorClass::Transient,
        KvErrorKind::NoSpace | KvErrorKind::Auth | KvErrorKind::ReadOnly => ErrorClass::Operator,
        KvErrorKind::TooLarge
        | KvErrorKind::InvalidArgument
        | KvErrorKind::Unsupported
        | KvErrorKind::Corrupt
        | KvErrorKind::WrongStore
        | KvErrorKind::LeaseNotFound
        | KvErrorKind::Closed => ErrorClass::Permanent,
    }
}

#[test]
fn an_error_of_a_forks_store_says_what_to_do_and_what_caused_it() {
    for (kind, name) in [
        (KvErrorKind::Timeout, "timeout"),
        (KvErrorKind::NoSpace, "no_space"),
        (KvErrorKind::WrongStore, "wrong_store"),
    ] {
        let cause = std::io::Error::other("the cable");
        let error = KvError::new(kind, Effect::Unknown, "no answer").with_key(b"k").with_source(cause);
        assert_eq!((error.class(), kind.name()), (to_do(kind), name));
        assert!(error.is_unknown());
        let error: Box<dyn Error + Send + Sync> = error.into();
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("the cable"));
    }
    assert_eq!(KvError::read(KvErrorKind::Timeout, "no answer").effect, Effect::NotApplied, "a read changes nothing");
}

#[cfg(any(feature = "etcd", feature = "redis"))]
#[test]
fn a_secret_is_not_shown() {
    let secret = ha_kv::Secret::new("hunter2");
    assert!(!format!("{secret:?}").contains("hunter2"));
}

#[cfg(feature = "etcd")]
#[test]
fn etcd_is_asked_for_with_types_of_ours() {
    let mut options = ha_kv::EtcdOptions::new(["http://127.0.0.1:2379"]);
    options.credentials = Some(ha_kv::EtcdCredentials { user: "u".into(), password: ha_kv::Secret::new("p") });
    let identity = ha_kv::TlsIdentity { cert_pem: String::new(), key_pem: ha_kv::Secret::new("") };
    options.tls = Some(ha_kv::Tls { ca_pem: String::new(), identity: Some(identity), domain: None });
    drop(movable(ha_kv::EtcdKv::connect(options)));
}

#[cfg(feature = "redis")]
#[test]
fn redis_is_asked_for_with_types_of_ours() {
    let mut options = ha_kv::RedisOptions::single("127.0.0.1:6379");
    options.credentials = Some(ha_kv::RedisCredentials { user: None, password: ha_kv::Secret::new("p") });
    let identity = ha_kv::TlsIdentity { cert_pem: String::new(), key_pem: ha_kv::Secret::new("") };
    options.tls = Some(ha_kv::Tls { ca_pem: String::new(), identity: Some(identity), domain: None });
    assert!(matches!(options.servers, ha_kv::RedisServers::Single(_)));
    drop(movable(ha_kv::RedisKv::connect(options, Arc::new(OwnEntropy))));

    /// A fork brings its own randomness.
    #[derive(Debug)]
    struct OwnEntropy;
    impl ha_types::Entropy for OwnEntropy {
        fn next_u64(&self) -> u64 {
            4
        }
    }
}

#[cfg(feature = "test-kit")]
#[tokio::test]
async fn the_test_kit_is_one_module() {
    use ha_kv::test_kit::{Fault, FaultPlan, FaultyKv, Link, ManualClock, OpKind, SeededEntropy, Situation};
    use ha_types::{Clock as _, Entropy as _};

    let clock = Arc::new(ManualClock::new());
    clock.advance(Duration::from_secs(1));
    assert_eq!(clock.now().since_origin(), Duration::from_secs(1));
    assert_eq!(SeededEntropy::new(7).next_u64(), SeededEntropy::new(7).next_u64());
    let client = FaultyKv::new(Arc::new(MemoryKv::with_clock(clock)), 7);
    client.plan(FaultPlan::NONE);
    client.set_link(Link::Up);
    client.script(OpKind::Put, Fault::FailAfter(KvErrorKind::Timeout));
    assert!(client.put(b"k", "v".into()).await.expect_err("the reply is lost").is_unknown());
    assert_eq!(client.get(b"k").await.expect("get").as_deref(), Some(&b"v"[..]));
    assert_eq!(client.count(Situation::ReplyLost), 1);
}
