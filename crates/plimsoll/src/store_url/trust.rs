//! Owns the options of a store's URL about users and TLS, which every store with servers has. It reads no file.

use std::path::PathBuf;

use super::{Options, StoreUrlError, err};

/// Who we are to the servers, and how we know that they are the right ones.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct UrlTrust {
    /// User, with [`Self::password_file`].
    pub(crate) user: Option<String>,
    /// A file whose content, without a newline at its end, is the password.
    pub(crate) password_file: Option<PathBuf>,
    /// Certificates that sign the servers'; switches TLS on.
    pub(crate) ca: Option<PathBuf>,
    /// Our certificate.
    pub(crate) cert: Option<PathBuf>,
    /// Its key.
    pub(crate) key: Option<PathBuf>,
    /// The name expected in the servers' certificate, if it is not the host's.
    pub(crate) domain: Option<String>,
}

impl UrlTrust {
    /// The options that are taken.
    pub(super) const OPTIONS: [&'static str; 6] = ["user", "password_file", "ca", "cert", "key", "domain"];

    /// Takes them, and refuses what could only be half of what was meant.
    pub(super) fn take(scheme: &str, options: &mut Options) -> Result<Self, StoreUrlError> {
        let trust = Self {
            user: options.take("user"),
            password_file: options.take("password_file").map(PathBuf::from),
            ca: options.take("ca").map(PathBuf::from),
            cert: options.take("cert").map(PathBuf::from),
            key: options.take("key").map(PathBuf::from),
            domain: options.take("domain"),
        };
        if trust.user.is_some() && trust.password_file.is_none() {
            return err(format!("the {scheme} URL has user without password_file; give both"));
        }
        if trust.cert.is_some() != trust.key.is_some() {
            return err(format!("the {scheme} URL has one of cert and key; give both or none"));
        }
        if trust.ca.is_none() && (trust.cert.is_some() || trust.domain.is_some()) {
            return err(format!(
                "the {scheme} URL has cert, key or domain without ca, so TLS would be off; give ca=PATH"
            ));
        }
        Ok(trust)
    }
}
