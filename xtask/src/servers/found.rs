//! Owns which programs the tests need, where they may lie, and under which variables the tests find them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::etcd_wheel;

/// A program that some tests or builds need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// The pinned etcd 3.5.
    Etcd,
    /// The distribution's etcd 3.4, the oldest that we support.
    EtcdOld,
    /// The protobuf compiler that the etcd client's build needs.
    Protoc,
    /// Redis, for the tests of its backend.
    Redis,
}

/// All of them.
pub(crate) const REQUIRED: &[Server] = &[Server::Etcd, Server::EtcdOld, Server::Protoc, Server::Redis];

impl Server {
    /// As it is called in the summary.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::EtcdOld => "etcd-3.4",
            Self::Protoc => "protoc",
            Self::Redis => "redis",
        }
    }

    const fn program(self) -> &'static str {
        match self {
            Self::Etcd | Self::EtcdOld => "etcd",
            Self::Protoc => "protoc",
            Self::Redis => "redis-server",
        }
    }

    const fn variable(self) -> &'static str {
        match self {
            Self::Etcd => "PLIMSOLL_ETCD_BIN",
            Self::EtcdOld => "PLIMSOLL_ETCD_OLD_BIN",
            Self::Protoc => "PROTOC",
            Self::Redis => "PLIMSOLL_REDIS_BIN",
        }
    }

    const fn debian_packages(self) -> &'static [&'static str] {
        match self {
            Self::Etcd => &[],
            Self::EtcdOld => &["etcd-server", "etcd-client"],
            Self::Protoc => &["protobuf-compiler"],
            Self::Redis => &["redis-server"],
        }
    }
}

/// What is on this machine.
#[derive(Debug)]
pub(crate) struct Found {
    paths: Vec<(Server, PathBuf)>,
}

impl Found {
    /// Looks on `PATH` and under `target/servers`. A variable that is already set wins.
    pub(crate) fn look(root: &Path) -> Self {
        let locate = |server: Server| {
            let set = std::env::var_os(server.variable()).map(PathBuf::from).filter(|path| path.is_file());
            let installed = || match server {
                Server::Etcd => etcd_wheel::present(root).then(|| etcd_wheel::binary(root, "etcd")),
                Server::EtcdOld | Server::Protoc | Server::Redis => on_path(server.program()),
            };
            set.or_else(installed).map(|path| (server, path))
        };
        Self { paths: REQUIRED.iter().copied().filter_map(locate).collect() }
    }

    /// Where it lies.
    pub(crate) fn path(&self, server: Server) -> Option<&Path> {
        self.paths.iter().find(|(found, _)| *found == server).map(|(_, path)| path.as_path())
    }

    /// The first line that it prints about itself.
    pub(crate) fn version(&self, server: Server) -> Option<String> {
        let output = Command::new(self.path(server)?).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().trim().to_owned();
        output.status.success().then_some(text)
    }

    /// What the tests read, one variable for each program that is there.
    pub(crate) fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        self.paths.iter().map(|(server, path)| (server.variable(), path.clone())).collect()
    }

    pub(super) fn missing_packages(&self) -> Vec<&'static str> {
        let missing = REQUIRED.iter().filter(|server| self.path(**server).is_none());
        missing.flat_map(|server| server.debian_packages()).copied().collect()
    }
}

/// The file of this name in the first folder of `PATH` that has one.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
