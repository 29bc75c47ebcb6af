//! Owns the store's URL: which backend, where, and its options. It opens nothing.

mod redis;
mod trust;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

#[cfg(feature = "redis")]
pub(crate) use self::redis::RedisForm;
pub(crate) use self::redis::RedisUrl;
pub(crate) use self::trust::UrlTrust;
use crate::suggest::suggestion;

/// Where the log and the election live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    /// In this process; gone with it.
    Memory,
    /// A file that the processes of one host share.
    Sqlite(SqliteUrl),
    /// An etcd cluster.
    Etcd(EtcdUrl),
    /// Redis, as one server or behind something that fails over.
    Redis(RedisUrl),
}

/// `sqlite:///var/lib/plimsoll/log.db?busy_timeout_ms=5000`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SqliteUrl {
    /// The file.
    pub(crate) path: PathBuf,
    /// How long a transaction waits for the file's lock.
    pub(crate) busy_timeout: Option<Duration>,
    /// The most the file may grow to, in bytes.
    pub(crate) max_file_bytes: Option<usize>,
    /// Whether a FUSE file system is accepted.
    pub(crate) allow_fuse: bool,
}

/// `etcd://10.0.0.1:2379,10.0.0.2:2379?ca=/etc/ca.pem`
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct EtcdUrl {
    /// `host:port`, at least one.
    pub(crate) endpoints: Vec<String>,
    /// User and TLS.
    pub(crate) trust: UrlTrust,
    /// Most time for one request.
    pub(crate) timeout: Option<Duration>,
    /// The servers' `--max-request-bytes`, which they cannot be asked for.
    pub(crate) max_request_bytes: Option<usize>,
    /// Whether the servers run with `--unsafe-no-fsync`, which they cannot be asked for.
    pub(crate) unsafe_no_fsync: bool,
}

/// Why a text is no store URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct StoreUrlError(String);

const SCHEMES: [&str; 3] = ["sqlite", "etcd", "memory"];
const FORMS: &str = "use sqlite:///PATH, etcd://HOST:PORT[,HOST:PORT...], redis://HOST:PORT or memory:";

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(url: &str) -> Result<Self, StoreUrlError> {
        let Some((scheme, rest)) = url.split_once(':') else {
            return err(format!("the store URL {url:?} has no scheme; {FORMS}"));
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut options = Options::parse(scheme, query)?;
        let parsed = match scheme {
            "memory" if place.is_empty() || place == "//" => Self::Memory,
            "memory" => return err(format!("the memory store has no place, but the URL names {place:?}; use memory:")),
            "sqlite" => Self::Sqlite(sqlite(place, &mut options)?),
            "etcd" => Self::Etcd(etcd(place, &mut options)?),
            redis if RedisUrl::SCHEMES.contains(&redis) => Self::Redis(redis::parse(scheme, place, &mut options)?),
            other => {
                let guess = suggestion(other, SCHEMES.into_iter().chain(RedisUrl::SCHEMES));
                return err(format!("the store URL has the unknown scheme {other:?}; {FORMS}{guess}"));
            }
        };
        options.finish(&parsed)?;
        Ok(parsed)
    }
}

fn sqlite(place: &str, options: &mut Options) -> Result<SqliteUrl, StoreUrlError> {
    let path = match place.strip_prefix("//") {
        Some(path) if path.starts_with('/') => path,
        Some(_) => {
            return err(format!(
                "sqlite:{place} names a host, but SQLite is a local file; use sqlite:///ABSOLUTE/PATH or sqlite:RELATIVE/PATH"
            ));
        }
        None => place,
    };
    let path = percent_encoding::percent_decode_str(path)
        .decode_utf8()
        .map_err(|_| StoreUrlError("the path in the sqlite URL is not UTF-8 once decoded; rename the file".into()))?;
    if path.is_empty() || path.ends_with('/') {
        return err(format!("the sqlite URL names no file ({path:?}); use sqlite:///PATH/TO/FILE"));
    }
    Ok(SqliteUrl {
        path: PathBuf::from(&*path),
        busy_timeout: options.millis("busy_timeout_ms")?,
        max_file_bytes: options.number("max_file_bytes")?,
        allow_fuse: options.yes("allow_fuse")?,
    })
}

fn etcd(place: &str, options: &mut Options) -> Result<EtcdUrl, StoreUrlError> {
    let hosts = authority("etcd", place)?;
    let endpoints = hosts.split(',').map(|host| endpoint("etcd", host)).collect::<Result<Vec<_>, _>>()?;
    let url = EtcdUrl {
        endpoints,
        trust: UrlTrust::take("etcd", options)?,
        timeout: options.millis("timeout_ms")?,
        max_request_bytes: options.number("max_request_bytes")?,
        unsafe_no_fsync: options.yes("unsafe_no_fsync")?,
    };
    if url.trust.password_file.is_some() && url.trust.user.is_none() {
        return err("the etcd URL has password_file without user; give both".into());
    }
    Ok(url)
}

/// What stands between `scheme://` and the options, without a slash at its end.
fn authority<'a>(scheme: &str, place: &'a str) -> Result<&'a str, StoreUrlError> {
    let Some(hosts) = place.strip_prefix("//") else {
        return err(format!("{scheme}:{place} names no host; use {scheme}://HOST:PORT"));
    };
    if hosts.contains('@') {
        return err(format!(
            "the {scheme} URL holds a user or password, which others can see; use ?user=NAME&password_file=PATH"
        ));
    }
    Ok(hosts.trim_end_matches('/'))
}

fn endpoint(store: &str, text: &str) -> Result<String, StoreUrlError> {
    let port = if store == "etcd" { 2379 } else { 6379 };
    let wrong =
        || StoreUrlError(format!("the {store} endpoint {text:?} is not HOST:PORT; write for example 127.0.0.1:{port}"));
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    if host.is_empty() || host.contains('/') || port == 0 {
        return Err(wrong());
    }
    Ok(text.to_owned())
}

/// Options not yet taken by a backend.
struct Options(BTreeMap<String, String>);

impl Options {
    fn parse(scheme: &str, query: &str) -> Result<Self, StoreUrlError> {
        let mut options = BTreeMap::new();
        for part in query.split('&').filter(|p| !p.is_empty()) {
            let Some((name, value)) = part.split_once('=').filter(|(_, v)| !v.is_empty()) else {
                return err(format!("the {scheme} URL option {part:?} has no value; write NAME=VALUE"));
            };
            if name == "password" {
                return err("the store URL holds a password, which others can see; use password_file=PATH".into());
            }
            let value = percent_encoding::percent_decode_str(value)
                .decode_utf8()
                .map_err(|_| StoreUrlError(format!("the {scheme} URL option {name:?} is not UTF-8 once decoded")))?;
            if options.insert(name.to_owned(), value.into_owned()).is_some() {
                return err(format!("the {scheme} URL has the option {name:?} twice; keep one"));
            }
        }
        Ok(Self(options))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    fn number(&mut self, name: &str) -> Result<Option<usize>, StoreUrlError> {
        let Some(text) = self.take(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) if number > 0 => Ok(Some(number)),
            _ => err(format!("the store URL option {name}={text} is no whole number above 0")),
        }
    }

    fn yes(&mut self, name: &str) -> Result<bool, StoreUrlError> {
        match self.take(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(text) => err(format!("the store URL option {name}={text} is neither true nor false")),
        }
    }

    fn millis(&mut self, name: &str) -> Result<Option<Duration>, StoreUrlError> {
        Ok(self.number(name)?.map(|ms| Duration::from_millis(ms as u64)))
    }

    fn finish(self, url: &StoreUrl) -> Result<(), StoreUrlError> {
        let Some(name) = self.0.into_keys().next() else { return Ok(()) };
        let known = url.known_options();
        let guess = suggestion(&name, known.iter().copied());
        let known =
            if known.is_empty() { "it takes none".to_owned() } else { format!("it takes {}", known.join(", ")) };
        err(format!("the {} URL has the unknown option {name:?}; {known}{guess}", url.scheme()))
    }
}

impl StoreUrl {
    /// The scheme.
    pub(crate) const fn scheme(&self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite(_) => "sqlite",
            Self::Etcd(_) => "etcd",
            Self::Redis(url) => url.scheme(),
        }
    }

    fn known_options(&self) -> Vec<&'static str> {
        match self {
            Self::Memory => Vec::new(),
            Self::Sqlite(_) => vec!["busy_timeout_ms", "max_file_bytes", "allow_fuse"],
            Self::Etcd(_) => [&UrlTrust::OPTIONS[..], &["timeout_ms", "max_request_bytes", "unsafe_no_fsync"]].concat(),
            Self::Redis(url) => url.known_options(),
        }
    }
}

/// Without options: for reports.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Sqlite(url) => {
                write!(f, "sqlite:{}{}", if url.path.is_absolute() { "//" } else { "" }, url.path.display())
            }
            Self::Etcd(url) => write!(f, "etcd://{}", url.endpoints.join(",")),
            Self::Redis(url) => f.write_str(&url.place()),
        }
    }
}

fn err<T>(sentence: String) -> Result<T, StoreUrlError> {
    Err(StoreUrlError(sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_urls() {
        assert_eq!("memory:".parse(), Ok(StoreUrl::Memory));
        let Ok(StoreUrl::Sqlite(url)) = "sqlite:///a%20b/log.db?busy_timeout_ms=7".parse() else { panic!() };
        assert_eq!((url.path, url.busy_timeout), (PathBuf::from("/a b/log.db"), Some(Duration::from_millis(7))));
        assert_eq!("sqlite:log.db".parse::<StoreUrl>().unwrap().to_string(), "sqlite:log.db");
        let Ok(StoreUrl::Etcd(url)) = "etcd://h1:1,[::1]:2379?ca=/ca&user=u&password_file=/p".parse() else { panic!() };
        assert_eq!(url.endpoints, ["h1:1", "[::1]:2379"]);
        assert_eq!((url.trust.user.as_deref(), url.trust.ca), (Some("u"), Some(PathBuf::from("/ca"))));
    }

    #[test]
    fn bad_urls_name_the_thing_and_the_remedy() {
        for (url, thing, remedy) in [
            ("log.db", "no scheme", "use sqlite:///"),
            ("", "no scheme", "use sqlite:///"),
            ("sqllite:///x", "\"sqllite\"", "did you mean `sqlite`?"),
            ("mysql://h:1", "\"mysql\"", "use sqlite:///"),
            ("memory://x", "\"//x\"", "use memory:"),
            ("memory:?a=1", "\"a\"", "takes none"),
            ("sqlite://", "names a host", "sqlite:///ABSOLUTE"),
            ("sqlite:", "no file", "sqlite:///PATH"),
            ("sqlite:///", "no file", "sqlite:///PATH"),
            ("sqlite://host/x", "names a host", "sqlite:///ABSOLUTE"),
            ("sqlite:///x?busy_timeout=1", "\"busy_timeout\"", "did you mean `busy_timeout_ms`?"),
            ("sqlite:///x?busy_timeout_ms=0", "busy_timeout_ms=0", "above 0"),
            ("sqlite:///x?busy_timeout_ms", "no value", "NAME=VALUE"),
            ("sqlite:///x?busy_timeout_ms=1&busy_timeout_ms=2", "twice", "keep one"),
            ("sqlite:///x?allow_fuse=yes", "allow_fuse=yes", "true nor false"),
            ("etcd:h:1", "no host", "etcd://HOST:PORT"),
            ("etcd://", "\"\"", "127.0.0.1:2379"),
            ("etcd://h", "\"h\"", "127.0.0.1:2379"),
            ("etcd://h:0", "\"h:0\"", "127.0.0.1:2379"),
            ("etcd://h:1,,h:2", "\"\"", "127.0.0.1:2379"),
            ("etcd://h:99999", "\"h:99999\"", "127.0.0.1:2379"),
            ("etcd://u:p@h:1", "password", "password_file"),
            ("etcd://h:1?password=x", "password", "password_file"),
            ("etcd://h:1?user=x", "user without", "give both"),
            ("etcd://h:1?password_file=x", "without user", "give both"),
            ("etcd://h:1?ca=x&cert=y", "one of cert", "both or none"),
            ("etcd://h:1?cert=x&key=y", "without ca", "ca=PATH"),
            ("etcd://h:1?timeout_ms=soon", "timeout_ms=soon", "whole number"),
            ("etcd://h:1?timout_ms=5", "\"timout_ms\"", "did you mean `timeout_ms`?"),
        ] {
            let error = url.parse::<StoreUrl>().expect_err(url).to_string();
            assert!(error.contains(thing) && error.contains(remedy), "{url}: {error}");
            assert!(!error.contains('\n'), "{url}: {error}");
        }
    }
}
