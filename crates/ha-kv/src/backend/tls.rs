//! Owns what is known about TLS towards a server, whatever the server is. It speaks none.

use crate::backend::secret::Secret;

/// How every PEM certificate begins.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";
/// How the first line of a PEM private key of any kind ends.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// TLS towards the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The authorities that may have signed the servers' certificates, in PEM.
    pub ca_pem: String,
    /// What this client shows, if the servers ask for it.
    pub identity: Option<TlsIdentity>,
    /// The name in the servers' certificates, if it is not the host of the address.
    pub domain: Option<String>,
}

/// A client certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsIdentity {
    /// The certificate and its chain, in PEM.
    pub cert_pem: String,
    /// The private key, in PEM; never printed.
    pub key_pem: Secret,
}

impl Tls {
    /// What cannot be right before any server is asked; `store` is its name for people.
    pub(super) fn problem(&self, store: &str) -> Option<String> {
        if !self.ca_pem.contains(CERTIFICATE) {
            return Some(format!(
                "the CA file of {store} holds no PEM certificate; give the certificate that signed the servers'"
            ));
        }
        let identity = self.identity.as_ref()?;
        if !identity.cert_pem.contains(CERTIFICATE) {
            return Some(format!(
                "the client certificate file for {store} holds no PEM certificate; give this client's"
            ));
        }
        if !identity.key_pem.expose().contains(PRIVATE_KEY) {
            return Some(format!(
                "the client key file for {store} holds no PEM private key; give the key of the client certificate"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_that_is_no_pem_is_named() {
        let identity = |cert: &str, key: &str| Some(TlsIdentity { cert_pem: cert.into(), key_pem: key.into() });
        let key = "-----BEGIN EC PRIVATE KEY-----";
        let problem = |ca: &str, identity| Tls { ca_pem: ca.into(), identity, domain: None }.problem("it");
        assert_eq!(problem(CERTIFICATE, None), None);
        assert_eq!(problem(CERTIFICATE, identity(CERTIFICATE, key)), None);
        for (ca, identity, thing) in [
            ("garbage", None, "CA file of it"),
            (key, identity(CERTIFICATE, key), "CA file of it"),
            (CERTIFICATE, identity("", key), "client certificate file for it"),
            (CERTIFICATE, identity(CERTIFICATE, CERTIFICATE), "client key file for it"),
        ] {
            assert!(problem(ca, identity).is_some_and(|text| text.contains(thing)), "{thing}");
        }
    }

    #[test]
    fn a_key_is_never_printed() {
        let identity = TlsIdentity { cert_pem: "cert".into(), key_pem: "hunter3".into() };
        let shown = format!("{:?}", Tls { ca_pem: "ca".into(), identity: Some(identity), domain: None });
        assert!(shown.contains("cert") && !shown.contains("hunter"), "{shown}");
    }
}
