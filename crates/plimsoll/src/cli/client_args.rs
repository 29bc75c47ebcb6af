//! Owns the flags that all commands against a cluster share, and keys on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::output;
use crate::client::{Client, ClientOptions, ClientTls};
use crate::config::Secret;

/// Where the cluster is and how to talk to it.
#[derive(Clone, Debug, Args)]
pub(super) struct ClientArgs {
    /// Nodes of the cluster; the leader is found through any of them
    #[arg(
        long,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        env = "PLIMSOLL_ENDPOINTS",
        default_value = "127.0.0.1:7400"
    )]
    pub(super) endpoints: Vec<String>,
    /// Most milliseconds for a call, following the leader and waiting included
    #[arg(long, value_name = "MS", env = "PLIMSOLL_TIMEOUT_MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub(super) timeout_ms: u64,
    /// What signs the servers' certificates, PEM; switches TLS on
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_CA")]
    ca: Option<PathBuf>,
    /// Our certificate, PEM
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_CERT", requires = "key_file", requires = "ca")]
    cert: Option<PathBuf>,
    /// Its key, PEM
    #[arg(long = "key", id = "key_file", value_name = "FILE", env = "PLIMSOLL_KEY", requires = "cert")]
    key: Option<PathBuf>,
    /// File with the cluster's token
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl ClientArgs {
    /// A client, and how to print.
    pub(super) fn client(&self) -> Result<Client, String> {
        self.client_of(self.endpoints.clone())
    }

    /// A client of some endpoints only.
    pub(super) fn client_of(&self, endpoints: Vec<String>) -> Result<Client, String> {
        let token = match &self.token_file {
            None => None,
            Some(path) => Some(read_token(path)?),
        };
        let identity = self.cert.clone().zip(self.key.clone());
        let tls = self.ca.clone().map(|ca| ClientTls { ca, identity });
        Client::new(ClientOptions { endpoints, timeout: Duration::from_millis(self.timeout_ms), tls, token })
    }
}

fn read_token(path: &PathBuf) -> Result<Secret, String> {
    let text =
        std::fs::read_to_string(path).map_err(|e| format!("the token file {} cannot be read: {e}", path.display()))?;
    match text.trim() {
        "" => Err(format!("the token file {} is empty; write the cluster's token into it", path.display())),
        token => Ok(Secret::new(token)),
    }
}

/// How keys are typed, and whose they are.
#[derive(Clone, Debug, Args)]
pub(super) struct KeyArgs {
    /// Keys are typed as hexadecimal digits, so that any bytes can be
    #[arg(long)]
    hex: bool,
    /// The tenant
    #[arg(long, default_value = "default")]
    pub(super) tenant: String,
}

impl KeyArgs {
    /// The bytes of a typed key.
    pub(super) fn bytes(&self, typed: &str) -> Result<bytes::Bytes, String> {
        if !self.hex {
            return Ok(bytes::Bytes::copy_from_slice(typed.as_bytes()));
        }
        output::unhex(typed).map(Into::into).ok_or_else(|| {
            format!("the key {typed:?} is not hexadecimal; give an even number of the digits 0-9 and a-f, or leave out --hex")
        })
    }
}
