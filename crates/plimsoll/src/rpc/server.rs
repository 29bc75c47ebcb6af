//! Owns the gRPC server: its port, TLS and services. It is up whatever the node's role.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use super::admin::AdminService;
use super::auth;
use super::metadata::MetadataService;
use crate::config::{Secret, TlsFiles};
use crate::node::Shared;

/// A server whose TLS files were read and whose port is ours.
pub(crate) struct GrpcServer {
    listener: TcpListener,
    server: Server,
    token: Option<Secret>,
}

/// Takes the port `address`.
///
/// # Errors
/// One sentence that names the port and the remedy.
pub(crate) async fn bind(setting: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => {
            bail!("{setting} is {address}, a port that another process uses; stop that process or choose another port")
        }
        Err(e) => bail!("{setting} is {address}, which cannot be listened on ({e}); choose another address"),
    }
}

impl GrpcServer {
    /// Takes the port and reads the TLS files; answers nothing yet.
    ///
    /// # Errors
    /// One sentence that names the port or the file.
    pub(crate) async fn bind(
        listen: SocketAddr,
        tls: Option<&TlsFiles>,
        token: Option<Secret>,
    ) -> anyhow::Result<Self> {
        let mut server = ha_rpc::server();
        if let Some(tls) = tls {
            server = server.tls_config(tls_config(tls)?).with_context(|| {
                format!("tls.cert {} and tls.key {} make no TLS server", tls.cert.display(), tls.key.display())
            })?;
        }
        Ok(Self { listener: bind("listen", listen).await?, server, token })
    }

    /// The port that was taken.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `end`, then lets the open calls end.
    ///
    /// # Errors
    /// The server's, which ends the node.
    pub(crate) async fn run(mut self, node: Arc<Shared>, end: impl Future<Output = ()>) -> anyhow::Result<()> {
        let auth = auth::check(self.token);
        let metadata = ha_rpc::metadata_server(MetadataService::new(Arc::clone(&node)));
        let admin = ha_rpc::admin_server(AdminService::new(node));
        self.server
            .add_service(InterceptedService::new(metadata, auth.clone()))
            .add_service(InterceptedService::new(admin, auth))
            .serve_with_incoming_shutdown(TcpListenerStream::new(self.listener), end)
            .await
            .context("the gRPC server ended")
    }
}

fn tls_config(tls: &TlsFiles) -> anyhow::Result<ServerTlsConfig> {
    let read = |path: &Path| std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()));
    let mut config = ServerTlsConfig::new().identity(Identity::from_pem(read(&tls.cert)?, read(&tls.key)?));
    if let Some(ca) = &tls.client_ca {
        config = config.client_ca_root(Certificate::from_pem(read(ca)?));
    }
    Ok(config)
}
