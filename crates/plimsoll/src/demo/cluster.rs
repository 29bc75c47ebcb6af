//! Owns the cluster of one round: its store, its name, how its nodes are started, and that nothing of it stays behind.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use ha_kv::Kv;
use ha_types::{SystemClock, SystemEntropy};
use serde::Deserialize;
use tokio::io::{BufReader, Lines};
use tokio::process::ChildStdout;

use super::process::Process;
use super::round::PATIENCE;
use crate::client::{Client, ClientOptions};
use crate::store::{self, IfAbsent, Store};
use crate::store_url::StoreUrl;

const OPLOG_ROOT: &str = "/oplog";
const OWN_ROOT: &str = "/plimsoll";

/// One round's cluster.
pub(super) struct Cluster {
    pub(super) name: String,
    pub(super) ttl: Duration,
    /// Everything that is a file.
    pub(super) folder: PathBuf,
    url: StoreUrl,
    url_text: String,
    store: Store,
}

/// A node that was started.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) process: Process,
    pub(super) address: String,
    /// Held, so that it can go on printing.
    _lines: Lines<BufReader<ChildStdout>>,
}

/// What a node prints first.
#[derive(Deserialize)]
struct Listening {
    grpc: String,
}

impl Cluster {
    /// A cluster of a name that nobody has, in the store at `backend` or in an SQLite file in `folder`.
    pub(super) async fn new(backend: Option<&str>, ttl_ms: Option<u64>, folder: &Path) -> Result<Self> {
        let own = format!("sqlite://{}", folder.join("log.db").display());
        let url_text = backend.map_or(own, ToOwned::to_owned);
        let url: StoreUrl = url_text.parse()?;
        let default_ttl_ms = match &url {
            StoreUrl::Memory => {
                bail!(
                    "the memory store is inside one process; give sqlite:///PATH, etcd://HOST:PORT or redis://HOST:PORT"
                )
            }
            StoreUrl::Sqlite(_) => 1000,
            StoreUrl::Etcd(_) | StoreUrl::Redis(_) => 2000,
        };
        let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
        let store = store::open(&url, IfAbsent::Create, "demo-judge", clock, entropy).await?;
        let name = format!("demo-{:016x}", fastrand::u64(..));
        let ttl = Duration::from_millis(ttl_ms.unwrap_or(default_ttl_ms));
        Ok(Self { name, ttl, folder: folder.into(), url, url_text, store })
    }

    /// The scheme of the store.
    pub(super) fn backend(&self) -> &'static str {
        self.url.scheme()
    }

    /// The store, for raw reads.
    pub(super) fn kv(&self) -> &dyn Kv {
        &*self.store.txn
    }

    /// Where its log lies.
    pub(super) fn root(&self) -> &'static str {
        OPLOG_ROOT
    }

    /// What the store says about who leads, as bytes that differ between nodes.
    pub(super) async fn leader(&self) -> Result<Option<bytes::Bytes>> {
        let key = format!("{OWN_ROOT}/{}/leader", self.name);
        self.kv().get(key.as_bytes()).await.context("the store does not say who leads")
    }

    /// Starts a node of this cluster.
    pub(super) async fn start(&self, node: &str) -> Result<Node> {
        let (ttl, margin) = (self.ttl.as_millis(), self.ttl.as_millis() / 5);
        let arguments = [
            "serve".into(),
            format!("--die-with-parent={}", std::process::id()),
            format!("--node={node}"),
            format!("--cluster={}", self.name),
            format!("--store={}", self.url_text),
            "--listen=127.0.0.1:0".into(),
            "--admin-listen=127.0.0.1:0".into(),
            format!("--ttl-ms={ttl}"),
            format!("--set=leadership.margin_ms={margin}"),
        ];
        let mut process = Process::start(&format!("node-{node}"), &self.folder, &arguments)?;
        let mut lines = process.lines()?;
        let said = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        let Ok(Ok(Some(said))) = said else {
            bail!("node {node} does not say where it listens ({said:?}); its last words:\n{}", process.last_words());
        };
        let said: Listening = serde_json::from_str(&said).with_context(|| format!("node {node} said {said:?}"))?;
        Ok(Node { process, address: said.grpc, _lines: lines })
    }

    /// Removes its keys from a store that is not ours alone.
    pub(super) async fn clean_up(&self) -> Result<()> {
        for root in [OPLOG_ROOT, OWN_ROOT] {
            // '0' follows '/' in byte order, so this is all that lies below the cluster's name.
            let (start, end) = (format!("{root}/{}/", self.name), format!("{root}/{}0", self.name));
            self.kv()
                .delete_range(start.as_bytes(), end.as_bytes())
                .await
                .with_context(|| format!("the keys below {start} could not be removed"))?;
        }
        Ok(())
    }
}

/// A client of these nodes.
pub(super) fn client(endpoints: &[String], timeout: Duration) -> Result<Client> {
    let options = ClientOptions { endpoints: endpoints.to_vec(), timeout, tls: None, token: None };
    Client::new(options).map_err(anyhow::Error::msg)
}
