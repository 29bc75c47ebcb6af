//! Owns the one connection: made when it is missing, dropped after a failure, its server judged each time. It repeats nothing.

use std::sync::OnceLock;

use parking_lot::Mutex as SyncMutex;
use redis::aio::MultiplexedConnection;
use tokio::sync::Mutex;

use super::admit::admit;
use super::connect::Connector;
use super::error::{Failure, FollowUp};
use super::locate::{self, Turn};
use super::options::{RedisOptions, RedisServers};
use crate::{DurableAck, Effect, KvError, KvErrorKind};

/// A connection that was admitted.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) connection: MultiplexedConnection,
    pub(super) address: String,
    /// Which connection it is, counted from 1.
    turn: u64,
}

/// The connection, and what is remembered over its losses.
pub(super) struct Link {
    connector: Connector,
    key: String,
    turn: Turn,
    live: SyncMutex<Option<Live>>,
    /// One makes a connection, the others wait for it. The number of the last one made.
    connecting: Mutex<u64>,
    /// Where the last connection went.
    address: SyncMutex<String>,
    /// What the first server said.
    durable: OnceLock<DurableAck>,
    /// Why this client is at its end.
    ended: OnceLock<String>,
}

impl Link {
    /// A link that connects when it is first used. `key` is any key of the store: it says which node of a cluster serves it.
    pub(super) fn new(options: &RedisOptions, key: String) -> Result<Self, KvError> {
        let address = options.servers.addresses().join(",");
        Ok(Self {
            connector: Connector::new(options)?,
            key,
            turn: Turn::default(),
            live: SyncMutex::new(None),
            connecting: Mutex::new(0),
            address: SyncMutex::new(address),
            durable: OnceLock::new(),
            ended: OnceLock::new(),
        })
    }

    /// The connection, made anew if there is none. Whatever fails here, no request was sent.
    pub(super) async fn live(&self, options: &RedisOptions) -> Result<Live, Failure> {
        if let Some(live) = self.current()? {
            return Ok(live);
        }
        let mut made = self.connecting.lock().await;
        if let Some(live) = self.current()? {
            return Ok(live);
        }
        let (mut connection, address) = locate::connect(&self.connector, options, &self.key, &self.turn).await?;
        self.address.lock().clone_from(&address);
        let facts = match admit(&mut connection, options, &address).await {
            Ok(facts) => facts,
            // A server that became a replica has lost its durability, and with it this client's.
            Err(failure) if failure.error.kind == KvErrorKind::ReadOnly && self.was_durable() => {
                return Err(self.end(&address, &failure.error.message));
            }
            Err(failure) => return Err(failure),
        };
        let durable = facts.durable_ack(&options.servers);
        if let DurableAck::No { reason } = &durable
            && self.was_durable()
        {
            return Err(self.end(&address, reason));
        }
        // A better answer than the first one is not taken: what was written before rests on the worse one.
        let _ = self.durable.set(durable);
        *made += 1;
        // A node that is cut off from its cluster names itself for ever: the next look-up asks another one.
        if !matches!(options.servers, RedisServers::Cluster(_)) {
            self.turn.stay();
        }
        let live = Live { connection, address, turn: *made };
        *self.live.lock() = Some(live.clone());
        Ok(live)
    }

    /// Does what a failure asks for before the next call. Calls that failed together drop their own connection only.
    pub(super) fn follow_up(&self, live: &Live, follow_up: FollowUp) {
        if follow_up == FollowUp::Reconnect {
            let mut current = self.live.lock();
            if current.as_ref().is_some_and(|current| current.turn == live.turn) {
                *current = None;
            }
        }
    }

    /// Where the last connection went, or where the first one would.
    pub(super) fn address(&self) -> String {
        self.address.lock().clone()
    }

    /// What the first server said; no before it did.
    pub(super) fn durable_ack(&self) -> DurableAck {
        let unasked = || DurableAck::No { reason: "the Redis server was not asked yet".into() };
        self.durable.get().cloned().unwrap_or_else(unasked)
    }

    fn was_durable(&self) -> bool {
        self.durable.get().is_some_and(DurableAck::is_yes)
    }

    fn current(&self) -> Result<Option<Live>, Failure> {
        match self.ended.get() {
            Some(why) => Err(ended(why)),
            None => Ok(self.live.lock().clone()),
        }
    }

    /// Ends the client for good.
    fn end(&self, address: &str, reason: &str) -> Failure {
        let why = self.ended.get_or_init(|| {
            format!(
                "Redis at {address} kept what it acknowledged when this client began, and no longer does ({reason}); what was \
                 acknowledged may be lost: look at the log, then start anew"
            )
        });
        ended(why)
    }
}

fn ended(why: &str) -> Failure {
    Failure::new(KvErrorKind::WrongStore, Effect::NotApplied, FollowUp::Stay, why.to_owned())
}
