//! Owns where the servers lie. It starts none.

use std::path::{Path, PathBuf};

use crate::missing;

/// An etcd with the `etcdctl` beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdProgram {
    /// The server.
    pub etcd: PathBuf,
    /// Its command line client.
    pub etcdctl: PathBuf,
}

/// The etcd that tests run on: `PLIMSOLL_ETCD_BIN`, or else `etcd` on `PATH`. Without one the test is announced as skipped.
#[must_use]
pub fn etcd(test: &str) -> Option<EtcdProgram> {
    let found = candidates().into_iter().next();
    if found.is_none() {
        missing("etcd", test);
    }
    found
}

/// Every version of etcd that is there, also `PLIMSOLL_ETCD_OLD_BIN` and `PLIMSOLL_ETCD_35`.
#[must_use]
pub fn etcds(test: &str) -> Vec<EtcdProgram> {
    let found = candidates();
    if found.is_empty() {
        missing("etcd", test);
    }
    found
}

/// A Redis server with the `redis-cli` beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisProgram {
    /// The server.
    pub server: PathBuf,
    /// Its command line client.
    pub cli: PathBuf,
}

/// The Redis that tests run on: `PLIMSOLL_REDIS_BIN`, or else `redis-server` on `PATH`. Without one the test is announced as skipped.
#[must_use]
pub fn redis(test: &str) -> Option<RedisProgram> {
    let named = std::env::var_os("PLIMSOLL_REDIS_BIN").map(PathBuf::from).filter(|p| p.is_file());
    let found = named.or_else(|| on_path("redis-server")).and_then(|server| {
        let beside = server.parent().map(|folder| folder.join("redis-cli")).filter(|p| p.is_file());
        Some(RedisProgram { cli: beside.or_else(|| on_path("redis-cli"))?, server })
    });
    if found.is_none() {
        missing("redis", test);
    }
    found
}

fn candidates() -> Vec<EtcdProgram> {
    let named = ["PLIMSOLL_ETCD_BIN", "PLIMSOLL_ETCD_35", "PLIMSOLL_ETCD_OLD_BIN"];
    let named = named.into_iter().filter_map(std::env::var_os).map(PathBuf::from).filter(|p| p.is_file());
    let mut found: Vec<EtcdProgram> = Vec::new();
    for etcd in named.chain(on_path("etcd")) {
        let beside = etcd.parent().map(|folder| folder.join("etcdctl")).filter(|p| p.is_file());
        let Some(etcdctl) = beside.or_else(|| on_path("etcdctl")) else { continue };
        if !found.iter().any(|known| same_file(&known.etcd, &etcd)) {
            found.push(EtcdProgram { etcd, etcdctl });
        }
    }
    found
}

fn same_file(a: &Path, b: &Path) -> bool {
    a == b || a.canonicalize().ok().zip(b.canonicalize().ok()).is_some_and(|(a, b)| a == b)
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
