//! Owns opening Redis: the files that its URL names become its options.

use std::path::Path;
use std::sync::Arc;

use ha_kv::{RedisCredentials, RedisKv, RedisOptions, RedisServers};
use ha_types::Entropy;

use super::files::{secret, tls};
use super::{OpenError, Store};
use crate::store_url::{RedisForm, RedisUrl, StoreUrl};

pub(super) async fn open(url: &RedisUrl, entropy: Arc<dyn Entropy>) -> Result<Store, OpenError> {
    let options = options(url).map_err(OpenError::Other)?;
    let store = RedisKv::connect(options, entropy).await;
    store.map(Store::of).map_err(|error| OpenError::Store { url: Box::new(StoreUrl::Redis(url.clone())), error })
}

fn options(url: &RedisUrl) -> Result<RedisOptions, String> {
    let mut options = RedisOptions::new(servers(url)?);
    options.database = url.database;
    options.namespace = url.namespace.clone().unwrap_or(options.namespace);
    options.credentials =
        credentials(url.trust.user.as_deref(), url.trust.password_file.as_deref(), "Redis password file")?;
    options.tls = tls(&url.trust, "Redis")?;
    if let Some(timeout) = url.timeout {
        options.request_timeout = timeout;
        options.connect_timeout = options.connect_timeout.min(timeout);
    }
    options.max_txn_bytes = url.max_txn_bytes.unwrap_or(options.max_txn_bytes);
    Ok(options)
}

fn servers(url: &RedisUrl) -> Result<RedisServers, String> {
    Ok(match &url.form {
        RedisForm::Single => RedisServers::Single(url.endpoints.concat()),
        RedisForm::Cluster => RedisServers::Cluster(url.endpoints.clone()),
        RedisForm::Sentinel { master, user, password_file } => RedisServers::Sentinel {
            sentinels: url.endpoints.clone(),
            master: master.clone(),
            credentials: credentials(user.as_deref(), password_file.as_deref(), "Sentinel password file")?,
        },
    })
}

fn credentials(user: Option<&str>, file: Option<&Path>, what: &str) -> Result<Option<RedisCredentials>, String> {
    let Some(file) = file else { return Ok(None) };
    Ok(Some(RedisCredentials { user: user.map(ToOwned::to_owned), password: secret(file, what)? }))
}

#[cfg(test)]
mod tests {
    use ha_kv::Secret;

    use super::*;

    fn of(url: &str) -> Result<RedisOptions, String> {
        let StoreUrl::Redis(url) = url.parse().expect("a good URL") else { panic!("a Redis URL") };
        options(&url)
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_as_redis_or_as_the_sentinels() {
        for (url, thing) in [
            ("redis://h:1?password_file=/no/such/file", "the Redis password file /no/such/file"),
            ("rediss://h:1?ca=/no/such/file", "the Redis CA file /no/such/file"),
            ("redis-sentinel://h:1/m?sentinel_password_file=/no/such/file", "the Sentinel password file"),
        ] {
            let error = of(url).unwrap_err();
            assert!(error.contains(thing), "{error}");
        }
    }

    #[test]
    fn the_urls_options_reach_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let (password, ca) = (dir.path().join("password"), dir.path().join("ca.pem"));
        std::fs::write(&password, "sesame\r\n").unwrap();
        std::fs::write(&ca, "CA").unwrap();
        let (password, ca) = (password.display(), ca.display());
        let query = format!(
            "user=u&password_file={password}&ca={ca}&domain=d&timeout_ms=700&max_txn_bytes=2097152&namespace=n"
        );
        let options = of(&format!("rediss://h:1/3?{query}")).unwrap();
        assert_eq!((&options.servers, options.database), (&RedisServers::Single("h:1".into()), 3));
        let credentials = options.credentials.as_ref().unwrap();
        assert_eq!((credentials.user.as_deref(), &credentials.password), (Some("u"), &Secret::new("sesame")));
        assert!(options.tls.as_ref().is_some_and(|t| t.ca_pem == "CA" && t.domain.as_deref() == Some("d")));
        assert_eq!((options.request_timeout.as_millis(), options.max_txn_bytes), (700, 2 << 20));
        assert_eq!(options.namespace, "n");
        assert!(!format!("{options:?}").contains("sesame"), "a secret is never shown");
        let sentinel = of(&format!("redis-sentinel://a:1,b:2/main?sentinel_password_file={password}")).unwrap();
        let RedisServers::Sentinel { sentinels, master, credentials } = sentinel.servers else { panic!("Sentinel") };
        assert_eq!((sentinels.len(), master.as_str()), (2, "main"));
        assert_eq!(credentials.unwrap().user, None);
        assert_eq!(of("redis-cluster://a:1").unwrap().servers, RedisServers::Cluster(vec!["a:1".into()]));
    }
}
