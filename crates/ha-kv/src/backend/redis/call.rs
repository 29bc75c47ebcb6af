//! Owns one call: its nonce, its bound, its reply. A call is sent once; only a script that the server does not know, which proves that
//! nothing ran, is sent in full.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use ha_types::Entropy;
use parking_lot::Mutex;
use redis::{Cmd, Value};
use tokio::time::timeout;

use super::answer::{Answer, Reply};
use super::error::{Access, Failure, FollowUp, is_unknown_script};
use super::link::{Link, Live};
use super::options::RedisOptions;
use super::script::{Keys, Operation};
use crate::{Capabilities, DurableAck, KvError};

/// What a call sends beside the head that every script has.
pub(super) struct Request<'a> {
    pub(super) access: Access,
    pub(super) operation: Operation,
    /// The key of a lease, for the operations that have one.
    pub(super) lease: Option<String>,
    pub(super) arguments: Vec<&'a [u8]>,
}

/// The store as its handles share it.
pub(super) struct Inner {
    options: RedisOptions,
    pub(super) keys: Keys,
    pub(super) entropy: Arc<dyn Entropy>,
    link: Link,
    /// Of this client alone; with a counter behind it, of one request alone.
    nonce: u64,
    requests: AtomicU64,
    /// The id of the store, once it was met.
    store: Mutex<Option<String>>,
}

impl Inner {
    /// Connects.
    pub(super) async fn open(options: RedisOptions, entropy: Arc<dyn Entropy>) -> Result<Self, KvError> {
        let keys = Keys::of(&options);
        let [values, ..] = &keys.all;
        let link = Link::new(&options, values.clone())?;
        let nonce = entropy.next_u64();
        let inner = Self { options, keys, entropy, link, nonce, requests: AtomicU64::new(0), store: Mutex::new(None) };
        let limit = inner.options.request_timeout;
        // Silent servers take the time of those behind them; each attempt begins with another one.
        for _ in inner.options.servers.addresses() {
            if let Ok(live) = timeout(limit, inner.link.live(&inner.options)).await {
                return live.map(drop).map_err(|failure| failure.error).map(|()| inner);
            }
        }
        Err(Failure::timed_out(Access::Read, false, &inner.link.address(), limit).error)
    }

    pub(super) fn options(&self) -> &RedisOptions {
        &self.options
    }

    /// Where the store is.
    pub(super) fn server(&self) -> String {
        self.link.address()
    }

    /// What the store can promise.
    pub(super) fn capabilities(&self) -> Capabilities {
        let durable_ack: DurableAck = self.link.durable_ack();
        Capabilities {
            backend: "redis",
            txn: true,
            durable_ack,
            // A master that was cut off goes on answering until it hears that it is none.
            linearizable_read: matches!(self.options.servers, super::RedisServers::Single(_)),
            max_value_bytes: self.options.max_txn_bytes,
            max_txn_bytes: self.options.max_txn_bytes,
            max_txn_ops: self.options.max_txn_ops,
            max_reply_bytes: self.options.max_reply_bytes,
        }
    }

    /// The largest value that a script answers: one pair may be above the page limit.
    pub(super) fn largest_value(&self) -> String {
        self.options.max_txn_bytes.max(self.options.max_reply_bytes).to_string()
    }

    /// Runs one call within the request timeout. A failure decides whether the next call connects anew, and so does a caller that gives
    /// up on a slow answer.
    pub(super) async fn call(&self, request: Request<'_>) -> Result<Answer, KvError> {
        let (limit, access) = (self.options.request_timeout, request.access);
        let mut asked = Asked { inner: self, live: None, slow: false, ended: false };
        let result = match timeout(limit, asked.run(request)).await {
            Ok(result) => result,
            Err(_) => Err(Failure::timed_out(access, asked.live.is_some(), &self.link.address(), limit)),
        };
        asked.ended = true;
        result.map_err(|failure| {
            if let Some(live) = &asked.live {
                self.link.follow_up(live, failure.follow_up);
            }
            failure.error
        })
    }

    async fn send(&self, live: &mut Live, request: Request<'_>) -> Result<Answer, Failure> {
        let nonce = format!("{:016x}-{}", self.nonce, self.requests.fetch_add(1, Ordering::Relaxed));
        let known = self.store.lock().clone().unwrap_or_default();
        // Only a store without an id takes it; drawn each time, because one that was sent may have been used.
        let candidate = if known.is_empty() { format!("{:016x}", self.entropy.next_u64()) } else { String::new() };
        let head = [nonce.as_str(), &known, &candidate];
        let by_name = self.command("EVALSHA", request.operation.hash(), &head, &request);
        let answered: Result<Value, _> = by_name.query_async(&mut live.connection).await;
        let answered = match answered {
            Err(error) if is_unknown_script(&error) => {
                let in_full = self.command("EVAL", request.operation.source(), &head, &request);
                in_full.query_async(&mut live.connection).await
            }
            answered => answered,
        };
        let value = answered.map_err(|error| Failure::of(error, request.access, &live.address))?;
        let reply = Reply::read(value, &nonce, request.access, &live.address)?;
        if known.is_empty() && !reply.store.is_empty() {
            self.store.lock().get_or_insert_with(|| reply.store.clone());
        }
        reply.judge(request.access, &live.address)
    }

    fn command(&self, name: &str, script: &str, head: &[&str; 3], request: &Request<'_>) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.keys.all.len() + usize::from(request.lease.is_some()));
        command.arg(&self.keys.all[..]).arg(request.lease.as_deref()).arg(&head[..]);
        for argument in &request.arguments {
            command.arg(*argument);
        }
        command
    }
}

/// A call that waits for its answer. A caller with less patience than the request timeout drops it unanswered; without this its next
/// call would go to the same silent connection, for ever.
struct Asked<'a> {
    inner: &'a Inner,
    /// The connection that the request was handed to.
    live: Option<Live>,
    /// Whether the answer takes so long that the connection is to blame if it is not waited for.
    slow: bool,
    ended: bool,
}

impl Asked<'_> {
    async fn run(&mut self, request: Request<'_>) -> Result<Answer, Failure> {
        let live = self.inner.link.live(&self.inner.options).await?;
        self.live = Some(live.clone());
        self.wait_for(live, request).await
    }

    async fn wait_for(&mut self, mut live: Live, request: Request<'_>) -> Result<Answer, Failure> {
        let inner = self.inner;
        let work: std::pin::Pin<&mut (dyn Future<Output = _> + Send)> = pin!(inner.send(&mut live, request));
        let mut work = work;
        if let Ok(answer) = timeout(inner.options.request_timeout / 4, work.as_mut()).await {
            return answer;
        }
        self.slow = true;
        work.await
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let (Some(live), true, false) = (&self.live, self.slow, self.ended) {
            self.inner.link.follow_up(live, FollowUp::Reconnect);
        }
    }
}

/// The values that an answer brought, one after the other.
pub(super) fn values(answer: Vec<Value>) -> impl Iterator<Item = Option<Bytes>> {
    answer.into_iter().map(|value| super::answer::bytes(Some(value)))
}
