//! Owns the channel to one member and its admission: authenticated, of the right cluster, recent enough.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Identity, KvClient, LeaseClient, TlsOptions, WatchClient};
use parking_lot::RwLock;
use tokio::sync::Mutex;

use super::error::{Access, Failure, FollowUp};
use super::options::EtcdOptions;
use crate::backend::tls::Tls;
use crate::{Effect, KvError, KvErrorKind};

/// The oldest server that is known to work.
const OLDEST: (u32, u32) = (3, 4);

/// Least pause between pings of a connection with a stream. The server ends connections that ping more often than every 5 s
/// (`--grpc-keepalive-min-time`), or at all while they have no stream.
const PING_PAUSE: Duration = Duration::from_secs(10);

/// One member of the cluster.
pub(super) struct Member {
    pub(super) endpoint: String,
    client: RwLock<Client>,
    /// Whether the member may be used without admitting it first.
    admitted: AtomicBool,
    /// Whether its connection is to be left behind: a silent one may be dead long before the kernel says so.
    silent: AtomicBool,
    admitting: Mutex<()>,
}

impl Member {
    /// A member that is connected to when it is first used.
    pub(super) async fn new(endpoint: &str, options: &EtcdOptions) -> Result<Self, KvError> {
        let client = channel(endpoint, options).await.map_err(|e| {
            let text = format!("the endpoint {endpoint} or its certificates cannot be used: {e:?}");
            KvError::read(KvErrorKind::InvalidArgument, text).with_source(e)
        })?;
        Ok(Self {
            endpoint: endpoint.into(),
            client: RwLock::new(client),
            admitted: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            admitting: Mutex::new(()),
        })
    }

    pub(super) fn kv(&self, options: &EtcdOptions) -> KvClient {
        self.client.read().kv_client().max_decoding_message_size(options.max_reply_bytes)
    }

    pub(super) fn lease(&self) -> LeaseClient {
        self.client.read().lease_client()
    }

    pub(super) fn watch(&self, options: &EtcdOptions) -> WatchClient {
        self.client.read().watch_client().max_decoding_message_size(options.max_reply_bytes)
    }

    /// Makes the next call admit the member again, over a new connection if this one was silent.
    pub(super) fn dismiss(&self, silent: bool) {
        self.silent.fetch_or(silent, Ordering::AcqRel);
        self.admitted.store(false, Ordering::Release);
    }

    /// Authenticates and checks the member unless that was done since its last failure. Sends nothing that changes the store.
    pub(super) async fn admit(&self, options: &EtcdOptions, cluster_id: Option<u64>) -> Result<(), Failure> {
        if self.admitted.load(Ordering::Acquire) {
            return Ok(());
        }
        let _one_at_a_time = self.admitting.lock().await;
        if self.admitted.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.silent.swap(false, Ordering::AcqRel) {
            let client = channel(&self.endpoint, options).await;
            *self.client.write() = client.map_err(|e| Failure::of(e, Access::Read, &self.endpoint))?;
        }
        let found = self.inspect(options).await?;
        if let Some(expected) = cluster_id {
            self.check_cluster(expected, found, Access::Read)?;
        }
        self.admitted.store(true, Ordering::Release);
        Ok(())
    }

    /// Authenticates, and asks the member for its version and its cluster.
    pub(super) async fn inspect(&self, options: &EtcdOptions) -> Result<u64, Failure> {
        let refused = |e| Failure::of(e, Access::Read, &self.endpoint);
        let mut client = self.client.read().clone();
        if let Some(credentials) = &options.credentials {
            let user = Some((credentials.user.clone(), credentials.password.expose().to_owned()));
            client.update_user(user).await.map_err(refused)?;
        }
        let status = client.status().await.map_err(refused)?;
        self.check_version(status.version())?;
        Ok(status.header().map_or(0, etcd_client::ResponseHeader::cluster_id))
    }

    /// Fails if a reply came from another cluster.
    pub(super) fn check_cluster(&self, expected: u64, found: u64, access: Access) -> Result<(), Failure> {
        if found == expected {
            return Ok(());
        }
        let effect = if access == Access::Write { Effect::Unknown } else { Effect::NotApplied };
        let text = format!(
            "etcd at {} is of cluster {found:016x}, not {expected:016x}; name members of one cluster only",
            self.endpoint
        );
        Err(Failure::new(KvErrorKind::WrongStore, effect, FollowUp::Stay, text))
    }

    fn check_version(&self, version: &str) -> Result<(), Failure> {
        let mut parts = version.split('.').map(|p| p.parse::<u32>().ok());
        let found = parts.next().flatten().zip(parts.next().flatten());
        if found.is_some_and(|found| found >= OLDEST) {
            return Ok(());
        }
        let text =
            format!("etcd at {} has version {version:?}; {}.{} or later is needed", self.endpoint, OLDEST.0, OLDEST.1);
        Err(Failure::new(KvErrorKind::Unsupported, Effect::NotApplied, FollowUp::Stay, text))
    }
}

/// A channel that connects when it is first used.
async fn channel(endpoint: &str, options: &EtcdOptions) -> Result<Client, etcd_client::Error> {
    // The user is not given here: the library would authenticate at once and without a bound on the wait.
    let mut connect = ConnectOptions::new()
        .with_connect_timeout(options.connect_timeout)
        .with_keep_alive(options.keep_alive.max(PING_PAUSE), options.request_timeout)
        .with_keep_alive_while_idle(false)
        .with_tcp_keepalive(options.keep_alive)
        .with_require_leader(true)
        .with_auto_token_refresh(false);
    if let Some(tls) = &options.tls {
        connect = connect.with_tls(tls_options(tls));
    }
    Client::connect([endpoint], Some(connect)).await
}

fn tls_options(tls: &Tls) -> TlsOptions {
    let mut options = TlsOptions::new().ca_certificate(Certificate::from_pem(&tls.ca_pem));
    if let Some(identity) = &tls.identity {
        options = options.identity(Identity::from_pem(&identity.cert_pem, identity.key_pem.expose()));
    }
    if let Some(domain) = &tls.domain {
        options = options.domain_name(domain);
    }
    options
}
