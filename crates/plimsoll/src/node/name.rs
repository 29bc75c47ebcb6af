//! Owns this node's name: a key under a lease, so that two nodes of one name notice each other, and a node that was killed can
//! come back as soon as its lease has run out. Safety does not rest on it; two nodes of one name would only confuse people.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use bytes::Bytes;
use ha_types::{Clock, ClusterId, Entropy};
use leadership::{ElectionConfig, Elector, Leadership, LossReason};

use super::shutdown::{Ending, Shutdown};
use crate::node_name::NodeName;
use crate::store::Store;

/// Between two attempts to take a lost name again.
const PAUSE: Duration = Duration::from_secs(1);

/// The name, held until it is given back.
pub(crate) struct HeldName {
    elector: Elector,
    held: Leadership,
    patience: Duration,
    node: NodeName,
}

/// Takes the name, waiting for a dead holder's lease to run out.
///
/// # Errors
/// One sentence if another process holds the name, or the store cannot keep names.
pub(crate) async fn take(
    store: &Store,
    (cluster, node): (&ClusterId, &NodeName),
    address: &str,
    config: ElectionConfig,
    (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>),
) -> anyhow::Result<HeldName> {
    let key = Bytes::from(format!("/plimsoll/{cluster}/nodes/{node}"));
    let holder = Bytes::from(format!("{address} (pid {})", std::process::id()));
    // A dead holder's lease runs out within its TTL, which the store may have raised; sqlite sees it after one TTL of its own.
    let patience = config.ttl * 2 + Duration::from_secs(1);
    let elector = Elector::new(Arc::clone(&store.lease), key, holder, config, clock, entropy)?
        .with_watch(Arc::clone(&store.watch));
    if let Ok(Some(holder)) = elector.leader().await {
        let holder = holder.escape_ascii();
        tracing::info!(%node, %holder, ?patience, "the name is held; waiting for its holder's lease to run out");
    }
    let held = wait_for(&elector, node, patience).await?;
    Ok(HeldName { elector, held, patience, node: node.clone() })
}

async fn wait_for(elector: &Elector, node: &NodeName, patience: Duration) -> anyhow::Result<Leadership> {
    match tokio::time::timeout(patience, elector.campaign()).await {
        Ok(held) => Ok(held?),
        Err(_) => match elector.leader().await? {
            Some(holder) => bail!(
                "another serve with node {node} runs, at {}; stop it or choose another name with --node",
                holder.escape_ascii()
            ),
            None => bail!("the name of node {node} could not be taken within {patience:?}; see that the store answers"),
        },
    }
}

impl HeldName {
    /// Keeps the name until the node has `ended`, then gives it back. A name lost to a slow store is taken again; one that
    /// another process took meanwhile begins the `shutdown`.
    pub(crate) async fn keep(self, ended: Shutdown, shutdown: Shutdown) {
        let Self { elector, mut held, patience, node } = self;
        loop {
            let lost: LossReason = tokio::select! {
                _ = ended.wanted() => break,
                lost = held.lost() => lost,
            };
            tracing::warn!(%node, reason = %lost, "the node's name was lost; taking it again");
            // The store may have granted a longer TTL than was asked for, and our own stale key lives that long.
            let patience = patience.max(held.ttl() * 2 + Duration::from_secs(1));
            let again = async {
                loop {
                    match wait_for(&elector, &node, patience).await {
                        Ok(again) => return Some(again),
                        Err(error) => {
                            if let Ok(Some(_)) = elector.leader().await {
                                shutdown.begin(Ending::Fatal(error.to_string()));
                                return None;
                            }
                            // A store that does not answer is no other holder: the name is asked for again.
                            tracing::debug!(%node, %error, "the name could not be taken");
                            tokio::time::sleep(PAUSE).await;
                        }
                    }
                }
            };
            let again = tokio::select! {
                _ = ended.wanted() => return,
                again = again => again,
            };
            match again {
                Some(again) => held = again,
                None => return,
            }
        }
        let _ = held.resign().await;
    }
}
