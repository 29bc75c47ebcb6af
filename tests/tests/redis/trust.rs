//! Users, passwords, rights and TLS.

use std::sync::Arc;

use ha_kv::{
    DurableAck, Effect, Kv as _, KvErrorKind, LeaseKv as _, RangeLimit, RedisCredentials, RedisOptions, Tls,
    TlsIdentity, TxnKv as _, WatchKv as _,
};
use plimsoll_tests::{REDIS_DURABLE, RedisServer, RedisServerOptions, TlsFiles};

use crate::support::{open, options, redis_or_skip, start, swap};

/// The rights that `docs/redis.md` lists.
const RIGHTS: &str = "~{plimsoll}:* resetchannels -@all +evalsha +eval +info +config|get +select +type +exists +hget +hmget +hgetall +hset \
                      +hdel +hlen +hstrlen +hexists +hincrby +zadd +zrem +zcard +zrangebylex +get +set +del +pexpire";

fn user(user: &str, password: &str) -> Option<RedisCredentials> {
    Some(RedisCredentials { user: Some(user.into()), password: password.into() })
}

async fn allow(server: &RedisServer, user: &str, rights: &str) {
    let mut command = vec!["ACL", "SETUSER", user, "reset", "on", ">sesame"];
    command.extend(rights.split_whitespace());
    server.cli(&command).await.unwrap();
}

/// Every operation once.
async fn use_all(kv: Arc<ha_kv::RedisKv>) {
    kv.put(b"k", "0".into()).await.unwrap();
    let _ = kv.txn(&swap("k", "0", "1")).await.unwrap();
    kv.get(b"k").await.unwrap();
    kv.range(b"a", b"z", RangeLimit::pairs(1)).await.unwrap();
    let (lease, _) = kv.grant(std::time::Duration::from_secs(60)).await.unwrap();
    let _ = kv.put_if_absent(b"l", "x".into(), lease).await.unwrap();
    kv.keep_alive(lease).await.unwrap();
    let _ = kv.put_if_absent(b"l", "x".into(), lease).await.unwrap();
    kv.put(b"l", "plain".into()).await.unwrap();
    kv.revoke(lease).await.unwrap();
    kv.watch(b"a", b"z").await.unwrap().changed().await.unwrap();
    kv.delete(b"k").await.unwrap();
    kv.delete_range(b"a", b"z").await.unwrap();
}

#[tokio::test]
async fn the_rights_in_the_documents_are_enough_and_a_user_without_config_is_not_durable() {
    let program = redis_or_skip!("the_rights_in_the_documents_are_enough_and_a_user_without_config_is_not_durable");
    let documented = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/redis.md")).unwrap();
    for right in RIGHTS.split_whitespace() {
        assert!(documented.contains(right), "docs/redis.md does not list {right}");
    }
    let server = start(&program).await;
    allow(&server, "full", RIGHTS).await;
    allow(&server, "blind", &RIGHTS.replace("+config|get", "")).await;
    allow(&server, "dark", &RIGHTS.replace("+info", "")).await;
    for (name, missing) in [("full", None), ("blind", Some("appendonly")), ("dark", Some("INFO"))] {
        let kv = open(RedisOptions { credentials: user(name, "sesame"), ..options(server.address()) }).await.unwrap();
        match (kv.capabilities().durable_ack, missing) {
            (DurableAck::Yes, None) => {}
            (DurableAck::No { reason }, Some(missing)) => assert!(reason.contains(missing), "{reason}"),
            (found, _) => panic!("{name}: {found:?}"),
        }
        use_all(Arc::new(kv)).await;
    }
}

#[tokio::test]
async fn wrong_users_passwords_and_rights_are_operator_errors_that_apply_nothing() {
    let program = redis_or_skip!("wrong_users_passwords_and_rights_are_operator_errors_that_apply_nothing");
    let server = start(&program).await;
    allow(&server, "full", RIGHTS).await;
    allow(&server, "reader", &RIGHTS.replace("+hset", "")).await;
    allow(&server, "mute", &RIGHTS.replace("+evalsha", "").replace("+eval", "")).await;
    for (credentials, word) in [(user("full", "wrong"), "WRONGPASS"), (user("mute", "sesame"), "evalsha")] {
        let error = open(RedisOptions { credentials, ..options(server.address()) }).await.unwrap_err();
        assert_eq!((error.kind, error.effect), (KvErrorKind::Auth, Effect::NotApplied), "{error}");
        assert!(error.message.contains(word) && !error.to_string().contains("sesame"), "{error}");
    }
    let reader = RedisOptions { credentials: user("reader", "sesame"), ..options(server.address()) };
    let error = open(reader).await.unwrap().put(b"k", "v".into()).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Auth, Effect::NotApplied), "inside a script: {error}");
    assert_eq!(server.cli(&["DBSIZE"]).await.unwrap(), "0", "nothing was changed");

    // The default user with a password, and the rights taken away in mid-life.
    server.cli(&["CONFIG", "SET", "requirepass", "sesame"]).await.unwrap();
    let error = open(options(server.address())).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Auth, Effect::NotApplied), "{error}");
    let credentials = Some(RedisCredentials { user: None, password: "sesame".into() });
    let kv = open(RedisOptions { credentials, ..options(server.address()) }).await.unwrap();
    kv.put(b"k", "v".into()).await.unwrap();
    assert!(kv.capabilities().durable_ack.is_yes());
}

#[tokio::test]
async fn a_right_that_is_missing_when_the_store_is_begun_leaves_no_torn_store() {
    let program = redis_or_skip!("a_right_that_is_missing_when_the_store_is_begun_leaves_no_torn_store");
    let server = start(&program).await;
    for right in ["zadd", "hincrby"] {
        server.cli(&["FLUSHALL"]).await.unwrap();
        allow(&server, "user", RIGHTS).await;
        server.cli(&["ACL", "SETUSER", "user", &format!("-{right}")]).await.unwrap();
        let kv = open(RedisOptions { credentials: user("user", "sesame"), ..options(server.address()) }).await.unwrap();
        let (lease, _) = kv.grant(std::time::Duration::from_secs(600)).await.unwrap();
        for error in
            [kv.put(b"k", "v".into()).await.unwrap_err(), kv.put_if_absent(b"k", "v".into(), lease).await.unwrap_err()]
        {
            assert_eq!((error.kind, error.effect), (KvErrorKind::Auth, Effect::NotApplied), "{right}: {error}");
        }
        assert_eq!(server.cli(&["DBSIZE"]).await.unwrap(), "1", "the lease alone: {right}");
        server.cli(&["ACL", "SETUSER", "user", &format!("+{right}")]).await.unwrap();
        kv.put(b"k", "v".into()).await.unwrap();
        assert_eq!(kv.get(b"k").await.unwrap().as_deref(), Some(&b"v"[..]), "{right}");
    }
}

#[tokio::test]
async fn rights_taken_away_and_given_back_are_cured_without_a_restart() {
    let program = redis_or_skip!("rights_taken_away_and_given_back_are_cured_without_a_restart");
    let server = start(&program).await;
    allow(&server, "full", RIGHTS).await;
    let kv = open(RedisOptions { credentials: user("full", "sesame"), ..options(server.address()) }).await.unwrap();
    kv.put(b"k", "v".into()).await.unwrap();
    server.cli(&["ACL", "SETUSER", "full", "-hset"]).await.unwrap();
    let error = kv.put(b"k", "w".into()).await.unwrap_err();
    assert_eq!((error.class(), error.effect), (ha_kv::ErrorClass::Operator, Effect::NotApplied), "{error}");
    assert_eq!(kv.get(b"k").await.unwrap().as_deref(), Some(&b"v"[..]), "reads go on");
    server.cli(&["ACL", "SETUSER", "full", "+hset"]).await.unwrap();
    kv.put(b"k", "w".into()).await.unwrap();
}

#[tokio::test]
async fn tls_with_the_right_authority_works_and_with_the_wrong_one_is_refused() {
    let program = redis_or_skip!("tls_with_the_right_authority_works_and_with_the_wrong_one_is_refused");
    let (files, strangers) = (TlsFiles::make().unwrap(), TlsFiles::make().unwrap());
    let server = RedisServerOptions { settings: REDIS_DURABLE, tls: Some(&files), ..RedisServerOptions::default() };
    let server = RedisServer::start(&program, server).await.unwrap();
    let identity = |files: &TlsFiles| {
        Some(TlsIdentity { cert_pem: files.client_cert_pem.clone(), key_pem: files.client_key_pem.as_str().into() })
    };
    let tls = |files: &TlsFiles, with_identity: bool| {
        let identity = if with_identity { identity(files) } else { None };
        Some(Tls { ca_pem: files.ca_pem.clone(), identity, domain: None })
    };
    let with = |tls| open(RedisOptions { tls, ..options(server.address()) });
    let kv = with(tls(&files, true)).await.unwrap();
    assert!(kv.capabilities().durable_ack.is_yes());
    use_all(Arc::new(kv)).await;
    let by_name = Some(Tls { domain: Some("localhost".into()), ..tls(&files, true).unwrap() });
    with(by_name).await.unwrap();

    let other_name = Some(Tls { domain: Some("example.org".into()), ..tls(&files, true).unwrap() });
    let half = Some(Tls { identity: identity(&strangers), ..tls(&files, true).unwrap() });
    for (what, tls) in [
        ("another authority", tls(&strangers, true)),
        ("another name", other_name),
        ("no client certificate", tls(&files, false)),
        ("a stranger's client certificate", half),
    ] {
        let error = with(tls).await.unwrap_err();
        assert_eq!((error.kind, error.effect), (KvErrorKind::Auth, Effect::NotApplied), "{what}: {error}");
    }
    // Plain text to a server with TLS, and TLS to one without.
    let error = with(None).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Unavailable, Effect::NotApplied), "{error}");
    let plain = start(&program).await;
    let error = open(RedisOptions { tls: tls(&files, true), ..options(plain.address()) }).await.unwrap_err();
    assert_eq!(error.effect, Effect::NotApplied, "{error}");
    let broken = Tls {
        ca_pem: "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n".into(),
        ..tls(&files, false).unwrap()
    };
    let error = with(Some(broken)).await.unwrap_err();
    assert_eq!(error.kind, KvErrorKind::InvalidArgument, "{error}");
}
