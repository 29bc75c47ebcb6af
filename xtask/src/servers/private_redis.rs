//! Owns a Redis of one's own that keeps what it acknowledges: own port, own data directory, gone with the value.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::found::{Found, Server};
use super::private_etcd::free_address;

const START_WITHIN: Duration = Duration::from_secs(30);
const TRIES: u32 = 3;

/// A running Redis on loopback.
#[derive(Debug)]
pub(crate) struct PrivateRedis {
    child: Child,
    client: SocketAddr,
    _data: tempfile::TempDir,
}

impl PrivateRedis {
    /// Starts one and waits until it answers. Another process may take the free port that was found; then it is tried again.
    pub(crate) fn start(root: &Path, found: &Found) -> Result<Self> {
        let program = found.path(Server::Redis).context("there is no redis-server; run `cargo xtask servers`")?;
        let mut last = None;
        for _ in 0..TRIES {
            match Self::try_start(root, program) {
                Ok(redis) => return Ok(redis),
                Err(error) => last = Some(error),
            }
        }
        Err(last.context("redis was never started")?)
    }

    /// `host:port` for clients.
    pub(crate) fn endpoint(&self) -> String {
        self.client.to_string()
    }

    fn try_start(root: &Path, program: &Path) -> Result<Self> {
        let parent = root.join("target/servers");
        std::fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
        let data = tempfile::Builder::new().prefix("run-").tempdir_in(&parent).context("no data directory")?;
        let client = free_address()?;
        let child = Command::new(program)
            .args(["--bind", &client.ip().to_string(), "--port", &client.port().to_string(), "--loglevel", "warning"])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--dir"])
            .arg(data.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("{} does not start", program.display()))?;
        let mut redis = Self { child, client, _data: data };
        redis.wait()?;
        Ok(redis)
    }

    fn wait(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_WITHIN;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().context("the state of redis is unknown")? {
                bail!("redis ended at its start ({status})");
            }
            if self.answers().is_ok_and(|answers| answers) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("redis did not answer within {START_WITHIN:?}")
    }

    fn answers(&self) -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&self.client, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 5];
        stream.read_exact(&mut reply)?;
        Ok(&reply == b"+PONG")
    }
}

impl Drop for PrivateRedis {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to do about either error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
