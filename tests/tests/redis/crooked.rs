//! Owns a proxy that can give a client the server's last reply a second time, in front of the next one.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A proxy for clients that wait for each reply before the next request: one read is then one reply.
pub(crate) struct Crooked {
    address: SocketAddr,
    repeat: Arc<AtomicBool>,
    accepting: JoinHandle<()>,
}

impl Crooked {
    pub(crate) async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let repeat = Arc::new(AtomicBool::new(false));
        let accepting = tokio::spawn(accept(listener, upstream, Arc::clone(&repeat)));
        Self { address, repeat, accepting }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Once.
    pub(crate) fn repeat_last_reply(&self) {
        self.repeat.store(true, Ordering::SeqCst);
    }
}

impl Drop for Crooked {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, repeat: Arc<AtomicBool>) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(serve(client, upstream, Arc::clone(&repeat)));
    }
}

async fn serve(client: TcpStream, upstream: SocketAddr, repeat: Arc<AtomicBool>) {
    let Ok(server) = TcpStream::connect(upstream).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let requests = async { tokio::io::copy(&mut from_client, &mut to_server).await.map(drop) };
    let replies = async {
        let (mut buffer, mut last) = (vec![0; 64 << 10], Vec::new());
        loop {
            let count = from_server.read(&mut buffer).await?;
            if count == 0 {
                return std::io::Result::Ok(());
            }
            if repeat.swap(false, Ordering::SeqCst) {
                to_client.write_all(&last).await?;
            }
            last = buffer[..count].to_vec();
            to_client.write_all(&last).await?;
        }
    };
    let _ = tokio::select! {
        ended = requests => ended,
        ended = replies => ended,
    };
}
