//! Owns opening etcd: the files that its URL names become its options.

use ha_kv::{EtcdCredentials, EtcdKv, EtcdOptions};

use super::files::{secret, tls};
use super::{OpenError, Store};
use crate::store_url::{EtcdUrl, StoreUrl};

pub(super) async fn open(url: &EtcdUrl) -> Result<Store, OpenError> {
    let options = options(url).map_err(OpenError::Other)?;
    let store = EtcdKv::connect(options).await;
    store.map(Store::of).map_err(|error| OpenError::Store { url: Box::new(StoreUrl::Etcd(url.clone())), error })
}

fn options(url: &EtcdUrl) -> Result<EtcdOptions, String> {
    let scheme = if url.trust.ca.is_some() { "https" } else { "http" };
    let mut options = EtcdOptions::new(url.endpoints.iter().map(|e| format!("{scheme}://{e}")));
    if let (Some(user), Some(file)) = (&url.trust.user, &url.trust.password_file) {
        let password = secret(file, "etcd password file")?;
        options.credentials = Some(EtcdCredentials { user: user.clone(), password });
    }
    options.tls = tls(&url.trust, "etcd")?;
    if let Some(timeout) = url.timeout {
        options.request_timeout = timeout;
        options.connect_timeout = options.connect_timeout.min(timeout);
    }
    options.max_request_bytes = url.max_request_bytes.unwrap_or(options.max_request_bytes);
    options.max_reply_bytes = options.max_reply_bytes.max(options.max_request_bytes.saturating_mul(2));
    options.server_fsync = !url.unsafe_no_fsync;
    Ok(options)
}

#[cfg(test)]
mod tests {
    use ha_kv::Secret;

    use super::*;

    fn of(url: &str) -> Result<EtcdOptions, String> {
        let StoreUrl::Etcd(url) = url.parse().expect("a good URL") else { panic!("an etcd URL") };
        options(&url)
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_as_etcds() {
        for (query, thing) in [
            ("user=u&password_file=/no/such/file", "the etcd password file /no/such/file"),
            ("ca=/no/such/file", "the etcd CA file /no/such/file"),
        ] {
            let error = of(&format!("etcd://h:1?{query}")).unwrap_err();
            assert!(error.contains(thing), "{error}");
        }
    }

    #[test]
    fn the_urls_options_reach_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let (password, ca) = (dir.path().join("password"), dir.path().join("ca.pem"));
        std::fs::write(&password, "sesame\r\n").unwrap();
        std::fs::write(&ca, "CA").unwrap();
        let query = format!(
            "user=u&password_file={}&ca={}&domain=d&timeout_ms=700&max_request_bytes=65536&unsafe_no_fsync=true",
            password.display(),
            ca.display()
        );
        let options = of(&format!("etcd://h:1,i:2?{query}")).unwrap();
        assert_eq!(options.endpoints, ["https://h:1", "https://i:2"], "a CA switches TLS on");
        assert!(options.credentials.as_ref().is_some_and(|c| c.user == "u" && c.password == Secret::new("sesame")));
        assert!(options.tls.as_ref().is_some_and(|t| t.ca_pem == "CA" && t.domain.as_deref() == Some("d")));
        assert_eq!((options.request_timeout.as_millis(), options.max_request_bytes), (700, 65_536));
        assert!(!options.server_fsync);
        assert!(!format!("{options:?}").contains("sesame"), "a secret is never shown");
        assert_eq!(of("etcd://h:1").unwrap().endpoints, ["http://h:1"]);
    }
}
