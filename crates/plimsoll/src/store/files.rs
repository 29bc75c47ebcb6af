//! Owns reading the files that a store's URL names.

use std::path::Path;

use ha_kv::{Secret, Tls, TlsIdentity};

use crate::store_url::UrlTrust;

/// A file as text.
///
/// # Errors
/// One sentence that names the file and what it was to be.
pub(super) fn text(path: &Path, what: &str) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|e| format!("the {what} {} cannot be read ({e}); name a file that this user may read", path.display()))
}

/// A file as a secret, without a newline at its end.
///
/// # Errors
/// As [`text`].
pub(super) fn secret(path: &Path, what: &str) -> Result<Secret, String> {
    Ok(Secret::from(text(path, what)?.trim_end_matches(['\r', '\n'])))
}

/// The files about TLS; `store` is its name for people.
///
/// # Errors
/// As [`text`].
pub(super) fn tls(trust: &UrlTrust, store: &str) -> Result<Option<Tls>, String> {
    let Some(ca) = &trust.ca else { return Ok(None) };
    let identity = match (&trust.cert, &trust.key) {
        (Some(cert), Some(key)) => Some(TlsIdentity {
            cert_pem: text(cert, &format!("{store} client certificate"))?,
            key_pem: secret(key, &format!("{store} client key"))?,
        }),
        _ => None,
    };
    Ok(Some(Tls { ca_pem: text(ca, &format!("{store} CA file"))?, identity, domain: trust.domain.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_that_cannot_be_read_is_named_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let (there, missing) = (dir.path().join("there"), dir.path().join("missing"));
        std::fs::write(&there, "text\r\n").unwrap();
        let trust = |ca, cert, key| UrlTrust {
            ca: Some(dir.path().join(ca)),
            cert: Some(dir.path().join(cert)),
            key: Some(dir.path().join(key)),
            ..UrlTrust::default()
        };
        assert_eq!(secret(&there, "it").unwrap(), Secret::new("text"), "the newline is not the secret's");
        assert!(tls(&trust("there", "there", "there"), "it").unwrap().is_some_and(|tls| tls.identity.is_some()));
        assert_eq!(tls(&UrlTrust::default(), "it"), Ok(None));
        let missing = missing.display();
        for (error, thing) in [
            (text(Path::new(&missing.to_string()), "it password file").unwrap_err(), "it password file"),
            (tls(&trust("missing", "there", "there"), "it").unwrap_err(), "it CA file"),
            (tls(&trust("there", "missing", "there"), "it").unwrap_err(), "it client certificate"),
            (tls(&trust("there", "there", "missing"), "it").unwrap_err(), "it client key"),
        ] {
            assert!(error.contains(&format!("the {thing} {missing} cannot be read")), "{error}");
            assert!(error.contains("name a file") && !error.contains('\n'), "{error}");
        }
    }
}
