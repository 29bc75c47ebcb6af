//! Owns the configuration of a node: the settings there are, the layers they come from, and their check as a whole.

mod build;
mod error;
mod layers;
mod secret;
mod settings;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ha_types::ClusterId;
use oplog_core::{TakeOver, WriterConfig};
use standby::LegacyConfig;

pub(crate) use error::ConfigError;
pub(crate) use layers::Layers;
pub(crate) use secret::Secret;
pub(crate) use settings::{BATCH_MAX_BYTES, BATCH_MAX_BYTES_RANGE, SETTINGS};

use crate::node_name::NodeName;
use crate::store_url::StoreUrl;

/// A checked configuration.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// This node's name, unique in its cluster.
    pub(crate) node: NodeName,
    /// The cluster.
    pub(crate) cluster: ClusterId,
    /// Where the log and the election live.
    pub(crate) store: StoreUrl,
    /// Whether a store that may lose acknowledged writes is taken.
    pub(crate) accept_lost_writes: bool,
    /// Whether a log that Mooncake writes is taken over, and how.
    pub(crate) take_over: Option<TakeOver>,
    /// How long the clients of Mooncake's primary may use what it granted them.
    pub(crate) mooncake_quarantine: Duration,
    /// Where gRPC listens.
    pub(crate) listen: SocketAddr,
    /// Where other machines reach gRPC, if not at `listen`.
    pub(crate) advertise: Option<String>,
    /// Where the admin HTTP listens.
    pub(crate) admin_listen: SocketAddr,
    /// TLS of the gRPC server.
    pub(crate) tls: Option<TlsFiles>,
    /// What every gRPC call must carry.
    pub(crate) token: Option<Secret>,
    /// The root of the log's keys.
    pub(crate) oplog_root: String,
    /// The legacy per-entry log, where that is followed too.
    pub(crate) legacy: Option<LegacyConfig>,
    /// The ordered writer.
    pub(crate) writer: WriterConfig,
    /// The election.
    pub(crate) leadership: LeadershipSettings,
    /// The follower.
    pub(crate) standby: StandbySettings,
    /// Most time from SIGTERM to the end of the last call.
    pub(crate) drain: Duration,
}

/// TLS of the gRPC server.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    /// Our certificate chain, PEM.
    pub(crate) cert: PathBuf,
    /// Its key, PEM.
    pub(crate) key: PathBuf,
    /// What signs the clients' certificates; without it clients need none.
    pub(crate) client_ca: Option<PathBuf>,
}

/// The election.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeadershipSettings {
    /// How long leadership outlives the last keep-alive.
    pub(crate) ttl: Duration,
    /// How much earlier a leader stops by its own clock.
    pub(crate) margin: Duration,
}

/// The follower.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StandbySettings {
    /// The pause between two looks when no hint comes.
    pub(crate) poll_interval: Duration,
    /// A standby campaigns only when at most so many entries behind.
    pub(crate) campaign_max_lag: u64,
}
