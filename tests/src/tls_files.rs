//! Owns certificates made for one test: an authority, a server for loopback, a client. They are worth nothing elsewhere.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// An authority of its own with what it signed, as PEM text and as files.
#[derive(Debug)]
pub struct TlsFiles {
    folder: tempfile::TempDir,
    /// The authority's certificate.
    pub ca_pem: String,
    /// A client's certificate.
    pub client_cert_pem: String,
    /// Its key.
    pub client_key_pem: String,
}

impl TlsFiles {
    /// Makes a new authority. Two of them do not trust each other.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn make() -> Result<Self> {
        let folder = tempfile::tempdir().context("no folder for certificates")?;
        let mut params = CertificateParams::new(Vec::new())?;
        // An authority is told from what it signed by its name; some checkers look at nothing else.
        params.distinguished_name.push(DnType::CommonName, "authority of one test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let ca_pem = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        let (server_cert, server_key) = leaf(&issuer)?;
        let (client_cert_pem, client_key_pem) = leaf(&issuer)?;
        for (name, text) in [("ca.pem", &ca_pem), ("server.pem", &server_cert), ("server.key", &server_key)] {
            std::fs::write(folder.path().join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        for (name, text) in [("client.pem", &client_cert_pem), ("client.key", &client_key_pem)] {
            std::fs::write(folder.path().join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        Ok(Self { folder, ca_pem, client_cert_pem, client_key_pem })
    }

    /// `ca.pem`, `server.pem`, `server.key`, `client.pem` or `client.key`.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A certificate for `localhost` and `127.0.0.1`, for either end of a connection.
fn leaf(issuer: &Issuer<'_, KeyPair>) -> Result<(String, String)> {
    let mut params = CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()])?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, issuer)?.pem(), key.serialize_pem()))
}
