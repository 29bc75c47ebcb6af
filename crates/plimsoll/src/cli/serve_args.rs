//! Owns the flags of `serve`. Each is a setting; what is not given comes from the environment, the file or the defaults.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Config, ConfigError, Layers};

/// The flags of `serve`.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// TOML file with settings; flags and PLIMSOLL_* variables win over it
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_CONFIG")]
    config: Option<PathBuf>,
    /// Name of this node, unique in its cluster
    #[arg(long)]
    node: Option<String>,
    /// Cluster id
    #[arg(long)]
    cluster: Option<String>,
    /// Where the log and the election live: sqlite:///PATH, etcd://HOST:PORT[,...], redis://HOST:PORT or memory:
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Take a store that may lose acknowledged writes, such as memory:
    #[arg(long)]
    accept_lost_writes: bool,
    /// Take the log over from Mooncake, for good; without this a log that Mooncake writes is only followed
    #[arg(long)]
    take_over_mooncake: bool,
    /// Mooncake's primary has stopped, though its election key exists or it wrote a moment ago
    #[arg(long)]
    old_primary_stopped: bool,
    /// Follow a legacy per-entry log too, until `plimsoll oplog cutover` and through its base afterwards
    #[arg(long)]
    legacy: bool,
    /// Address of the gRPC server; port 0 picks a free one and prints it
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<String>,
    /// Where clients reach the gRPC server, if not at --listen
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// Address of the admin HTTP server
    #[arg(long, value_name = "IP:PORT")]
    admin_listen: Option<String>,
    /// Allow plain text on addresses other than loopback
    #[arg(long)]
    insecure: bool,
    /// Certificate chain of the gRPC server, PEM
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// Its key, PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// What signs the clients' certificates, PEM; makes them mandatory
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<String>,
    /// File with the token that every gRPC call must carry
    #[arg(long, value_name = "FILE")]
    token_file: Option<String>,
    /// How long leadership outlives the last keep-alive
    #[arg(long, value_name = "MS")]
    ttl_ms: Option<String>,
    /// End when this process, the parent, ends
    #[arg(long, value_name = "PID", hide = true)]
    pub(super) die_with_parent: Option<u32>,
    /// Any other setting; see `plimsoll config check --list`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl ServeArgs {
    /// All layers put on each other.
    pub(super) fn layers(&self) -> Result<Layers, ConfigError> {
        let mut layers = Layers::defaults();
        if let Some(file) = &self.config {
            layers.file(file)?;
        }
        layers.env(std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))))?;
        for set in &self.set {
            let (key, value) = set.split_once('=').unwrap_or((set, ""));
            layers.flag(key, value)?;
        }
        let texts = [
            ("node", &self.node),
            ("cluster", &self.cluster),
            ("store", &self.store),
            ("listen", &self.listen),
            ("advertise", &self.advertise),
            ("admin_listen", &self.admin_listen),
            ("tls.cert", &self.tls_cert),
            ("tls.key", &self.tls_key),
            ("tls.client_ca", &self.tls_client_ca),
            ("token_file", &self.token_file),
            ("leadership.ttl_ms", &self.ttl_ms),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                layers.flag(key, text)?;
            }
        }
        let flags = [
            ("accept_lost_writes", self.accept_lost_writes),
            ("take_over_mooncake", self.take_over_mooncake),
            ("old_primary_stopped", self.old_primary_stopped),
            ("oplog.legacy", self.legacy),
            ("insecure", self.insecure),
        ];
        for (key, given) in flags {
            if given {
                layers.flag(key, "true")?;
            }
        }
        Ok(layers)
    }

    /// The checked configuration.
    pub(super) fn config(&self) -> Result<Config, ConfigError> {
        self.layers()?.build()
    }
}
