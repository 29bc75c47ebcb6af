//! Owns what a client is told: where to ask, how long to wait, whom to trust.

use std::path::PathBuf;
use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::config::Secret;

/// Where to ask, how long to wait, whom to trust.
#[derive(Clone, Debug)]
pub(crate) struct ClientOptions {
    /// `HOST:PORT` of nodes of the cluster; at least one.
    pub(crate) endpoints: Vec<String>,
    /// Most time for one call, following and waiting included.
    pub(crate) timeout: Duration,
    /// TLS; plain text without it.
    pub(crate) tls: Option<ClientTls>,
    /// Sent with every call.
    pub(crate) token: Option<Secret>,
}

/// TLS of a client.
#[derive(Clone, Debug)]
pub(crate) struct ClientTls {
    /// What signs the servers' certificates, PEM.
    pub(crate) ca: PathBuf,
    /// Our certificate and key, PEM.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// The options, read and checked.
#[derive(Clone, Debug)]
pub(super) struct Transport {
    tls: Option<ClientTlsConfig>,
    pub(super) authorization: Option<MetadataValue<Ascii>>,
}

/// Most time for one connection to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

impl ClientOptions {
    pub(super) fn transport(&self) -> Result<Transport, String> {
        if self.endpoints.is_empty() {
            return Err("no endpoint is given; use --endpoints HOST:PORT[,HOST:PORT...]".into());
        }
        for endpoint in &self.endpoints {
            check_endpoint(endpoint)?;
        }
        let tls = self.tls.as_ref().map(tls_config).transpose()?;
        let authorization = match &self.token {
            None => None,
            Some(token) => Some(format!("Bearer {}", token.reveal()).parse().map_err(
                |_| "the token has other than visible ASCII characters; see that the file is the right one",
            )?),
        };
        Ok(Transport { tls, authorization })
    }
}

impl Transport {
    /// The endpoint at `address`, in plain text only if no TLS was asked for: a leader's address cannot switch TLS off.
    pub(super) fn endpoint(&self, address: &str) -> Result<Endpoint, String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let wrong = |e: tonic::transport::Error| format!("the endpoint {address:?} is not usable: {e}");
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).map_err(wrong)?;
        let endpoint = ha_rpc::endpoint(endpoint, CONNECT_TIMEOUT);
        match &self.tls {
            None => Ok(endpoint),
            Some(tls) => endpoint.tls_config(tls.clone()).map_err(wrong),
        }
    }
}

fn tls_config(tls: &ClientTls) -> Result<ClientTlsConfig, String> {
    let read =
        |path: &PathBuf| std::fs::read(path).map_err(|e| format!("the file {} cannot be read: {e}", path.display()));
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(&tls.ca)?));
    if let Some((cert, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(config)
}

fn check_endpoint(text: &str) -> Result<(), String> {
    let wrong = || format!("the endpoint {text:?} is not HOST:PORT; write for example 127.0.0.1:7400, without http://");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    match port.parse::<u16>() {
        Ok(port) if port != 0 && !host.is_empty() && !host.contains('/') => Ok(()),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_endpoints_are_refused_with_the_remedy() {
        for endpoints in
            [vec![], vec!["x"], vec!["http://127.0.0.1:7400"], vec!["h:1", ":1"], vec!["h:0"], vec!["h:70000"]]
        {
            let endpoints = endpoints.into_iter().map(str::to_owned).collect();
            let options = ClientOptions { endpoints, timeout: Duration::from_secs(1), tls: None, token: None };
            let error = options.transport().unwrap_err();
            assert!(error.contains("HOST:PORT"), "{error}");
        }
    }

    #[test]
    fn missing_tls_files_are_named() {
        let tls = ClientTls { ca: "/no/such/ca.pem".into(), identity: None };
        let options = ClientOptions {
            endpoints: vec!["h:1".into()],
            timeout: Duration::from_secs(1),
            tls: Some(tls),
            token: None,
        };
        assert!(options.transport().unwrap_err().contains("/no/such/ca.pem"));
    }
}
