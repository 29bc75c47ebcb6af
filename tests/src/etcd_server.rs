//! Owns one etcd of a test's own: own ports, own data, own log, gone with the value.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::free_port::free_addresses;
use crate::{EtcdProgram, ProcessGuard, TlsFiles};

const START_WITHIN: Duration = Duration::from_secs(30);
const TRIES: u32 = 3;
const LOG_LINES_SHOWN: usize = 60;

/// How a server differs from one started without flags.
#[derive(Clone, Copy, Debug, Default)]
pub struct EtcdServerOptions<'a> {
    /// `--quota-backend-bytes`.
    pub quota_bytes: Option<u64>,
    /// `--max-request-bytes`.
    pub max_request_bytes: Option<u64>,
    /// `--auth-token-ttl`, in seconds.
    pub auth_token_ttl_s: Option<u64>,
    /// TLS for clients.
    pub tls: Option<&'a TlsFiles>,
    /// Whether clients must show a certificate.
    pub client_cert_auth: bool,
}

/// The addresses of one member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberAddresses {
    pub(crate) client: SocketAddr,
    pub(crate) peer: SocketAddr,
    metrics: SocketAddr,
}

impl MemberAddresses {
    pub(crate) fn find() -> Result<Self> {
        let [client, peer, metrics] = free_addresses()?;
        Ok(Self { client, peer, metrics })
    }
}

/// A running etcd on loopback. When a test fails the end of its log is printed.
#[derive(Debug)]
pub struct EtcdServer {
    process: ProcessGuard,
    program: EtcdProgram,
    addresses: MemberAddresses,
    scheme: &'static str,
    tls_arguments: Vec<String>,
    folder: tempfile::TempDir,
    launch: Launch,
}

/// What a member is started with, besides its options.
#[derive(Debug)]
struct Launch {
    name: String,
    initial_cluster: String,
}

impl EtcdServer {
    /// Starts a cluster of one and waits until it answers.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(program: &EtcdProgram, options: EtcdServerOptions<'_>) -> Result<Self> {
        let mut last = None;
        for _ in 0..TRIES {
            let addresses = MemberAddresses::find()?;
            let server = Self::spawn(program, options, "m0", addresses, &format!("m0=http://{}", addresses.peer))?;
            match server.wait_healthy().await {
                Ok(()) => return Ok(server),
                Err(error) => last = Some(error),
            }
        }
        Err(last.context("etcd was never started")?)
    }

    pub(crate) fn spawn(
        program: &EtcdProgram,
        options: EtcdServerOptions<'_>,
        name: &str,
        addresses: MemberAddresses,
        initial_cluster: &str,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("plimsoll-etcd-").tempdir().context("no data directory")?;
        let launch = Launch { name: name.to_owned(), initial_cluster: initial_cluster.to_owned() };
        let (process, scheme) = launch.start(program, options, addresses, folder.path())?;
        let tls_arguments = options.tls.map(ctl_tls_arguments).unwrap_or_default();
        Ok(Self { process, program: program.clone(), addresses, scheme, tls_arguments, folder, launch })
    }

    /// Kills it and starts it again on the same data and addresses with other options, and waits until it answers.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn restart(&mut self, options: EtcdServerOptions<'_>) -> Result<()> {
        self.process.kill();
        (self.process, self.scheme) = self.launch.start(&self.program, options, self.addresses, self.folder.path())?;
        self.wait_healthy().await
    }

    pub(crate) async fn wait_healthy(&self) -> Result<()> {
        let deadline = std::time::Instant::now() + START_WITHIN;
        while std::time::Instant::now() < deadline {
            if let Some(status) = self.process.ended() {
                bail!("etcd ended at its start ({status}):\n{}", self.log_tail());
            }
            if self.is_healthy().await {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("etcd did not answer within {START_WITHIN:?}:\n{}", self.log_tail());
    }

    /// Whether it answers a linearizable read.
    pub async fn is_healthy(&self) -> bool {
        self.http_get("/health").await.is_ok_and(|reply| reply.contains(r#""health":"true""#))
    }

    /// How many calls of a gRPC method, like `Txn`, it has answered with OK.
    ///
    /// # Errors
    /// If its metrics cannot be read.
    pub async fn answered(&self, method: &str) -> Result<u64> {
        self.count("grpc_server_handled_total", &[r#"grpc_code="OK""#, &format!("grpc_method=\"{method}\"")]).await
    }

    /// How many messages of a gRPC method, like `Watch`, have reached it.
    ///
    /// # Errors
    /// If its metrics cannot be read.
    pub async fn received(&self, method: &str) -> Result<u64> {
        self.count("grpc_server_msg_received_total", &[&format!("grpc_method=\"{method}\"")]).await
    }

    async fn count(&self, metric: &str, labels: &[&str]) -> Result<u64> {
        let metrics = self.http_get("/metrics").await?;
        let line = metrics.lines().find(|l| l.starts_with(metric) && labels.iter().all(|label| l.contains(label)));
        let count = line.and_then(|l| l.rsplit_once(' ')).map(|(_, count)| count.parse::<f64>());
        // The server writes no line before the first call, and whole numbers as floats.
        Ok(count.transpose().context("a metric is no number")?.unwrap_or(0.0) as u64)
    }

    async fn http_get(&self, path: &str) -> Result<String> {
        let ask = async {
            let mut stream = TcpStream::connect(self.addresses.metrics).await?;
            let request = format!("GET {path} HTTP/1.0\r\nHost: etcd\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut reply = Vec::new();
            stream.read_to_end(&mut reply).await?;
            std::io::Result::Ok(String::from_utf8_lossy(&reply).into_owned())
        };
        Ok(tokio::time::timeout(Duration::from_secs(2), ask).await.context("no answer in time")??)
    }

    /// The URL for clients.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.addresses.client)
    }

    /// The address for clients, for a proxy in front of it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.addresses.client
    }

    /// The process, to stop or kill it.
    #[must_use]
    pub fn process(&self) -> &ProcessGuard {
        &self.process
    }

    /// Runs `etcdctl` against this member and gives its output.
    ///
    /// # Errors
    /// If it fails; the error holds what it printed.
    pub async fn ctl(&self, arguments: &[&str]) -> Result<String> {
        self.ctl_with(arguments, "").await
    }

    /// The same with `input` on its standard input.
    ///
    /// # Errors
    /// As [`Self::ctl`].
    pub async fn ctl_with(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = tokio::process::Command::new(&self.program.etcdctl);
        command
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.endpoint()])
            .args(&self.tls_arguments)
            .args(arguments);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.kill_on_drop(true).spawn().context("etcdctl does not start")?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).await.context("etcdctl does not read")?;
        }
        let output = child.wait_with_output().await.context("etcdctl does not end")?;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "etcdctl {arguments:?} failed:\n{out}\n{err}");
        Ok(out.into_owned())
    }

    /// Adds `root` with this password and asks every client for a user from now on.
    ///
    /// # Errors
    /// If `etcdctl` fails.
    pub async fn enable_auth(&self, password: &str) -> Result<()> {
        self.ctl(&["user", "add", &format!("root:{password}")]).await?;
        self.ctl(&["user", "grant-role", "root", "root"]).await?;
        self.ctl(&["auth", "enable"]).await.map(drop)
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }
}

impl Launch {
    fn start(
        &self,
        program: &EtcdProgram,
        options: EtcdServerOptions<'_>,
        addresses: MemberAddresses,
        folder: &Path,
    ) -> Result<(ProcessGuard, &'static str)> {
        let Self { name, initial_cluster } = self;
        let log = File::options().create(true).append(true).open(folder.join("log")).context("no log file")?;
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let (client, peer) = (format!("{scheme}://{}", addresses.client), format!("http://{}", addresses.peer));
        let mut command = Command::new(&program.etcd);
        command
            .args(["--name", name, "--logger", "zap", "--log-level", "warn", "--data-dir"])
            .arg(folder.join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--listen-metrics-urls", &format!("http://{}", addresses.metrics)])
            .args(["--initial-cluster", initial_cluster, "--initial-cluster-token", initial_cluster])
            .args(flags(options))
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("no second handle of the log")?)
            .stderr(log);
        Ok((ProcessGuard::start(&mut command)?, scheme))
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of etcd at {}:\n{}", self.endpoint(), self.log_tail());
        }
    }
}

fn flags(options: EtcdServerOptions<'_>) -> Vec<String> {
    let mut flags = Vec::new();
    let mut number = |name: &str, value: Option<u64>| {
        if let Some(value) = value {
            flags.push(format!("{name}={value}"));
        }
    };
    number("--quota-backend-bytes", options.quota_bytes);
    number("--max-request-bytes", options.max_request_bytes);
    number("--auth-token-ttl", options.auth_token_ttl_s);
    if let Some(tls) = options.tls {
        flags.push(format!("--cert-file={}", tls.path("server.pem").display()));
        flags.push(format!("--key-file={}", tls.path("server.key").display()));
        if options.client_cert_auth {
            flags.push("--client-cert-auth=true".into());
            flags.push(format!("--trusted-ca-file={}", tls.path("ca.pem").display()));
        }
    }
    flags
}

fn ctl_tls_arguments(tls: &TlsFiles) -> Vec<String> {
    [("--cacert", "ca.pem"), ("--cert", "client.pem"), ("--key", "client.key")]
        .map(|(flag, file)| format!("{flag}={}", tls.path(file).display()))
        .into()
}
