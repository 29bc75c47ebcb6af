//! Owns one Redis server of a test's own: own port, own data, own log, gone with the value. It can be killed and started again.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::free_port::free_addresses;
use crate::{ProcessGuard, RedisProgram, TlsFiles};

const START_WITHIN: Duration = Duration::from_secs(30);
const TRIES: u32 = 3;
const LOG_LINES_SHOWN: usize = 40;

/// The settings under which a single server keeps what it acknowledged.
pub const REDIS_DURABLE: &[(&str, &str)] = &[("appendonly", "yes"), ("appendfsync", "always")];

/// How a server differs from one started without flags.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedisServerOptions<'a> {
    /// Settings as in `redis.conf`, in order; words of a value are parted by one space.
    pub settings: &'a [(&'a str, &'a str)],
    /// TLS in place of plain text.
    pub tls: Option<&'a TlsFiles>,
    /// The master that the sentinel is to watch, which makes the server a sentinel.
    pub sentinel_of: Option<SocketAddr>,
}

/// A running Redis on loopback. When a test fails the end of its log is printed.
#[derive(Debug)]
pub struct RedisServer {
    process: ProcessGuard,
    program: RedisProgram,
    address: SocketAddr,
    /// The command line, for the next start.
    arguments: Vec<String>,
    tls_arguments: Vec<String>,
    folder: tempfile::TempDir,
}

impl RedisServer {
    /// Starts one and waits until it answers.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(program: &RedisProgram, options: RedisServerOptions<'_>) -> Result<Self> {
        let mut last = None;
        for _ in 0..TRIES {
            let [address] = free_addresses()?;
            let server = Self::spawn(program, options, address)?;
            match server.wait_answers().await {
                Ok(()) => return Ok(server),
                Err(error) => last = Some(error),
            }
        }
        Err(last.context("redis was never started")?)
    }

    fn spawn(program: &RedisProgram, options: RedisServerOptions<'_>, address: SocketAddr) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("plimsoll-redis-").tempdir().context("no data directory")?;
        let mut arguments = Vec::new();
        if let Some(master) = options.sentinel_of {
            // A sentinel writes its file; it takes no settings from the command line that it could not keep.
            let file = folder.path().join("sentinel.conf");
            let lines = [
                format!("sentinel monitor main {} {} 1", master.ip(), master.port()),
                "sentinel down-after-milliseconds main 5000".into(),
                "sentinel failover-timeout main 5000".into(),
            ];
            std::fs::write(&file, lines.join("\n") + "\n").context("cannot write sentinel.conf")?;
            arguments.extend([file.display().to_string(), "--sentinel".into()]);
        }
        let mut set = |name: &str, value: &str| arguments.extend([format!("--{name}"), value.to_owned()]);
        set("bind", &address.ip().to_string());
        set(if options.tls.is_some() { "tls-port" } else { "port" }, &address.port().to_string());
        set("dir", &folder.path().display().to_string());
        if options.sentinel_of.is_none() {
            set("save", "");
        }
        if let Some(tls) = options.tls {
            set("port", "0");
            for (name, file) in
                [("tls-cert-file", "server.pem"), ("tls-key-file", "server.key"), ("tls-ca-cert-file", "ca.pem")]
            {
                set(name, &tls.path(file).display().to_string());
            }
        }
        for (name, value) in options.settings {
            arguments.push(format!("--{name}"));
            arguments.extend(value.split(' ').map(str::to_owned));
        }
        let process = run(&program.server, &arguments, folder.path())?;
        let tls_arguments = options.tls.map(cli_tls_arguments).unwrap_or_default();
        Ok(Self { process, program: program.clone(), address, arguments, tls_arguments, folder })
    }

    /// Starts it again on its port and its data, after it was killed, and waits until it answers.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn restart(&mut self) -> Result<()> {
        self.start_again()?;
        self.wait_answers().await
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start_again(&mut self) -> Result<()> {
        self.process.kill();
        self.process = run(&self.program.server, &self.arguments, self.folder.path())?;
        Ok(())
    }

    /// Changes a setting of the next start.
    pub fn set(&mut self, name: &str, value: &str) {
        self.arguments.extend([format!("--{name}"), value.to_owned()]);
    }

    async fn wait_answers(&self) -> Result<()> {
        let deadline = std::time::Instant::now() + START_WITHIN;
        while std::time::Instant::now() < deadline {
            if let Some(status) = self.process.ended() {
                bail!("redis ended at its start ({status}):\n{}", self.log_tail());
            }
            if self.answers().await {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bail!("redis did not answer within {START_WITHIN:?}:\n{}", self.log_tail());
    }

    /// Whether it answers with anything but that it is loading; with TLS, whether it accepts connections.
    pub async fn answers(&self) -> bool {
        let ask = async {
            let mut stream = TcpStream::connect(self.address).await?;
            if !self.tls_arguments.is_empty() {
                return std::io::Result::Ok(true);
            }
            stream.write_all(b"PING\r\n").await?;
            let mut reply = [0; 64];
            let count = stream.read(&mut reply).await?;
            Ok(count > 0 && !reply[..count].starts_with(b"-LOADING"))
        };
        matches!(tokio::time::timeout(Duration::from_secs(2), ask).await, Ok(Ok(true)))
    }

    /// Its address, for clients and for a proxy in front of it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process, to stop or kill it.
    #[must_use]
    pub fn process(&self) -> &ProcessGuard {
        &self.process
    }

    /// Its data folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs `redis-cli` against it and gives its output, without the newline at its end.
    ///
    /// # Errors
    /// If it fails or the server answers with an error; the error holds what it printed.
    pub async fn cli(&self, arguments: &[&str]) -> Result<String> {
        let mut command = tokio::process::Command::new(&self.program.cli);
        command
            .args(["-e", "-h", &self.address.ip().to_string(), "-p", &self.address.port().to_string()])
            .args(&self.tls_arguments)
            .args(arguments);
        let output =
            command.stdin(Stdio::null()).kill_on_drop(true).output().await.context("redis-cli does not start")?;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "redis-cli {arguments:?} failed:\n{out}\n{err}");
        Ok(out.trim_end_matches('\n').to_owned())
    }

    /// How often it ran a command, like `evalsha`, scripts included.
    ///
    /// # Errors
    /// If its statistics cannot be read.
    pub async fn ran(&self, command: &str) -> Result<u64> {
        let statistics = self.cli(&["INFO", "commandstats"]).await?;
        let begin = format!("cmdstat_{command}:calls=");
        let line = statistics.lines().find_map(|line| line.strip_prefix(&begin));
        let count = line.and_then(|line| line.split(',').next()).map(str::parse);
        Ok(count.transpose().context("a statistic is no number")?.unwrap_or(0))
    }

    /// Starts a statement of a client that is not waited for.
    ///
    /// # Errors
    /// If `redis-cli` does not start.
    pub fn cli_in_background(&self, arguments: &[&str]) -> Result<ProcessGuard> {
        let mut command = Command::new(&self.program.cli);
        command
            .args(["-h", &self.address.ip().to_string(), "-p", &self.address.port().to_string()])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        ProcessGuard::start(&mut command)
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of redis at {}:\n{}", self.address, self.log_tail());
        }
    }
}

fn run(server: &PathBuf, arguments: &[String], folder: &Path) -> Result<ProcessGuard> {
    let log = OpenOptions::new().create(true).append(true).open(folder.join("log")).context("no log file")?;
    let mut command = Command::new(server);
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("no second handle of the log")?)
        .stderr(log);
    ProcessGuard::start(&mut command)
}

fn cli_tls_arguments(tls: &TlsFiles) -> Vec<String> {
    let mut arguments = vec!["--tls".to_owned()];
    for (flag, file) in [("--cacert", "ca.pem"), ("--cert", "client.pem"), ("--key", "client.key")] {
        arguments.extend([flag.to_owned(), tls.path(file).display().to_string()]);
    }
    arguments
}
