//! Owns a server of one's own: own ports, own data directory, gone with the value.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::found::{Found, Server};

const START_WITHIN: Duration = Duration::from_secs(30);
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(50);

/// A running server on loopback.
#[derive(Debug)]
pub(crate) struct PrivateServer {
    child: Child,
    client: SocketAddr,
    _data: tempfile::TempDir,
}

impl PrivateServer {
    /// An etcd.
    pub(crate) fn etcd(root: &Path, found: &Found) -> Result<Self> {
        // Every etcd comes with its client beside it.
        let ctl = found.path(Server::Etcd).map(|etcd| etcd.with_file_name("etcdctl")).unwrap_or_default();
        Self::start(root, found, Server::Etcd, etcd_arguments, &|client| etcd_answers(&ctl, client))
    }

    /// A Redis that keeps what it acknowledges.
    pub(crate) fn redis(root: &Path, found: &Found) -> Result<Self> {
        Self::start(root, found, Server::Redis, redis_arguments, &|client| redis_answers(client).unwrap_or(false))
    }

    /// `host:port` for clients.
    pub(crate) fn endpoint(&self) -> String {
        self.client.to_string()
    }

    /// Starts one and waits until it answers. Free ports are found by asking for one and giving it back, so another
    /// process may take it in between; then it is tried again.
    fn start(
        root: &Path,
        found: &Found,
        server: Server,
        arguments: fn(&mut Command, SocketAddr, &Path) -> Result<()>,
        answers: &dyn Fn(SocketAddr) -> bool,
    ) -> Result<Self> {
        let name = server.name();
        let program = found.path(server).with_context(|| format!("there is no {name}; run `cargo xtask servers`"))?;
        let mut last = None;
        for _ in 0..TRIES {
            let mut command = Command::new(program);
            match Self::try_start(root, &mut command, arguments).and_then(|it| it.when_it_answers(name, answers)) {
                Ok(running) => return Ok(running),
                Err(error) => last = Some(error),
            }
        }
        Err(last.with_context(|| format!("{name} was never started"))?)
    }

    fn try_start(
        root: &Path,
        command: &mut Command,
        arguments: fn(&mut Command, SocketAddr, &Path) -> Result<()>,
    ) -> Result<Self> {
        let parent = root.join("target/servers");
        std::fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
        let data = tempfile::Builder::new().prefix("run-").tempdir_in(&parent).context("no data directory")?;
        let client = free_address()?;
        arguments(command, client, data.path())?;
        let child = command.stdin(Stdio::null()).spawn();
        let child = child.with_context(|| format!("{} does not start", command.get_program().display()))?;
        Ok(Self { child, client, _data: data })
    }

    fn when_it_answers(mut self, name: &str, answers: &dyn Fn(SocketAddr) -> bool) -> Result<Self> {
        let deadline = Instant::now() + START_WITHIN;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().with_context(|| format!("the state of {name} is unknown"))? {
                bail!("{name} ended at its start ({status})");
            }
            if answers(self.client) {
                return Ok(self);
            }
            std::thread::sleep(PAUSE);
        }
        bail!("{name} did not answer within {START_WITHIN:?}")
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to do about either error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn etcd_arguments(command: &mut Command, client: SocketAddr, data: &Path) -> Result<()> {
    let peer = free_address()?;
    command
        .args(["--name", "xtask", "--log-level", "error", "--logger", "zap", "--data-dir"])
        .arg(data)
        .args(["--listen-client-urls", &format!("http://{client}")])
        .args(["--advertise-client-urls", &format!("http://{client}")])
        .args(["--listen-peer-urls", &format!("http://{peer}")])
        .args(["--initial-advertise-peer-urls", &format!("http://{peer}")])
        .args(["--initial-cluster", &format!("xtask=http://{peer}")]);
    Ok(())
}

fn etcd_answers(ctl: &Path, client: SocketAddr) -> bool {
    let mut health = Command::new(ctl);
    health.env("ETCDCTL_API", "3").args(["--endpoints", &client.to_string(), "endpoint", "health"]);
    health.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn redis_arguments(command: &mut Command, client: SocketAddr, data: &Path) -> Result<()> {
    command
        .args(["--bind", &client.ip().to_string(), "--port", &client.port().to_string(), "--loglevel", "warning"])
        .args(["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--dir"])
        .arg(data)
        .stdout(Stdio::null());
    Ok(())
}

fn redis_answers(client: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&client, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"PING\r\n")?;
    let mut reply = [0; 5];
    stream.read_exact(&mut reply)?;
    Ok(&reply == b"+PONG")
}

/// An address that nobody listened on a moment ago.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
    listener.local_addr().context("a bound socket has no address")
}
