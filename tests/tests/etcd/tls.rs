//! TLS: good, distrusted, half configured, and against plain text.

use ha_kv::{Effect, EtcdKv, EtcdOptions, Kv as _, KvError, KvErrorKind, Tls, TlsIdentity};
use plimsoll_tests::{EtcdServerOptions, TlsFiles};

use crate::support::{etcd_or_skip, options, start, start_with, text};

fn secured(endpoint: String, tls: Tls) -> EtcdOptions {
    EtcdOptions { tls: Some(tls), ..options([endpoint]) }
}

fn trusting(files: &TlsFiles) -> Tls {
    Tls { ca_pem: files.ca_pem.clone(), identity: None, domain: None }
}

fn identity(files: &TlsFiles) -> Option<TlsIdentity> {
    Some(TlsIdentity { cert_pem: files.client_cert_pem.clone(), key_pem: files.client_key_pem.as_str().into() })
}

async fn refused(options: EtcdOptions) -> KvError {
    let error = EtcdKv::connect(options).await.expect_err("the connection is refused");
    assert_eq!(error.effect, Effect::NotApplied);
    error
}

#[tokio::test]
async fn tls_with_client_certificates() {
    let program = etcd_or_skip!("tls_with_client_certificates");
    let files = TlsFiles::make().unwrap();
    let with_tls = EtcdServerOptions { tls: Some(&files), client_cert_auth: true, ..Default::default() };
    let server = start_with(&program, with_tls).await;

    let good = Tls { identity: identity(&files), domain: Some("localhost".into()), ..trusting(&files) };
    let kv = EtcdKv::connect(secured(server.endpoint(), good)).await.unwrap();
    kv.put(b"k", "v".into()).await.unwrap();
    assert_eq!(text(kv.get(b"k").await.unwrap()).as_deref(), Some("v"));

    let stranger = TlsFiles::make().unwrap();
    let wrong_ca = refused(secured(server.endpoint(), Tls { identity: identity(&files), ..trusting(&stranger) })).await;
    assert_eq!(wrong_ca.kind, KvErrorKind::Auth, "{wrong_ca}");
    assert!(wrong_ca.message.contains(&server.endpoint()) && wrong_ca.message.contains("check the CA"), "{wrong_ca}");

    let wrong_name = Tls { identity: identity(&files), domain: Some("elsewhere".into()), ..trusting(&files) };
    assert_eq!(refused(secured(server.endpoint(), wrong_name)).await.kind, KvErrorKind::Auth);

    // The server ends the connection of a client without a certificate.
    let no_certificate = refused(secured(server.endpoint(), trusting(&files))).await;
    assert!(matches!(no_certificate.kind, KvErrorKind::Auth | KvErrorKind::Unavailable), "{no_certificate}");

    let plain = refused(options([server.endpoint().replace("https", "http")])).await;
    assert!(plain.message.contains("https://"), "the remedy is named: {plain}");

    let half = refused(options([server.endpoint()])).await;
    assert_eq!(half.kind, KvErrorKind::InvalidArgument);
    assert!(half.message.contains("no TLS is configured"), "{half}");
}

#[tokio::test]
async fn tls_against_plain_text() {
    let program = etcd_or_skip!("tls_against_plain_text");
    let files = TlsFiles::make().unwrap();
    let server = start(&program).await;
    let error = refused(secured(server.endpoint().replace("http", "https"), trusting(&files))).await;
    assert!(matches!(error.kind, KvErrorKind::Auth | KvErrorKind::Unavailable), "{error}");
    assert!(error.message.contains("http://"), "the remedy is named: {error}");

    let half = refused(secured(server.endpoint(), trusting(&files))).await;
    assert_eq!(half.kind, KvErrorKind::InvalidArgument);
    assert!(half.message.contains("plain text"), "{half}");
}
