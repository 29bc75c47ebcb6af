//! Owns which server the next connection goes to: the one named, the one the sentinels call the master, or the one that serves the slot.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::Value;
use redis::aio::MultiplexedConnection;

use super::admit::{ask, authenticate};
use super::answer::bytes;
use super::connect::Connector;
use super::error::{Access, Failure, FollowUp};
use super::options::{RedisCredentials, RedisOptions, RedisServers};
use crate::{Effect, KvErrorKind};

/// Which of the servers named is asked first. The silent ones may take all of a call's time; whoever looks up next, even after a call
/// that was given up in the middle, must not begin with them again.
#[derive(Debug, Default)]
pub(super) struct Turn {
    first: AtomicUsize,
    asked: AtomicUsize,
}

impl Turn {
    /// The server to ask now. The next one is the one after it, unless [`Self::stay`] is called.
    fn take<'a>(&self, servers: &'a [String]) -> Option<&'a str> {
        let at = self.first.load(Ordering::Relaxed).checked_rem(servers.len())?;
        self.asked.store(at, Ordering::Relaxed);
        self.first.store(at + 1, Ordering::Relaxed);
        servers.get(at).map(String::as_str)
    }

    /// What the last one asked named could be used: it is asked first again.
    pub(super) fn stay(&self) {
        self.first.store(self.asked.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The address of the server that holds the store now.
pub(super) async fn locate(
    connector: &Connector,
    options: &RedisOptions,
    key: &str,
    turn: &Turn,
) -> Result<String, Failure> {
    match &options.servers {
        RedisServers::Single(address) => Ok(address.clone()),
        RedisServers::Sentinel { sentinels, master, credentials } => {
            let ask = |sentinel| ask_sentinel(connector, sentinel, master, credentials.as_ref());
            first_answer(sentinels, turn, ask).await
        }
        RedisServers::Cluster(nodes) => {
            first_answer(nodes, turn, |node| ask_node(connector, node, key, options.credentials.as_ref())).await
        }
    }
}

/// The first answer, in turn. Only silence is forgiven.
async fn first_answer<'a, F, Fut>(servers: &'a [String], turn: &Turn, ask: F) -> Result<String, Failure>
where
    F: Fn(&'a str) -> Fut,
    Fut: Future<Output = Result<String, Failure>>,
{
    let mut last = None;
    for _ in servers {
        let Some(server) = turn.take(servers) else { break };
        match ask(server).await {
            Ok(address) => return Ok(address),
            Err(failure) if is_silence(failure.error.kind) => last = Some(failure),
            Err(failure) => return Err(failure),
        }
        // If the caller's time is over too, that is seen here, before the next one's turn is spent on no time at all.
        tokio::task::yield_now().await;
    }
    Err(last.unwrap_or_else(|| unavailable("no Redis server is named".into())))
}

fn is_silence(kind: KvErrorKind) -> bool {
    matches!(kind, KvErrorKind::Unavailable | KvErrorKind::Timeout | KvErrorKind::Busy)
}

fn unavailable(sentence: String) -> Failure {
    Failure::new(KvErrorKind::Unavailable, Effect::NotApplied, FollowUp::Reconnect, sentence)
}

/// One question, which a server that accepts connections and never answers may not take the others' time for.
async fn bounded<T>(
    connector: &Connector,
    address: &str,
    question: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let limit = connector.timeout();
    match tokio::time::timeout(limit, question).await {
        Ok(answer) => answer,
        Err(_) => Err(Failure::timed_out(Access::Read, true, address, limit)),
    }
}

async fn ask_sentinel(
    connector: &Connector,
    sentinel: &str,
    master: &str,
    credentials: Option<&RedisCredentials>,
) -> Result<String, Failure> {
    let mut connection = connector.connect(sentinel).await?;
    let question = async {
        authenticate(&mut connection, credentials, sentinel).await?;
        let mut command = redis::cmd("SENTINEL");
        command.arg("get-master-addr-by-name").arg(master);
        match ask(&mut connection, &command, sentinel).await? {
            Value::Array(pair) => address_of(pair.first(), pair.get(1), sentinel)
                .ok_or_else(|| unavailable(format!("the sentinel at {sentinel} named no address for {master}"))),
            _ => Err(unavailable(format!("the sentinel at {sentinel} does not know a master called {master}"))),
        }
    };
    bounded(connector, sentinel, question).await
}

async fn ask_node(
    connector: &Connector,
    node: &str,
    key: &str,
    credentials: Option<&RedisCredentials>,
) -> Result<String, Failure> {
    let mut connection = connector.connect(node).await?;
    let question = async {
        authenticate(&mut connection, credentials, node).await?;
        let slot = match ask(&mut connection, redis::cmd("CLUSTER").arg("KEYSLOT").arg(key), node).await? {
            Value::Int(slot) => slot,
            _ => return Err(unavailable(format!("Redis at {node} named no slot for {key}"))),
        };
        let slots = ask(&mut connection, redis::cmd("CLUSTER").arg("SLOTS"), node).await?;
        owner_of(slots, slot, node)
            .ok_or_else(|| unavailable(format!("nobody in the cluster of {node} serves slot {slot}; cover it first")))
    };
    bounded(connector, node, question).await
}

/// The master of a slot, out of `CLUSTER SLOTS`: lists of first slot, last slot, master, replicas.
fn owner_of(slots: Value, slot: i64, asked: &str) -> Option<String> {
    let Value::Array(ranges) = slots else { return None };
    ranges.into_iter().find_map(|range| {
        let Value::Array(range) = range else { return None };
        match range.as_slice() {
            [Value::Int(first), Value::Int(last), Value::Array(master), ..] if (*first..=*last).contains(&slot) => {
                address_of(master.first(), master.get(1), asked)
            }
            _ => None,
        }
    })
}

/// Host and port. A node that does not know its own host means the one that was asked.
fn address_of(host: Option<&Value>, port: Option<&Value>, asked: &str) -> Option<String> {
    let host = bytes(host.cloned()).map_or_else(Default::default, |host| String::from_utf8_lossy(&host).into_owned());
    let port = match port? {
        Value::Int(port) => u16::try_from(*port).ok()?,
        text => String::from_utf8_lossy(&bytes(Some(text.clone()))?).parse().ok()?,
    };
    if host.is_empty() || host == "?" {
        let (host, _) = asked.rsplit_once(':')?;
        return Some(format!("{host}:{port}"));
    }
    Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// Connects to the server that holds the store now; its admission is the caller's.
pub(super) async fn connect(
    connector: &Connector,
    options: &RedisOptions,
    key: &str,
    turn: &Turn,
) -> Result<(MultiplexedConnection, String), Failure> {
    let address = locate(connector, options, key, turn).await?;
    Ok((connector.connect(&address).await?, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let master = Value::Array(vec![host, Value::Int(port), text("id")]);
        Value::Array(vec![Value::Int(first), Value::Int(last), master])
    }

    #[test]
    fn the_owner_of_a_slot_is_found_at_both_ends_of_its_range() {
        let slots = || Value::Array(vec![range(0, 99, text("a"), 1), range(100, 200, text("::1"), 2)]);
        for (slot, owner) in
            [(0, Some("a:1")), (99, Some("a:1")), (100, Some("[::1]:2")), (200, Some("[::1]:2")), (201, None)]
        {
            assert_eq!(owner_of(slots(), slot, "s:9").as_deref(), owner, "{slot}");
        }
        assert_eq!(owner_of(Value::Nil, 0, "s:9"), None);
        assert_eq!(owner_of(Value::Array(vec![Value::Array(vec![])]), 0, "s:9"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn silent_servers_do_not_keep_the_others_from_being_asked() {
        let servers = ["mute", "deaf", "good", "late"].map(String::from);
        let (turn, asked) = (Turn::default(), parking_lot::Mutex::new(Vec::new()));
        let ask = |server: &str| {
            asked.lock().push(server.to_owned());
            let silent = server == "mute" || server == "deaf";
            let answer = format!("the master by {server}");
            async move { if silent { std::future::pending().await } else { Ok(answer) } }
        };
        // The first one takes all the time that the caller has.
        let second = std::time::Duration::from_secs(1);
        let mut calls = 0;
        let answer = loop {
            calls += 1;
            assert!(calls <= servers.len(), "each call begins with a silent one: {:?}", asked.lock());
            if let Ok(answer) = tokio::time::timeout(second, first_answer(&servers, &turn, ask)).await {
                break answer.unwrap();
            }
        };
        assert_eq!(answer, "the master by good");
        // It was of use, so it is asked first again; what it named was not, so another is.
        turn.stay();
        assert_eq!(first_answer(&servers, &turn, ask).await.unwrap(), "the master by good");
        assert_eq!(first_answer(&servers, &turn, ask).await.unwrap(), "the master by late");
        assert_eq!(*asked.lock(), ["mute", "deaf", "good", "good", "late"]);
        assert_eq!(turn.take(&[]), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_turn_is_spent_on_a_server_that_is_left_no_time() {
        let servers = ["mute", "deaf", "good"].map(String::from);
        let second = std::time::Duration::from_secs(1);
        let (turn, asked) = (Turn::default(), parking_lot::Mutex::new(Vec::new()));
        // A silent one may take as long as the whole call: both bounds are reached at once.
        let ask = |server: &str| {
            asked.lock().push(server.to_owned());
            let silent = server != "good";
            async move {
                if !silent {
                    return Ok("the master".to_owned());
                }
                let _ = tokio::time::timeout(second, std::future::pending::<()>()).await;
                Err(Failure::new(KvErrorKind::Timeout, Effect::NotApplied, FollowUp::Reconnect, "silent".into()))
            }
        };
        for _ in 0..2 {
            assert!(tokio::time::timeout(second, first_answer(&servers, &turn, ask)).await.is_err());
        }
        assert_eq!(first_answer(&servers, &turn, ask).await.unwrap(), "the master");
        assert_eq!(*asked.lock(), ["mute", "deaf", "good"]);
    }

    #[test]
    fn a_node_without_a_host_is_the_one_that_was_asked() {
        let nil = Value::Array(vec![range(0, 99, Value::Nil, 7)]);
        assert_eq!(owner_of(nil, 5, "seed:9").as_deref(), Some("seed:7"));
        assert_eq!(address_of(Some(&text("h")), Some(&text("66000")), "s:1"), None, "no such port");
        assert_eq!(address_of(Some(&text("h")), None, "s:1"), None);
    }
}
