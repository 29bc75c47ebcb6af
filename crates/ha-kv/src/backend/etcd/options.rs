//! Owns the etcd backend's settings and their check. It opens no connection.

use std::time::Duration;

use crate::backend::secret::Secret;
use crate::backend::tls::Tls;
use crate::{Capabilities, DurableAck, KvError, KvErrorKind};

/// What the requests of one transaction need beyond keys and values: headers and field tags of at most 128 + 128 operations.
const REQUEST_OVERHEAD_BYTES: usize = 8 << 10;
/// Below this a server is not usable: the overhead alone would fill it.
const MIN_REQUEST_BYTES: usize = 16 << 10;

/// How to reach an etcd cluster, and what it is configured to do where it cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdOptions {
    /// Members as `http://host:port` or `https://host:port`, all of one cluster. Calls go to one at a time; a member that does
    /// not answer is left for the next one.
    pub endpoints: Vec<String>,
    /// User and password, if the cluster asks for them.
    pub credentials: Option<EtcdCredentials>,
    /// TLS. Present exactly if the endpoints are `https://`.
    pub tls: Option<Tls>,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Longest wait for one call, connection and authentication included. A write that is cut off by it has an unknown outcome.
    pub request_timeout: Duration,
    /// Pause between signs of life asked of a watch, and between pings of a connection, but those are never less than 10 s apart.
    pub keep_alive: Duration,
    /// The server's `--max-request-bytes`. It cannot be asked; connecting verifies it with one padded request that changes nothing.
    pub max_request_bytes: usize,
    /// The server's `--max-txn-ops`.
    pub max_txn_ops: usize,
    /// Largest reply this client decodes. Larger ranges are read in pages.
    pub max_reply_bytes: usize,
    /// The only cluster to accept, by the id in etcd's response headers. `None` accepts the one met first, then only that one.
    pub cluster_id: Option<u64>,
    /// Whether the servers sync their log to disk before they answer: `false` for `--unsafe-no-fsync`. It cannot be asked.
    pub server_fsync: bool,
}

/// A user of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdCredentials {
    /// The name.
    pub user: String,
    /// The password; never printed.
    pub password: Secret,
}

impl Default for EtcdOptions {
    /// No endpoint yet, no TLS, no user, the limits of an etcd started without flags.
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            credentials: None,
            tls: None,
            connect_timeout: Duration::from_secs(1),
            request_timeout: Duration::from_secs(2),
            keep_alive: Duration::from_secs(2),
            max_request_bytes: 3 << 19,
            max_txn_ops: 128,
            max_reply_bytes: 4 << 20,
            cluster_id: None,
            server_fsync: true,
        }
    }
}

impl EtcdOptions {
    /// The default options with these endpoints.
    #[must_use]
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> Self {
        Self { endpoints: endpoints.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Checks the settings as a whole.
    ///
    /// # Errors
    /// `InvalidArgument` with one sentence that names the setting and the remedy.
    pub fn validate(&self) -> Result<(), KvError> {
        self.problem().map_or(Ok(()), |sentence| Err(KvError::read(KvErrorKind::InvalidArgument, sentence)))
    }

    /// Keys and values that fit one request.
    pub(super) fn max_txn_bytes(&self) -> usize {
        self.max_request_bytes.saturating_sub(REQUEST_OVERHEAD_BYTES)
    }

    /// What a store with these settings can promise.
    pub(super) fn capabilities(&self) -> Capabilities {
        let durable_ack = if self.server_fsync {
            DurableAck::Yes
        } else {
            let reason =
                "the etcd servers run with --unsafe-no-fsync; start them without it to keep acknowledged writes";
            DurableAck::No { reason: reason.into() }
        };
        Capabilities {
            backend: "etcd",
            txn: true,
            durable_ack,
            linearizable_read: true,
            max_value_bytes: self.max_txn_bytes(),
            max_txn_bytes: self.max_txn_bytes(),
            max_txn_ops: self.max_txn_ops,
            max_reply_bytes: self.max_reply_bytes,
        }
    }

    fn problem(&self) -> Option<String> {
        self.endpoint_problem().or_else(|| self.tls_problem()).or_else(|| self.limit_problem())
    }

    fn endpoint_problem(&self) -> Option<String> {
        if self.endpoints.is_empty() {
            return Some(
                "no etcd endpoint is given; name at least one as http://host:port or https://host:port".into(),
            );
        }
        for (at, endpoint) in self.endpoints.iter().enumerate() {
            let Some((scheme, authority)) = endpoint.split_once("://") else {
                return Some(format!(
                    "the etcd endpoint {endpoint:?} has no scheme; write http://host:port or https://host:port"
                ));
            };
            if !matches!(scheme, "http" | "https") {
                return Some(format!(
                    "the etcd endpoint {endpoint:?} has the scheme {scheme:?}; http and https are known"
                ));
            }
            let port = authority.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
            if port.and_then(|p| p.parse::<u16>().ok()).is_none_or(|p| p == 0)
                || authority.contains(['/', '@', '?', '#', ' '])
            {
                return Some(format!(
                    "the etcd endpoint {endpoint:?} is not host:port after its scheme, like http://10.0.0.7:2379"
                ));
            }
            if self.endpoints.iter().take(at).any(|earlier| earlier == endpoint) {
                return Some(format!("the etcd endpoint {endpoint:?} is given twice; name every member once"));
            }
        }
        None
    }

    fn tls_problem(&self) -> Option<String> {
        let plain = self.endpoints.iter().find(|e| e.starts_with("http://"));
        let secure = self.endpoints.iter().find(|e| e.starts_with("https://"));
        let Some(tls) = &self.tls else {
            return secure.map(|e| {
                format!("the etcd endpoint {e:?} asks for TLS but no TLS is configured; give the CA certificate")
            });
        };
        if let Some(endpoint) = plain {
            return Some(format!(
                "TLS is configured but the etcd endpoint {endpoint:?} is plain text; write https:// or remove TLS"
            ));
        }
        tls.problem("etcd")
    }

    fn limit_problem(&self) -> Option<String> {
        if self.connect_timeout.is_zero() || self.request_timeout.is_zero() || self.keep_alive.is_zero() {
            return Some("the timeouts and the keep-alive pause of etcd must be longer than zero".into());
        }
        if self.connect_timeout > self.request_timeout {
            return Some(format!(
                "etcd's connect timeout ({:?}) is longer than its request timeout ({:?}); a call includes its connection",
                self.connect_timeout, self.request_timeout
            ));
        }
        if self.max_request_bytes < MIN_REQUEST_BYTES {
            return Some(format!(
                "etcd's max_request_bytes is {}; at least {MIN_REQUEST_BYTES} are needed",
                self.max_request_bytes
            ));
        }
        if self.max_reply_bytes < self.max_request_bytes {
            return Some(format!(
                "etcd's max_reply_bytes ({}) is below max_request_bytes ({}): what was written could not be read back",
                self.max_reply_bytes, self.max_request_bytes
            ));
        }
        if self.max_txn_ops == 0 {
            return Some("etcd's max_txn_ops is 0; the server's default is 128".into());
        }
        if self.credentials.as_ref().is_some_and(|c| c.user.is_empty()) {
            return Some("the etcd user has no name; give user and password, or neither".into());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem_of(change: impl FnOnce(&mut EtcdOptions)) -> String {
        let mut options = EtcdOptions::new(["http://127.0.0.1:2379"]);
        change(&mut options);
        let error = options.validate().expect_err("the options are refused");
        assert_eq!(error.kind, KvErrorKind::InvalidArgument);
        error.message
    }

    fn tls() -> Tls {
        Tls { ca_pem: "-----BEGIN CERTIFICATE-----\n".into(), identity: None, domain: None }
    }

    #[test]
    fn defaults_with_an_endpoint_are_valid() {
        EtcdOptions::new(["http://127.0.0.1:2379", "http://[::1]:2379"]).validate().unwrap();
    }

    #[test]
    fn endpoints_are_checked_and_named() {
        assert!(problem_of(|o| o.endpoints.clear()).contains("no etcd endpoint"));
        for bad in [
            "127.0.0.1:2379",
            "ftp://h:1",
            "http://h",
            "http://:2379",
            "http://h:0",
            "http://h:99999",
            "http://h:1/path",
            "http://u@h:1",
        ] {
            assert!(problem_of(|o| o.endpoints = vec![bad.into()]).contains(bad), "{bad}");
        }
        assert!(problem_of(|o| o.endpoints.push("http://127.0.0.1:2379".into())).contains("twice"));
    }

    #[test]
    fn half_configured_tls_is_refused() {
        assert!(problem_of(|o| o.tls = Some(tls())).contains("plain text"));
        assert!(problem_of(|o| o.endpoints = vec!["https://h:1".into()]).contains("no TLS is configured"));
        assert!(
            problem_of(|o| {
                o.endpoints = vec!["https://h:1".into(), "http://h:2".into()];
                o.tls = Some(tls());
            })
            .contains("http://h:2")
        );
        let garbage = Tls { ca_pem: "garbage".into(), ..tls() };
        let text = problem_of(|o| (o.endpoints, o.tls) = (vec!["https://h:1".into()], Some(garbage)));
        assert!(text.contains("CA file of etcd"), "{text}");
    }

    #[test]
    fn limits_and_timeouts_are_checked() {
        assert!(problem_of(|o| o.request_timeout = Duration::ZERO).contains("longer than zero"));
        assert!(problem_of(|o| o.connect_timeout = Duration::from_secs(9)).contains("connect timeout"));
        assert!(problem_of(|o| o.max_request_bytes = 1).contains("max_request_bytes"));
        assert!(problem_of(|o| o.max_request_bytes = 5 << 20).contains("read back"));
        assert!(problem_of(|o| o.max_txn_ops = 0).contains("max_txn_ops"));
        let nobody = EtcdCredentials { user: String::new(), password: "p".into() };
        assert!(problem_of(|o| o.credentials = Some(nobody)).contains("no name"));
    }

    #[test]
    fn a_server_that_does_not_sync_is_not_durable() {
        let options = EtcdOptions::new(["http://127.0.0.1:2379"]);
        assert!(options.capabilities().durable_ack.is_yes());
        assert!(!EtcdOptions { server_fsync: false, ..options }.capabilities().durable_ack.is_yes());
    }

    #[test]
    fn secrets_are_not_in_debug() {
        let mut options = EtcdOptions::new(["https://h:1"]);
        options.credentials = Some(EtcdCredentials { user: "root".into(), password: "hunter2".into() });
        let shown = format!("{options:?}");
        assert!(shown.contains("root") && !shown.contains("hunter"), "{shown}");
    }
}
