//! Owns a cluster of three etcd members on loopback.

use anyhow::{Context as _, Result};

use crate::etcd_server::MemberAddresses;
use crate::{EtcdProgram, EtcdServer, EtcdServerOptions};

const TRIES: u32 = 3;
const MEMBERS: usize = 3;

/// Three members that know each other.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<EtcdServer>,
}

impl EtcdCluster {
    /// Starts three members and waits until each answers.
    ///
    /// # Errors
    /// If one does not start.
    pub async fn start(program: &EtcdProgram) -> Result<Self> {
        let mut last = None;
        for _ in 0..TRIES {
            match Self::try_start(program).await {
                Ok(cluster) => return Ok(cluster),
                Err(error) => last = Some(error),
            }
        }
        Err(last.context("etcd was never started")?)
    }

    async fn try_start(program: &EtcdProgram) -> Result<Self> {
        let addresses: Vec<MemberAddresses> = (0..MEMBERS).map(|_| MemberAddresses::find()).collect::<Result<_>>()?;
        let names: Vec<String> = (0..MEMBERS).map(|n| format!("m{n}")).collect();
        let cluster: Vec<String> =
            names.iter().zip(&addresses).map(|(name, a)| format!("{name}=http://{}", a.peer)).collect();
        let cluster = cluster.join(",");
        let members = names
            .iter()
            .zip(&addresses)
            .map(|(name, a)| EtcdServer::spawn(program, EtcdServerOptions::default(), name, *a, &cluster))
            .collect::<Result<Vec<_>>>()?;
        for member in &members {
            member.wait_healthy().await?;
        }
        Ok(Self { members })
    }

    /// The members.
    #[must_use]
    pub fn members(&self) -> &[EtcdServer] {
        &self.members
    }

    /// The URLs for clients.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(EtcdServer::endpoint).collect()
    }
}
