//! TLS and the token: who has neither gets in nowhere, and is told why.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::kit::{Place, ask, refused, run};

/// PEM files made for one test: an authority, a server for `localhost`, a client.
struct Certs {
    ca: String,
    server_cert: String,
    server_key: String,
    client_cert: String,
    client_key: String,
}

impl Certs {
    fn new(dir: &Path) -> Self {
        let file = |name: &str, text: String| {
            let path = dir.join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let signed = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let cert = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
            (cert.pem(), key.serialize_pem())
        };
        let (server, client) = (signed("localhost"), signed("client"));
        Self {
            ca: file("ca.pem", ca.pem()),
            server_cert: file("server.pem", server.0),
            server_key: file("server.key", server.1),
            client_cert: file("client.pem", client.0),
            client_key: file("client.key", client.1),
        }
    }
}

#[test]
fn every_call_needs_the_token() {
    let place = Place::new(5000);
    let (token, wrong) = (place.dir.path().join("token"), place.dir.path().join("wrong"));
    std::fs::write(&token, "sesame\n").unwrap();
    std::fs::write(&wrong, "barley\n").unwrap();
    let (token, wrong) = (token.to_str().unwrap(), wrong.to_str().unwrap());
    let a = place.node_with("a", &["--token-file", token]);
    a.wait_for_role("leader");
    for command in [&["ls"][..], &["status"], &["step-down"]] {
        let without = ask(&[&a], command);
        assert_ne!(without.code, 0, "{without:?}");
        assert!(without.out.contains("no token"), "{without:?}");
        let mut with_wrong = command.to_vec();
        with_wrong.extend(["--token-file", wrong]);
        let refused = ask(&[&a], &with_wrong);
        assert_ne!(refused.code, 0);
        assert!(refused.out.contains("not this cluster's"), "{refused:?}");
    }
    assert_eq!(ask(&[&a], &["ls", "--token-file", token]).code, 0);
    assert!(!a.log().contains("sesame"), "the token is never logged");
}

#[test]
fn tls_is_used_or_the_call_fails() {
    let place = Place::new(5000);
    let Certs { ca, server_cert, server_key, .. } = Certs::new(place.dir.path());
    let a = place.node_with("a", &["--tls-cert", &server_cert, "--tls-key", &server_key]);
    a.wait_for_role("leader");
    let port = a.grpc.rsplit(':').next().unwrap();
    let endpoint = format!("localhost:{port}");
    let with = run(&["segment", "ls", "--json", "--endpoints", &endpoint, "--ca", &ca]);
    assert_eq!(with.code, 0, "{with:?}");
    let plain = run(&["segment", "ls", "--endpoints", &endpoint, "--timeout-ms", "500"]);
    refused(&plain, 3, &endpoint, "nothing was done");
    let other = tempfile::tempdir().unwrap();
    let other = Certs::new(other.path()).ca;
    let untrusted = run(&["segment", "ls", "--endpoints", &endpoint, "--ca", &other, "--timeout-ms", "500"]);
    assert_eq!(untrusted.code, 3, "{untrusted:?}");
}

#[test]
fn with_a_client_ca_clients_need_a_certificate() {
    let place = Place::new(5000);
    let Certs { ca, server_cert, server_key, client_cert, client_key } = Certs::new(place.dir.path());
    let a = place.node_with("a", &["--tls-cert", &server_cert, "--tls-key", &server_key, "--tls-client-ca", &ca]);
    a.wait_for_role("leader");
    let endpoint = format!("localhost:{}", a.grpc.rsplit(':').next().unwrap());
    let ask = |more: &[&str]| {
        let mut args = vec!["segment", "ls", "--endpoints", &endpoint, "--ca", &ca];
        args.extend(more);
        run(&args)
    };
    let known = ask(&["--cert", &client_cert, "--key", &client_key, "--timeout-ms", "60000"]);
    assert_eq!(known.code, 0, "{known:?}");
    assert_eq!(ask(&["--timeout-ms", "2000"]).code, 3);
}

#[test]
fn a_key_that_is_none_is_named() {
    let place = Place::new(5000);
    let Certs { server_cert, ca: not_a_key, .. } = Certs::new(place.dir.path());
    let mut serve = place.serve("a");
    serve.args(["--tls-cert", &server_cert, "--tls-key", &not_a_key]);
    refused(&crate::kit::finish(serve), 1, &not_a_key, "no TLS server");
    assert!(!place.db().exists());
}
