//! Owns the Redis backend's settings and their check. It opens no connection.

use std::time::Duration;

use crate::backend::secret::Secret;
use crate::backend::tls::Tls;
use crate::{KvError, KvErrorKind};

/// Longest namespace.
const MAX_NAMESPACE_BYTES: usize = 128;
/// What Redis takes as one value whatever it is set to: the least `proto-max-bulk-len`.
const LEAST_VALUE_LIMIT: usize = 1 << 20;
/// The largest value that Redis can be set to take.
const MOST_VALUE_BYTES: usize = 512 << 20;

/// How to reach a Redis server, and how much to send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisOptions {
    /// Where it is.
    pub servers: RedisServers,
    /// What the keys in Redis begin with, between braces: `{plimsoll}:values`. All keys of a store have one hash tag, so that they
    /// lie in one slot. `[A-Za-z0-9_.-]{1,128}`.
    pub namespace: String,
    /// The number of the database; 0 in a cluster.
    pub database: u32,
    /// ACL user and password, if the server asks for them.
    pub credentials: Option<RedisCredentials>,
    /// TLS; `None` speaks plain text.
    pub tls: Option<Tls>,
    /// Longest wait for a connection, TLS included.
    pub connect_timeout: Duration,
    /// Longest wait for one call, connection included. A write that is cut off by it has an unknown outcome.
    pub request_timeout: Duration,
    /// How often the store is asked for changes while somebody watches.
    pub watch_interval: Duration,
    /// Largest transaction, keys and values together, in bytes; also the largest value.
    pub max_txn_bytes: usize,
    /// Most operations of a transaction.
    pub max_txn_ops: usize,
    /// Largest page of a range read, in bytes.
    pub max_reply_bytes: usize,
}

/// Which servers, as `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisServers {
    /// One server. The only form that can be durable.
    Single(String),
    /// Whichever server these sentinels call the master. Never durable: a failover loses acknowledged writes.
    Sentinel {
        /// The sentinels, asked in turn: first the one whose answer was last of use, to begin with the first.
        sentinels: Vec<String>,
        /// The name that they know the master by.
        master: String,
        /// User and password of the sentinels themselves, if they ask for them.
        credentials: Option<RedisCredentials>,
    },
    /// Whichever node of this cluster serves the namespace's slot. Never durable: a failover loses acknowledged writes.
    Cluster(Vec<String>),
}

/// A user of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisCredentials {
    /// The ACL user; `None` is the default user, who has a password only (`requirepass`).
    pub user: Option<String>,
    /// The password; never printed.
    pub password: Secret,
}

impl RedisServers {
    /// The addresses that the operator named.
    pub(super) fn addresses(&self) -> &[String] {
        match self {
            Self::Single(server) => std::slice::from_ref(server),
            Self::Sentinel { sentinels: servers, .. } | Self::Cluster(servers) => servers,
        }
    }
}

impl RedisOptions {
    /// The default options with these servers: namespace `plimsoll`, database 0, no user, no TLS.
    #[must_use]
    pub fn new(servers: RedisServers) -> Self {
        Self {
            servers,
            namespace: "plimsoll".into(),
            database: 0,
            credentials: None,
            tls: None,
            connect_timeout: Duration::from_secs(1),
            request_timeout: Duration::from_secs(2),
            watch_interval: Duration::from_millis(5),
            max_txn_bytes: 16 << 20,
            max_txn_ops: 1024,
            max_reply_bytes: 4 << 20,
        }
    }

    /// The default options with one server.
    #[must_use]
    pub fn single(server: impl Into<String>) -> Self {
        Self::new(RedisServers::Single(server.into()))
    }

    /// Checks the settings as a whole.
    ///
    /// # Errors
    /// `InvalidArgument` with one sentence that names the setting and the remedy.
    pub fn validate(&self) -> Result<(), KvError> {
        let problem = self.server_problem().or_else(|| self.trust_problem()).or_else(|| self.limit_problem());
        problem.map_or(Ok(()), |sentence| Err(KvError::read(KvErrorKind::InvalidArgument, sentence)))
    }

    fn server_problem(&self) -> Option<String> {
        let addresses = self.servers.addresses();
        if addresses.is_empty() {
            return Some("no Redis server is named; give at least one as host:port".into());
        }
        for (at, address) in addresses.iter().enumerate() {
            let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
            if port.and_then(|p| p.parse::<u16>().ok()).is_none_or(|p| p == 0)
                || address.contains(['/', '@', '?', '#', ' '])
            {
                return Some(format!("the Redis server {address:?} is not host:port, like 10.0.0.7:6379"));
            }
            if addresses.iter().take(at).any(|earlier| earlier == address) {
                return Some(format!("the Redis server {address:?} is given twice; name every server once"));
            }
        }
        if let RedisServers::Sentinel { master, .. } = &self.servers
            && (master.is_empty() || master.chars().any(|c| c.is_whitespace() || c.is_control()))
        {
            return Some(format!("the Sentinel master {master:?} is no name; give the one in `sentinel monitor`"));
        }
        if matches!(self.servers, RedisServers::Cluster(_)) && self.database != 0 {
            return Some(format!(
                "the database index is {}, but a Redis cluster has database 0 only; leave it out",
                self.database
            ));
        }
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        if self.namespace.is_empty()
            || self.namespace.len() > MAX_NAMESPACE_BYTES
            || !self.namespace.bytes().all(allowed)
        {
            return Some(format!(
                "the Redis namespace {:?} is not 1 to {MAX_NAMESPACE_BYTES} of A-Z a-z 0-9 _ . -",
                self.namespace
            ));
        }
        None
    }

    fn trust_problem(&self) -> Option<String> {
        let sentinels = match &self.servers {
            RedisServers::Sentinel { credentials, .. } => credentials.as_ref(),
            _ => None,
        };
        for credentials in self.credentials.iter().chain(sentinels) {
            if credentials.user.as_ref().is_some_and(String::is_empty) {
                return Some("the Redis user has no name; give a name, or none for the default user".into());
            }
            if credentials.password.expose().is_empty() {
                return Some("the Redis password is empty; give one, or no credentials at all".into());
            }
        }
        self.tls.as_ref()?.problem("Redis")
    }

    fn limit_problem(&self) -> Option<String> {
        if self.connect_timeout.is_zero() || self.request_timeout.is_zero() {
            return Some("the timeouts of Redis must be longer than zero".into());
        }
        if self.connect_timeout > self.request_timeout {
            return Some(format!(
                "Redis' connect timeout ({:?}) is longer than its request timeout ({:?}); a call includes its connection",
                self.connect_timeout, self.request_timeout
            ));
        }
        if self.watch_interval < Duration::from_millis(1) {
            return Some("the Redis watch interval is below a millisecond; raise it".into());
        }
        if !(LEAST_VALUE_LIMIT..=MOST_VALUE_BYTES).contains(&self.max_txn_bytes) {
            return Some(format!(
                "Redis' max_txn_bytes is {}; it must be between {LEAST_VALUE_LIMIT} and {MOST_VALUE_BYTES}",
                self.max_txn_bytes
            ));
        }
        if self.max_txn_ops == 0 || self.max_txn_ops > 16 << 10 {
            return Some(format!("Redis' max_txn_ops is {}; it must be between 1 and 16384", self.max_txn_ops));
        }
        if self.max_reply_bytes < LEAST_VALUE_LIMIT {
            return Some(format!(
                "Redis' max_reply_bytes is {}; it must be at least {LEAST_VALUE_LIMIT}",
                self.max_reply_bytes
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem_of(change: impl FnOnce(&mut RedisOptions)) -> String {
        let mut options = RedisOptions::single("127.0.0.1:6379");
        change(&mut options);
        let error = options.validate().expect_err("the options are refused");
        assert_eq!(error.kind, KvErrorKind::InvalidArgument);
        error.message
    }

    fn sentinels(master: &str) -> RedisServers {
        let (sentinels, master) = (vec!["h:1".into()], master.into());
        RedisServers::Sentinel { sentinels, master, credentials: None }
    }

    #[test]
    fn defaults_with_a_server_are_valid() {
        for servers in
            [RedisServers::Single("[::1]:6379".into()), sentinels("main"), RedisServers::Cluster(vec!["h:1".into()])]
        {
            RedisOptions::new(servers).validate().unwrap();
        }
    }

    #[test]
    fn servers_are_checked_and_named() {
        for bad in ["h", ":1", "h:0", "h:99999", "redis://h:1", "u@h:1", "h:1/0"] {
            assert!(problem_of(|o| o.servers = RedisServers::Single(bad.into())).contains(bad), "{bad}");
        }
        assert!(problem_of(|o| o.servers = RedisServers::Cluster(vec![])).contains("no Redis server"));
        let twice = vec!["h:1".to_owned(), "h:1".to_owned()];
        assert!(problem_of(|o| o.servers = RedisServers::Cluster(twice)).contains("twice"));
        assert!(problem_of(|o| o.servers = sentinels("")).contains("Sentinel master"));
    }

    #[test]
    fn a_database_index_in_a_cluster_is_refused() {
        let text = problem_of(|o| (o.servers, o.database) = (RedisServers::Cluster(vec!["h:1".into()]), 3));
        assert!(text.contains("database index is 3") && text.contains("leave it out"), "{text}");
    }

    #[test]
    fn a_namespace_that_could_split_the_slot_is_refused() {
        for bad in ["", "a}b", "{a}", "a b", "a:b", &"n".repeat(129)] {
            assert!(problem_of(|o| o.namespace = bad.into()).contains("namespace"), "{bad}");
        }
    }

    #[test]
    fn half_configured_trust_is_refused() {
        let garbage = Tls { ca_pem: "x".into(), identity: None, domain: None };
        assert!(problem_of(|o| o.tls = Some(garbage)).contains("CA file of Redis"));
        let credentials = |user: Option<&str>, password: &str| {
            Some(RedisCredentials { user: user.map(Into::into), password: password.into() })
        };
        assert!(problem_of(|o| o.credentials = credentials(Some(""), "x")).contains("no name"));
        assert!(problem_of(|o| o.credentials = credentials(None, "")).contains("password is empty"));
    }

    #[test]
    fn limits_that_cannot_work_are_refused() {
        assert!(problem_of(|o| o.request_timeout = Duration::ZERO).contains("longer than zero"));
        assert!(problem_of(|o| o.request_timeout = Duration::from_millis(1)).contains("connect timeout"));
        assert!(problem_of(|o| o.watch_interval = Duration::ZERO).contains("watch interval"));
        assert!(problem_of(|o| o.max_txn_bytes = 1000).contains("max_txn_bytes is 1000"));
        assert!(problem_of(|o| o.max_txn_ops = 0).contains("max_txn_ops is 0"));
        assert!(problem_of(|o| o.max_reply_bytes = 1).contains("max_reply_bytes is 1"));
    }

    #[test]
    fn secrets_are_never_printed() {
        let mut options = RedisOptions::single("127.0.0.1:6379");
        options.credentials = Some(RedisCredentials { user: Some("u".into()), password: "sesame".into() });
        assert!(!format!("{options:?}").contains("sesame"));
    }
}
