//! Owns one round, act by act: load, kill, takeover, more load, judgement. It must not decide what counts as lost.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use ha_rpc::v1::{Durability, MountSegmentRequest};
use indicatif::ProgressBar;
use tokio::time::{Instant, sleep};

use super::args::DemoArgs;
use super::cluster::{Cluster, Node, client};
use super::crowd::Crowd;
use super::evidence::judge_round;
use super::judge;
use super::report::RoundReport;
use super::takeover::{leader_of, take_over};
use crate::client::{CallError, Client};

/// Most time for anything that takes a moment when all is well.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Address space enough for every object of the demo.
const SEGMENT_BYTES: u64 = 1 << 40;
/// How often the number of claims is looked at.
const CLAIMS_EVERY: Duration = Duration::from_millis(100);

/// Plays one round.
pub(super) async fn play(cluster: &Cluster, args: &DemoArgs, progress: &ProgressBar) -> Result<RoundReport> {
    progress.set_message("starting two nodes");
    let mut nodes = [cluster.start("a").await?, cluster.start("b").await?];
    leader_of(cluster, &mut nodes).await?;
    let endpoints = [nodes[0].address.clone(), nodes[1].address.clone()];
    let mut space = Space::new(client(&endpoints, PATIENCE)?);
    space.follow(cluster).await?;

    let mut crowd = Crowd::start(cluster, args, &endpoints)?;
    progress.set_message(if args.graceful { "acknowledged, then SIGTERM" } else { "acknowledged, then SIGKILL" });
    wait_for(cluster, &mut crowd, args.acknowledged, &mut space, progress, &mut nodes).await?;

    progress.set_message("taking over");
    let leader = leader_of(cluster, &mut nodes).await?;
    let [a, b] = nodes;
    let (mut victim, mut heir) = if leader == 0 { (a, b) } else { (b, a) };
    let moments = take_over(cluster, args.graceful, &victim, &mut heir).await?;

    progress.set_message("acknowledged by the new primary");
    let more = crowd.acknowledged() + args.acknowledged / 5;
    wait_for(cluster, &mut crowd, more, &mut space, progress, std::slice::from_mut(&mut heir)).await?;
    progress.set_message("judging");
    let ledgers = crowd.stop().await?;
    if args.graceful {
        victim.process.end(PATIENCE).await?;
    }
    let admin = Arc::new(client(std::slice::from_ref(&heir.address), PATIENCE)?);
    // Durable itself, so everything that was accepted before it is in the log when it is answered.
    mount(&admin, "barrier").await?;
    heir.process.check()?;
    let moments = moments.with(&ledgers, args.graceful);
    let report = judge_round(cluster, args, &admin, &ledgers, &moments).await?;
    Ok(RoundReport { failovers: space.failovers(cluster).await?, ..report })
}

/// Space to put into. A new primary hands out none that an older one may have handed out, so each gets a segment of its own.
struct Space {
    admin: Client,
    claims: u64,
}

impl Space {
    const fn new(admin: Client) -> Self {
        Self { admin, claims: 0 }
    }

    /// Mounts a segment if the log was claimed since the last look.
    async fn follow(&mut self, cluster: &Cluster) -> Result<()> {
        if let Some(claims) = self.look(cluster).await? {
            mount(&self.admin, &format!("claim-{claims}")).await?;
        }
        Ok(())
    }

    /// Claims after the first. Counted now: the crowd may have been done before the last claim was looked at.
    async fn failovers(&mut self, cluster: &Cluster) -> Result<u64> {
        self.look(cluster).await?;
        Ok(self.claims.saturating_sub(1))
    }

    /// The number of claims, if there are more than at the last look.
    async fn look(&mut self, cluster: &Cluster) -> Result<Option<u64>> {
        let claims = judge::claims(cluster.kv(), cluster.root(), &cluster.name).await?;
        let more = claims > self.claims;
        self.claims = self.claims.max(claims);
        Ok(more.then_some(claims))
    }
}

async fn wait_for(
    cluster: &Cluster,
    crowd: &mut Crowd,
    acknowledged: u64,
    space: &mut Space,
    progress: &ProgressBar,
    nodes: &mut [Node],
) -> Result<()> {
    progress.set_length(acknowledged);
    let (mut reached, mut since, mut looked) = (0, Instant::now(), Instant::now());
    loop {
        let now = crowd.acknowledged();
        progress.set_position(now.min(acknowledged));
        if now >= acknowledged {
            return Ok(());
        }
        crowd.check()?;
        for node in nodes.iter_mut() {
            node.process.check()?;
        }
        if looked.elapsed() >= CLAIMS_EVERY {
            space.follow(cluster).await?;
            looked = Instant::now();
        }
        if now > reached {
            (reached, since) = (now, Instant::now());
        }
        ensure!(since.elapsed() < PATIENCE, "nothing was acknowledged for {PATIENCE:?}, at {now} of {acknowledged}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Mounts a segment and waits until that is durable. A primary that ends on a busy machine may leave it open whether the mount
/// is in the log; then another segment is mounted in its stead.
pub(super) async fn mount(client: &Client, name: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    for attempt in 0_u32.. {
        let name = if attempt == 0 { name.to_owned() } else { format!("{name}-{attempt}") };
        let request = MountSegmentRequest {
            segment_id: name.clone(),
            // An endpoint of its own, so that addresses of segments have nothing to do with each other.
            endpoint: format!("demo-{name}:1"),
            base: 0,
            size: SEGMENT_BYTES,
        };
        match client.mount_segment(request).await {
            Ok(reply) => {
                ensure!(reply.durability() == Durability::Durable, "a mount was not answered as durable");
                return Ok(());
            }
            Err(CallError::Unknown(_)) if Instant::now() < deadline => {}
            Err(error) => return Err(error).with_context(|| format!("segment {name} cannot be mounted")),
        }
    }
    unreachable!("names do not run out")
}

#[cfg(test)]
mod tests {
    use oplog_core::{DurablePrefix, Epoch, Owner};

    use super::*;

    /// The log is claimed for the `claims`th time.
    async fn claim(cluster: &Cluster, claims: u64) {
        let prefix = DurablePrefix { epoch: Epoch::new(claims), owner: Owner::new(claims), ..DurablePrefix::FRESH };
        let key = format!("{}/{}/durable_prefix", cluster.root(), cluster.name);
        cluster.kv().put(key.as_bytes(), prefix.encode().into()).await.unwrap();
    }

    #[tokio::test]
    async fn a_failover_that_ends_after_the_last_look_at_the_claims_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = Cluster::new(None, None, folder.path()).await.unwrap();
        let mut space = Space::new(client(&["127.0.0.1:1".to_owned()], PATIENCE).unwrap());
        claim(&cluster, 1).await;
        assert_eq!(space.look(&cluster).await.unwrap(), Some(1));
        assert_eq!(space.look(&cluster).await.unwrap(), None, "nobody claimed it meanwhile");
        claim(&cluster, 2).await;
        assert_eq!(space.look(&cluster).await.unwrap(), Some(2));
        // The crowd is done, and nobody looks any more.
        claim(&cluster, 3).await;
        assert_eq!(space.failovers(&cluster).await.unwrap(), 2);
    }
}
