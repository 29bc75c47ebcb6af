//! Users, passwords and tokens that expire.

use std::time::Duration;

use ha_kv::{Effect, ErrorClass, EtcdCredentials, EtcdKv, EtcdOptions, Kv as _, KvErrorKind, TxnKv as _, TxnOutcome};
use plimsoll_tests::{EtcdServer, EtcdServerOptions};

use crate::support::{connect, etcd_or_skip, options, start, start_with, swap, text};

/// So long that a machine that does other things too uses a token before it goes stale.
const TOKEN_TTL_S: u64 = 5;

fn with_user(server: &EtcdServer, user: &str, password: &str) -> EtcdOptions {
    let credentials = EtcdCredentials { user: user.into(), password: password.into() };
    EtcdOptions { credentials: Some(credentials), ..options([server.endpoint()]) }
}

#[tokio::test]
async fn the_right_password_is_let_in_and_a_wrong_one_is_refused_once() {
    let program = etcd_or_skip!("the_right_password_is_let_in_and_a_wrong_one_is_refused_once");
    let server = start(&program).await;
    let before = connect(&server).await;
    server.enable_auth("secret").await.unwrap();

    let kv = EtcdKv::connect(with_user(&server, "root", "secret")).await.unwrap();
    kv.put(b"k", "v".into()).await.unwrap();
    assert_eq!(text(kv.get(b"k").await.unwrap()).as_deref(), Some("v"));

    let wrong = EtcdKv::connect(with_user(&server, "root", "guess")).await.unwrap_err();
    assert_eq!((wrong.kind, wrong.effect), (KvErrorKind::Auth, Effect::NotApplied), "{wrong}");
    assert!(wrong.message.contains(&server.endpoint()) && wrong.message.contains("check user and password"), "{wrong}");
    assert!(!format!("{wrong:?}").contains("guess"), "the password is not in the error");

    let nobody = before.put(b"k", "intruder".into()).await.unwrap_err();
    assert_eq!((nobody.kind, nobody.effect), (KvErrorKind::Auth, Effect::NotApplied), "{nobody}");
    assert_eq!(text(kv.get(b"k").await.unwrap()).as_deref(), Some("v"));
}

#[tokio::test]
async fn a_user_on_a_server_without_authentication_is_a_mistake() {
    let program = etcd_or_skip!("a_user_on_a_server_without_authentication_is_a_mistake");
    let server = start(&program).await;
    let error = EtcdKv::connect(with_user(&server, "root", "secret")).await.unwrap_err();
    assert_eq!(error.kind, KvErrorKind::Auth);
    assert!(error.message.contains("give no user"), "{error}");
}

#[tokio::test]
async fn a_user_without_rights_is_told_so() {
    let program = etcd_or_skip!("a_user_without_rights_is_told_so");
    let server = start(&program).await;
    server.ctl(&["user", "add", "guest:g"]).await.unwrap();
    server.ctl(&["role", "add", "reader"]).await.unwrap();
    server.ctl(&["role", "grant-permission", "reader", "readwrite", "allowed"]).await.unwrap();
    server.ctl(&["user", "grant-role", "guest", "reader"]).await.unwrap();
    server.enable_auth("secret").await.unwrap();
    // Connecting sends its probe on a key that this user has no right to, and yet learns what it wants to know.
    let kv = EtcdKv::connect(with_user(&server, "guest", "g")).await.unwrap();
    kv.put(b"allowed", "v".into()).await.unwrap();
    let error = kv.put(b"forbidden", "v".into()).await.unwrap_err();
    assert_eq!(
        (error.kind, error.effect, error.class()),
        (KvErrorKind::Auth, Effect::NotApplied, ErrorClass::Operator)
    );
    assert_eq!(error.key.as_deref(), Some(&b"forbidden"[..]));
}

#[tokio::test]
async fn w13_expired_token_and_changed_user_store() {
    let program = etcd_or_skip!("w13_expired_token_and_changed_user_store");
    let server =
        start_with(&program, EtcdServerOptions { auth_token_ttl_s: Some(TOKEN_TTL_S), ..Default::default() }).await;
    server.enable_auth("secret").await.unwrap();
    let kv = EtcdKv::connect(with_user(&server, "root", "secret")).await.unwrap();
    kv.put(b"k", "0".into()).await.unwrap();

    // The token goes stale while nothing is asked. One call fails, nothing is applied, the next one is let in.
    tokio::time::sleep(Duration::from_secs(TOKEN_TTL_S + 3)).await;
    let expired = kv.txn(&swap("k", "0", "1")).await.unwrap_err();
    assert_eq!((expired.class(), expired.effect), (ErrorClass::Transient, Effect::NotApplied), "{expired}");
    assert_eq!(kv.txn(&swap("k", "0", "1")).await.unwrap(), TxnOutcome::Committed, "the refused one changed nothing");

    // A change of the user store makes every token stale at once.
    let root = ["--user", "root:secret"];
    server.ctl(&[&root[..], &["user", "add", "other:pw"]].concat()).await.unwrap();
    let mut failures = 0;
    while let Err(error) = kv.txn(&swap("k", "1", "2")).await {
        assert_eq!((error.class(), error.effect), (ErrorClass::Transient, Effect::NotApplied), "{error}");
        failures += 1;
        assert!(failures <= 1, "more than one call failed: {error}");
    }

    // A password that is no longer right stays wrong: each call says so at once, none loops.
    server.ctl(&["--user", "root:secret", "auth", "disable"]).await.unwrap();
    server.ctl(&["user", "delete", "root"]).await.unwrap();
    server.enable_auth("changed").await.unwrap();
    let mut last = kv.get(b"k").await.unwrap_err();
    for _ in 0..2 {
        last = kv.get(b"k").await.unwrap_err();
    }
    assert_eq!((last.kind, last.class()), (KvErrorKind::Auth, ErrorClass::Operator), "{last}");
}
