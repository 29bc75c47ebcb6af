//! Owns one connection: TCP, TLS, and the library's pipeline over it. It sends nothing by itself and never connects again.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use super::error::{Failure, FollowUp};
use super::options::RedisOptions;
use crate::backend::tls::Tls;
use crate::{Effect, KvError, KvErrorKind};

/// How connections are made.
pub(super) struct Connector {
    timeout: Duration,
    tls: Option<(TlsConnector, Option<String>)>,
}

impl Connector {
    /// # Errors
    /// `InvalidArgument` if a certificate or a key does not parse.
    pub(super) fn new(options: &RedisOptions) -> Result<Self, KvError> {
        let tls = options.tls.as_ref().map(|tls| Ok((tls_connector(tls)?, tls.domain.clone()))).transpose();
        let tls = tls.map_err(|what: String| {
            KvError::read(KvErrorKind::InvalidArgument, format!("TLS for Redis cannot be set up: {what}"))
        })?;
        Ok(Self { timeout: options.connect_timeout, tls })
    }

    /// The longest wait for a connection.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Connects to `address`. No request was sent when this fails: the proof of `NotApplied`.
    pub(super) async fn connect(&self, address: &str) -> Result<MultiplexedConnection, Failure> {
        match timeout(self.timeout, self.open(address)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(refused(address, error, self.tls.is_some())),
            Err(_) => {
                let text = format!("Redis at {address} could not be connected to within {:?}", self.timeout);
                Err(Failure::new(KvErrorKind::Timeout, Effect::NotApplied, FollowUp::Reconnect, text))
            }
        }
    }

    async fn open(&self, address: &str) -> io::Result<MultiplexedConnection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let Some((tls, domain)) = &self.tls else { return pipeline(stream).await };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
        let name = domain.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        pipeline(tls.connect(name, stream).await?).await
    }
}

/// The library's pipeline. It is given neither user nor database: what it would send by itself is sent, and understood, in `admit`.
async fn pipeline<S>(stream: S) -> io::Result<MultiplexedConnection>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let info = RedisConnectionInfo::default().set_skip_set_lib_name();
    // Calls have their own bound, which also knows whether the request was sent.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let made = MultiplexedConnection::new_with_config(&info, stream, config).await;
    let (connection, driver) = made.map_err(io::Error::other)?;
    tokio::spawn(driver);
    Ok(connection)
}

fn refused(address: &str, error: io::Error, tls: bool) -> Failure {
    let (kind, text) = if tls && error.kind() == io::ErrorKind::InvalidData {
        let remedy = "check the CA, the certificate's name and that the server speaks TLS";
        (KvErrorKind::Auth, format!("TLS with Redis at {address} failed: {error}; {remedy}"))
    } else {
        (KvErrorKind::Unavailable, format!("Redis at {address} cannot be reached: {error}"))
    };
    Failure::new(kind, Effect::NotApplied, FollowUp::Reconnect, text).caused_by(error)
}

fn tls_connector(tls: &Tls) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_slice_iter(tls.ca_pem.as_bytes()) {
        let cert = cert.map_err(|e| format!("the CA certificate is no PEM ({e})"))?;
        roots.add(cert).map_err(|e| format!("the CA certificate cannot be used ({e})"))?;
    }
    // One provider by name: which features other crates switch on must not decide it.
    let provider = Arc::new(crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| e.to_string())?.with_root_certificates(roots);
    let config = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(identity.cert_pem.as_bytes()).collect();
            let chain = chain.map_err(|e| format!("the client certificate is no PEM ({e})"))?;
            let key = PrivateKeyDer::from_pem_slice(identity.key_pem.expose().as_bytes())
                .map_err(|e| format!("the client key is no PEM ({e})"))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|e| format!("certificate and key of the client do not fit ({e})"))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}
