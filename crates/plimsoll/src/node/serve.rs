//! Owns the life of a node as a process: ports, store, name, servers, then the way round, then the end in reverse order.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use bytes::Bytes;
use ha_types::{Clock, Entropy, SystemClock, SystemEntropy};
use leadership::{ElectionConfig, Elector};
use master::MasterConfig;
use oplog_core::BatchStorage;
use standby::StandbyConfig;

use super::cycle::Cycle;
use super::leader_lookup::LeaderLookup;
use super::shared::{NodeInfo, Shared};
use super::shutdown::{Ending, Shutdown};
use super::{name, start};
use crate::admin;
use crate::config::Config;
use crate::rpc::{self, GrpcServer};

/// Open connections may take so long to end after the last term.
const CONNECTIONS_END_WITHIN: Duration = Duration::from_secs(1);

/// Runs a node until it is told to end.
///
/// # Errors
/// One sentence that says why the node could not start or could not go on.
pub(crate) async fn serve(config: Config) -> anyhow::Result<()> {
    let shutdown = Shutdown::new();
    shutdown.on_signals()?;
    // Ports first: nothing else happens if one is taken.
    let grpc = GrpcServer::bind(config.listen, config.tls.as_ref(), config.token.clone()).await?;
    let pages = rpc::bind("admin_listen", config.admin_listen).await?;
    let address = config.advertise.clone().map_or_else(|| grpc.local_addr().map(|a| a.to_string()), Ok)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let election = election(&config);
    election.validate()?;
    let (standby, master) = (standby(&config), master(&config));
    standby.validate()?;
    master.validate().map_err(|e| anyhow!(e))?;

    let opened = tokio::select! {
        opened = start::open(&config, Arc::clone(&clock), Arc::clone(&entropy)) => opened?,
        _ = shutdown.wanted() => return Ok(()),
    };
    let (store, storage) = opened;
    config.writer.validate_for_log(&storage).map_err(|e| anyhow!(e))?;
    let named = (&config.cluster, &config.node);
    let env = (Arc::clone(&clock), Arc::clone(&entropy));
    let name = tokio::select! {
        name = name::take(&store, named, &address, election.clone(), env) => name?,
        _ = shutdown.wanted() => return Ok(()),
    };
    let elector = elector(&store, &storage, &address, election, &clock, &entropy)?;
    let info = NodeInfo { node: config.node.clone(), cluster: config.cluster.clone(), address: address.clone() };
    let shared = Arc::new(Shared::new(info, LeaderLookup::new(Arc::clone(&elector))));

    announce(&config, &address, &pages)?;
    let ended = Shutdown::new();
    let servers = [
        tokio::spawn(watched(grpc.run(Arc::clone(&shared), until(&ended)), shutdown.clone())),
        tokio::spawn(watched(admin::run(pages, Arc::clone(&shared), until(&ended)), shutdown.clone())),
    ];
    let name = tokio::spawn(name.keep(ended.clone(), shutdown.clone()));
    let cycle = Cycle {
        shared,
        store,
        storage,
        elector,
        standby,
        legacy: config.legacy.clone(),
        master,
        writer: config.writer.clone(),
        ttl: config.leadership.ttl,
        drain: config.drain,
        clock,
        entropy,
        shutdown: shutdown.clone(),
    };
    // Runs as a task of its own, so that a panic in it ends the process with an error and not the servers alone.
    let went = tokio::spawn(cycle.run()).await;
    shutdown.begin(Ending::Asked);
    ended.begin(Ending::Asked);
    for server in servers {
        // A connection that does not end does not hold the process: leadership is given up already.
        let _ = tokio::time::timeout(CONNECTIONS_END_WITHIN, server).await;
    }
    let _ = name.await;
    went.map_err(|e| anyhow!("the node's loop failed: {e}"))?;
    match shutdown.wanted().await {
        Ending::Asked => Ok(()),
        Ending::Fatal(why) => bail!(why),
    }
}

/// Says on standard output where the node listens: one JSON object, for scripts that gave port 0.
fn announce(config: &Config, address: &str, pages: &tokio::net::TcpListener) -> anyhow::Result<()> {
    let admin = pages.local_addr()?.to_string();
    let line = serde_json::json!({ "node": config.node.as_str(), "grpc": address, "admin": admin });
    outln!("{line}");
    tracing::info!(node = %config.node, cluster = %config.cluster, store = %config.store, grpc = address, admin, "listening");
    Ok(())
}

fn election(config: &Config) -> ElectionConfig {
    let (ttl, margin) = (config.leadership.ttl, config.leadership.margin);
    let default = ElectionConfig::default();
    ElectionConfig {
        ttl,
        margin,
        poll: default.poll.min(ttl / 4),
        request_timeout: default.request_timeout.min(ttl / 2),
        retry_min: default.retry_min.min(ttl / 8),
        ..default
    }
}

fn standby(config: &Config) -> StandbyConfig {
    let settings = config.standby;
    StandbyConfig {
        poll: settings.poll_interval,
        campaign_max_lag_entries: settings.campaign_max_lag,
        ..StandbyConfig::default()
    }
}

fn master(config: &Config) -> MasterConfig {
    MasterConfig { after_mooncake: config.mooncake_quarantine, ..MasterConfig::default() }
}

fn elector(
    store: &crate::store::Store,
    storage: &BatchStorage,
    address: &str,
    election: ElectionConfig,
    clock: &Arc<dyn Clock>,
    entropy: &Arc<dyn Entropy>,
) -> anyhow::Result<Arc<Elector>> {
    let candidate = Bytes::copy_from_slice(address.as_bytes());
    let lease = Arc::clone(&store.lease);
    let elector =
        Elector::new(lease, storage.keys().leader(), candidate, election, Arc::clone(clock), Arc::clone(entropy))?;
    Ok(Arc::new(elector.with_watch(Arc::clone(&store.watch))))
}

/// A future that ends when `ended` begins.
fn until(ended: &Shutdown) -> impl Future<Output = ()> + Send + use<> {
    let ended = ended.clone();
    async move {
        ended.wanted().await;
    }
}

/// A server that ends before it was told to takes the node with it.
async fn watched(server: impl Future<Output = anyhow::Result<()>>, shutdown: Shutdown) {
    if let Err(error) = server.await {
        tracing::error!(error = format!("{error:#}"), "a server ended");
        shutdown.begin(Ending::Fatal(format!("{error:#}")));
    }
}
