//! Owns an etcd of one's own: own ports, own data directory, gone with the value.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::etcd_wheel;
use super::found::{Found, Server};

const START_WITHIN: Duration = Duration::from_secs(30);
const TRIES: u32 = 3;

/// A running etcd on loopback.
#[derive(Debug)]
pub(crate) struct PrivateEtcd {
    child: Child,
    client: SocketAddr,
    _data: tempfile::TempDir,
}

impl PrivateEtcd {
    /// Starts one and waits until it answers. Free ports are found by asking for one and giving it back, so another
    /// process may take it in between; then it is tried again.
    pub(crate) fn start(root: &Path, found: &Found) -> Result<Self> {
        let program = found.path(Server::Etcd).context("there is no etcd; run `cargo xtask servers`")?;
        let mut last = None;
        for _ in 0..TRIES {
            match Self::try_start(root, program) {
                Ok(etcd) => return Ok(etcd),
                Err(error) => last = Some(error),
            }
        }
        Err(last.context("etcd was never started")?)
    }

    /// `host:port` for clients.
    pub(crate) fn endpoint(&self) -> String {
        self.client.to_string()
    }

    fn try_start(root: &Path, program: &Path) -> Result<Self> {
        let parent = root.join("target/servers");
        std::fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
        let data = tempfile::Builder::new().prefix("run-").tempdir_in(&parent).context("no data directory")?;
        let (client, peer) = (free_address()?, free_address()?);
        let child = Command::new(program)
            .args(["--name", "xtask", "--log-level", "error", "--logger", "zap", "--data-dir"])
            .arg(data.path())
            .args(["--listen-client-urls", &format!("http://{client}")])
            .args(["--advertise-client-urls", &format!("http://{client}")])
            .args(["--listen-peer-urls", &format!("http://{peer}")])
            .args(["--initial-advertise-peer-urls", &format!("http://{peer}")])
            .args(["--initial-cluster", &format!("xtask=http://{peer}")])
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("{} does not start", program.display()))?;
        let mut etcd = Self { child, client, _data: data };
        etcd.wait(root)?;
        Ok(etcd)
    }

    fn wait(&mut self, root: &Path) -> Result<()> {
        let deadline = Instant::now() + START_WITHIN;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().context("the state of etcd is unknown")? {
                bail!("etcd ended at its start ({status})");
            }
            let mut health = Command::new(etcd_wheel::binary(root, "etcdctl"));
            health.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoint(), "endpoint", "health"]);
            if health.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("etcd did not answer within {START_WITHIN:?}")
    }
}

impl Drop for PrivateEtcd {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to do about either error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address that nobody listened on a moment ago.
pub(super) fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
    listener.local_addr().context("a bound socket has no address")
}
