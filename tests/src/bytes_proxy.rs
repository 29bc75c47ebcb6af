//! Owns a TCP proxy that can hold, swallow or cut what passes, one direction and one connection at a time. It knows no protocol.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

/// Most bytes that a held direction keeps before it stops reading.
const MAX_HELD_BYTES: usize = 64 << 20;
const READ_BYTES: usize = 64 << 10;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server: requests.
    ToServer,
    /// From the server to the client: replies.
    ToClient,
}

/// What happens to the bytes of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// They are passed on, first those that were held.
    Pass,
    /// They are kept until passed on or swallowed.
    Hold,
    /// They are read and forgotten, those that were held as well.
    Swallow,
    /// That many of the held bytes are passed on, everything after them is forgotten.
    PassFirst(usize),
}

/// A proxy in front of one server.
#[derive(Debug)]
pub struct BytesProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    connections: Mutex<Vec<ProxyConnection>>,
    /// What a new connection begins with, and whether new ones are let in at all.
    initial: Mutex<Initial>,
}

#[derive(Clone, Copy, Debug)]
struct Initial {
    to_server: Flow,
    to_client: Flow,
    open: bool,
}

/// One connection through the proxy.
#[derive(Clone, Debug)]
pub struct ProxyConnection {
    to_server: Arc<Lane>,
    to_client: Arc<Lane>,
    task: AbortHandle,
}

/// One direction of one connection.
#[derive(Debug)]
struct Lane {
    flow: watch::Sender<Flow>,
    held: watch::Sender<usize>,
}

impl Lane {
    fn new(flow: Flow) -> Arc<Self> {
        Arc::new(Self { flow: watch::Sender::new(flow), held: watch::Sender::new(0) })
    }
}

impl BytesProxy {
    /// Listens on a free port of loopback and passes everything on.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no free port on loopback")?;
        let address = listener.local_addr().context("a bound socket has no address")?;
        let initial = Initial { to_server: Flow::Pass, to_client: Flow::Pass, open: true };
        let shared = Arc::new(Shared { upstream, connections: Mutex::default(), initial: Mutex::new(initial) });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, as a plain-text endpoint.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets a direction of every connection, the later ones included.
    pub fn set(&self, direction: Direction, flow: Flow) {
        {
            let mut initial = self.shared.initial.lock();
            match direction {
                Direction::ToServer => initial.to_server = flow,
                Direction::ToClient => initial.to_client = flow,
            }
        }
        for connection in self.connections() {
            connection.set(direction, flow);
        }
    }

    /// Whether new connections are let in; those that are not are closed at once.
    pub fn set_open(&self, open: bool) {
        self.shared.initial.lock().open = open;
    }

    /// The connections that still live.
    #[must_use]
    pub fn connections(&self) -> Vec<ProxyConnection> {
        let mut connections = self.shared.connections.lock();
        connections.retain(|c| !c.task.is_finished());
        connections.clone()
    }

    /// Cuts every connection; new ones are let in as before.
    pub fn cut(&self) {
        for connection in self.connections() {
            connection.cut();
        }
    }

    /// Bytes held now in that direction, over all connections.
    #[must_use]
    pub fn held_bytes(&self, direction: Direction) -> usize {
        self.connections().iter().map(|c| c.held_bytes(direction)).sum()
    }
}

impl Drop for BytesProxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

impl ProxyConnection {
    /// Sets one direction of this connection.
    pub fn set(&self, direction: Direction, flow: Flow) {
        self.lane(direction).flow.send_replace(flow);
    }

    /// Bytes held now in that direction.
    #[must_use]
    pub fn held_bytes(&self, direction: Direction) -> usize {
        *self.lane(direction).held.borrow()
    }

    /// Closes both ends and forgets what was held.
    pub fn cut(&self) {
        self.task.abort();
    }

    fn lane(&self, direction: Direction) -> &Arc<Lane> {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let initial = *shared.initial.lock();
        if !initial.open {
            continue;
        }
        let (to_server, to_client) = (Lane::new(initial.to_server), Lane::new(initial.to_client));
        let run = connect(client, shared.upstream, Arc::clone(&to_server), Arc::clone(&to_client));
        let task = tokio::spawn(run).abort_handle();
        shared.connections.lock().push(ProxyConnection { to_server, to_client, task });
    }
}

async fn connect(client: TcpStream, upstream: SocketAddr, to_server: Arc<Lane>, to_client: Arc<Lane>) {
    let Ok(server) = TcpStream::connect(upstream).await else { return };
    // Without this the proxy itself would delay small requests.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    // The end of either direction ends both, as the sockets are closed with the task.
    tokio::select! {
        () = pump(client_reads, server_writes, &to_server) => {}
        () = pump(server_reads, client_writes, &to_client) => {}
    }
}

/// Moves bytes one way as the lane's flow says, until an end is closed.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, lane: &Lane) {
    let mut flow = lane.flow.subscribe();
    let mut held: Vec<u8> = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let now = *flow.borrow_and_update();
        match now {
            Flow::Hold => {}
            Flow::Swallow => held.clear(),
            Flow::Pass => {
                if to.write_all(&held).await.is_err() {
                    return;
                }
                held.clear();
            }
            Flow::PassFirst(count) => {
                held.truncate(count);
                if to.write_all(&held).await.is_err() {
                    return;
                }
                held.clear();
                lane.flow.send_replace(Flow::Swallow);
                continue;
            }
        }
        lane.held.send_replace(held.len());
        tokio::select! {
            changed = flow.changed() => if changed.is_err() { return },
            read = from.read(&mut buffer), if held.len() < MAX_HELD_BYTES => match read {
                Ok(0) | Err(_) => return,
                Ok(count) => held.extend_from_slice(&buffer[..count]),
            },
        }
    }
}

#[cfg(test)]
mod tests;
