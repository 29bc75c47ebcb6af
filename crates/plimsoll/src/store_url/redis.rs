//! Owns the forms of a Redis URL: one server, Sentinel, cluster. It opens nothing.

use std::path::PathBuf;
use std::time::Duration;

use super::{Options, StoreUrlError, UrlTrust, authority, endpoint, err};

/// `redis://10.0.0.1:6379/0?user=plimsoll&password_file=/etc/redis-password`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedisUrl {
    /// Which of the forms.
    pub(crate) form: RedisForm,
    /// `host:port`; one, unless the form takes several.
    pub(crate) endpoints: Vec<String>,
    /// The number of the database.
    pub(crate) database: u32,
    /// What the keys in Redis begin with.
    pub(crate) namespace: Option<String>,
    /// User and TLS; a password without a user is the default user's.
    pub(crate) trust: UrlTrust,
    /// Most time for one request.
    pub(crate) timeout: Option<Duration>,
    /// Largest transaction, in bytes.
    pub(crate) max_txn_bytes: Option<usize>,
}

/// What the addresses of a Redis URL are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RedisForm {
    /// `redis://HOST:PORT[/DB]`, `rediss://` with TLS.
    Single,
    /// `redis-sentinel://HOST:PORT[,HOST:PORT...]/MASTER[/DB]`
    Sentinel {
        /// The name that the sentinels know the master by.
        master: String,
        /// User of the sentinels.
        user: Option<String>,
        /// The file with their password.
        password_file: Option<PathBuf>,
    },
    /// `redis-cluster://HOST:PORT[,HOST:PORT...]`
    Cluster,
}

impl RedisUrl {
    /// The schemes.
    pub(super) const SCHEMES: [&'static str; 4] = ["redis", "rediss", "redis-sentinel", "redis-cluster"];

    /// The scheme.
    pub(super) const fn scheme(&self) -> &'static str {
        match &self.form {
            RedisForm::Single if self.trust.ca.is_some() => "rediss",
            RedisForm::Single => "redis",
            RedisForm::Sentinel { .. } => "redis-sentinel",
            RedisForm::Cluster => "redis-cluster",
        }
    }

    /// The options that the form takes.
    pub(super) fn known_options(&self) -> Vec<&'static str> {
        let sentinels: &[&str] = match &self.form {
            RedisForm::Sentinel { .. } => &["sentinel_user", "sentinel_password_file"],
            RedisForm::Single | RedisForm::Cluster => &[],
        };
        [&["namespace"], &UrlTrust::OPTIONS[..], &["timeout_ms", "max_txn_bytes"], sentinels].concat()
    }

    /// Without options: for reports.
    pub(super) fn place(&self) -> String {
        let hosts = self.endpoints.join(",");
        let master = match &self.form {
            RedisForm::Sentinel { master, .. } => format!("/{master}"),
            RedisForm::Single | RedisForm::Cluster => String::new(),
        };
        let database = if self.database == 0 { String::new() } else { format!("/{}", self.database) };
        format!("{}://{hosts}{master}{database}", self.scheme())
    }
}

/// What comes after the scheme.
pub(super) fn parse(scheme: &str, place: &str, options: &mut Options) -> Result<RedisUrl, StoreUrlError> {
    let mut parts = authority(scheme, place)?.split('/');
    let hosts = parts.next().unwrap_or_default();
    let master = if scheme == "redis-sentinel" { parts.next() } else { None };
    let form = form(scheme, master, options)?;
    let database = database(scheme, &form, parts.next())?;
    if let Some(more) = parts.next() {
        return err(format!("the {scheme} URL goes on after the database index with {more:?}; leave that out"));
    }
    let endpoints: Vec<String> = hosts.split(',').map(|host| endpoint("redis", host)).collect::<Result<_, _>>()?;
    if form == RedisForm::Single && endpoints.len() > 1 {
        return err(format!(
            "the {scheme} URL names {} servers; several are redis-sentinel:// or redis-cluster://",
            endpoints.len()
        ));
    }
    let url = RedisUrl {
        form,
        endpoints,
        database,
        namespace: options.take("namespace"),
        trust: UrlTrust::take(scheme, options)?,
        timeout: options.millis("timeout_ms")?,
        max_txn_bytes: options.number("max_txn_bytes")?,
    };
    check(scheme, &url)?;
    Ok(url)
}

fn form(scheme: &str, master: Option<&str>, options: &mut Options) -> Result<RedisForm, StoreUrlError> {
    match scheme {
        "redis-sentinel" => match master.filter(|name| !name.is_empty()) {
            Some(master) => {
                let user = options.take("sentinel_user");
                let password_file = options.take("sentinel_password_file").map(PathBuf::from);
                if user.is_some() && password_file.is_none() {
                    return err(
                        "the redis-sentinel URL has sentinel_user without sentinel_password_file; give both".into()
                    );
                }
                Ok(RedisForm::Sentinel { master: master.to_owned(), user, password_file })
            }
            None => err("the redis-sentinel URL names no master; use redis-sentinel://HOST:PORT/MASTER".into()),
        },
        "redis-cluster" => Ok(RedisForm::Cluster),
        _ => Ok(RedisForm::Single),
    }
}

fn database(scheme: &str, form: &RedisForm, index: Option<&str>) -> Result<u32, StoreUrlError> {
    let Some(index) = index else { return Ok(0) };
    if *form == RedisForm::Cluster {
        return err(format!(
            "the redis-cluster URL has the database index {index:?}; a cluster has none, leave it out"
        ));
    }
    index.parse().map_err(|_| {
        StoreUrlError(format!(
            "the {scheme} URL has the database index {index:?}, which is no number; use 0 or leave it out"
        ))
    })
}

fn check(scheme: &str, url: &RedisUrl) -> Result<(), StoreUrlError> {
    if scheme == "rediss" && url.trust.ca.is_none() {
        return err("the rediss URL asks for TLS without ca; give ca=PATH".into());
    }
    if scheme == "redis" && url.trust.ca.is_some() {
        return err("the redis URL has ca, but redis:// is plain text; write rediss://".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store_url::StoreUrl;

    fn of(url: &str) -> RedisUrl {
        match url.parse().expect(url) {
            StoreUrl::Redis(url) => url,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn good_urls() {
        let url = of("redis://h:1/3?namespace=n&user=u&password_file=/p&timeout_ms=700&max_txn_bytes=2097152");
        assert_eq!(
            (url.form.clone(), url.endpoints.as_slice(), url.database),
            (RedisForm::Single, &["h:1".into()][..], 3)
        );
        assert_eq!((url.namespace.as_deref(), url.trust.user.as_deref()), (Some("n"), Some("u")));
        assert_eq!((url.timeout, url.max_txn_bytes), (Some(Duration::from_millis(700)), Some(2 << 20)));
        assert_eq!(of("rediss://[::1]:1?ca=/ca&domain=d").trust.ca, Some(PathBuf::from("/ca")));
        assert_eq!(of("redis://h:1?password_file=/p").trust.user, None, "the default user");
        let url = of("redis-sentinel://a:1,b:2/main/4?sentinel_user=s&sentinel_password_file=/s");
        let (user, password_file) = (Some("s".into()), Some("/s".into()));
        assert_eq!(url.form, RedisForm::Sentinel { master: "main".into(), user, password_file });
        assert_eq!((url.endpoints.len(), url.database), (2, 4));
        assert_eq!(of("redis-cluster://a:1,b:2").endpoints.len(), 2);
        for text in ["redis://h:1", "redis://h:1/3", "redis-sentinel://a:1,b:2/main/4", "redis-cluster://a:1,b:2"] {
            assert_eq!(text.parse::<StoreUrl>().unwrap().to_string(), text);
        }
        assert_eq!("rediss://h:1/?ca=/x".parse::<StoreUrl>().unwrap().to_string(), "rediss://h:1");
    }

    #[test]
    fn bad_urls_name_the_thing_and_the_remedy() {
        for (url, thing, remedy) in [
            ("redis:h:1", "no host", "redis://HOST:PORT"),
            ("redis://", "\"\"", "127.0.0.1"),
            ("redis://h", "\"h\"", "127.0.0.1"),
            ("redis://h:1,i:2", "2 servers", "redis-cluster://"),
            ("redis://u:p@h:1", "password", "password_file"),
            ("redis://h:1?password=x", "password", "password_file"),
            ("redis://h:1?user=u", "user without", "give both"),
            ("redis://h:1/x", "database index \"x\"", "leave it out"),
            ("redis://h:1/1/2", "\"2\"", "leave that out"),
            ("redis://h:1?ca=/x", "plain text", "rediss://"),
            ("rediss://h:1", "without ca", "ca=PATH"),
            ("redis-cluster://h:1?domain=d", "without ca", "ca=PATH"),
            ("rediss://h:1?ca=/x&cert=/y", "one of cert", "both or none"),
            ("redis-sentinel://h:1", "no master", "/MASTER"),
            ("redis-sentinel://h:1/m?sentinel_user=u", "sentinel_user without", "give both"),
            ("redis-cluster://h:1/3", "database index \"3\"", "leave it out"),
            ("redis://h:1?sentinel_user=u", "\"sentinel_user\"", "namespace"),
            ("redis://h:1?namspace=x", "\"namspace\"", "did you mean `namespace`?"),
            ("reddis://h:1", "\"reddis\"", "did you mean `redis`?"),
        ] {
            let error = url.parse::<StoreUrl>().expect_err(url).to_string();
            assert!(error.contains(thing) && error.contains(remedy), "{url}: {error}");
            assert!(!error.contains('\n'), "{url}: {error}");
        }
    }
}
