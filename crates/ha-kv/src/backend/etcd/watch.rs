//! Owns watches: etcd's events become hints, and a stream that says nothing is asked for a sign of life.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{WatchOptions, WatchResponse, WatchStream};
use tokio::time::timeout;

use super::EtcdKv;
use super::error::{Access, Failure, FollowUp};
use super::kv::holds_keys;
use super::pool::{Pool, Reply};
use crate::{Effect, HintSender, HintStream, KvError, KvErrorKind, WatchKv, hint_channel};

#[async_trait]
impl WatchKv for EtcdKv {
    /// A watch ends with an error when its member does not answer; the next one is set up on another member. A watcher that fell
    /// behind a compaction is set up anew by itself, as no hint needs the past.
    async fn watch(&self, start: &[u8], end: &[u8]) -> Result<HintStream, KvError> {
        let (sender, hints) = hint_channel();
        self.capabilities.check_key(start)?;
        if !holds_keys(start, end) {
            // No key can ever change there: a watch that stays silent until nobody listens.
            tokio::spawn(async move { sender.closed().await });
            return Ok(hints);
        }
        let watch = Watch { pool: Arc::clone(&self.pool), start: start.to_vec(), end: end.to_vec() };
        let open = watch.open().await?;
        tokio::spawn(watch.run(open, sender));
        Ok(hints)
    }
}

/// What is watched.
struct Watch {
    pool: Arc<Pool>,
    start: Vec<u8>,
    end: Vec<u8>,
}

/// A watch that the server has confirmed.
struct Open {
    stream: WatchStream,
    endpoint: String,
    turn: usize,
}

/// What a message means to the reader of hints.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    Changed,
    /// A sign of life.
    Alive,
    /// The server dropped the watch, but another one may be set up at once.
    Renew,
    Ended(String),
}

impl Watch {
    /// Sets the watch up and waits until the server confirms it.
    async fn open(&self) -> Result<Open, KvError> {
        let turn = self.pool.turn();
        let options = WatchOptions::new().with_range(self.end.clone()).with_fragment();
        let start = self.start.clone();
        let (stream, endpoint, refusal) = self
            .pool
            .call(Access::Read, |member| {
                let (mut watch, endpoint) = (member.watch(self.pool.options()), member.endpoint.clone());
                async move {
                    let mut stream = watch.watch(start, Some(options)).await?;
                    let first = stream.message().await?;
                    let header = first.as_ref().and_then(WatchResponse::header).cloned();
                    Ok(Reply::new(header.as_ref(), (stream, endpoint, refusal(first.as_ref()))))
                }
            })
            .await?;
        match refusal {
            None => Ok(Open { stream, endpoint, turn }),
            Some(text) => Err(self.pool.stream_failed(turn, Failure::of_text(&text, &endpoint))),
        }
    }

    /// Turns messages into hints until nobody listens or the watch fails.
    async fn run(self, mut open: Open, sender: HintSender) {
        // Whatever changed before the watch stood is covered by this hint.
        sender.hint();
        loop {
            let next = tokio::select! {
                () = sender.closed() => return,
                next = self.next(&mut open) => next,
            };
            let failure = match next {
                Ok(Meaning::Alive) => continue,
                Ok(Meaning::Changed) => {
                    sender.hint();
                    continue;
                }
                Ok(Meaning::Renew) => match self.open().await {
                    Ok(renewed) => {
                        open = renewed;
                        sender.hint();
                        continue;
                    }
                    Err(e) => return sender.fail(e).await,
                },
                Ok(Meaning::Ended(text)) => Failure::of_text(&text, &open.endpoint),
                Err(failure) => failure,
            };
            return sender.fail(self.pool.stream_failed(open.turn, failure)).await;
        }
    }

    /// The next message. After a quiet while the server is asked to say anything at all, and has one request timeout to do so.
    async fn next(&self, open: &mut Open) -> Result<Meaning, Failure> {
        let (quiet, limit) = (self.pool.options().keep_alive, self.pool.options().request_timeout);
        if let Ok(message) = timeout(quiet, open.stream.message()).await {
            return understand(message, &open.endpoint);
        }
        let sign = async {
            open.stream.request_progress().await?;
            open.stream.message().await
        };
        match timeout(limit, sign).await {
            Ok(message) => understand(message, &open.endpoint),
            Err(_) => Err(silent(&open.endpoint, limit)),
        }
    }
}

fn silent(endpoint: &str, limit: Duration) -> Failure {
    Failure::timed_out(Access::Read, true, endpoint, limit)
}

/// Why the first message does not confirm the watch.
fn refusal(first: Option<&WatchResponse>) -> Option<String> {
    match first {
        Some(first) if first.created() && !first.canceled() => None,
        Some(first) if !first.cancel_reason().is_empty() => Some(first.cancel_reason().to_owned()),
        Some(_) => Some("the watch was refused without a reason".to_owned()),
        None => Some("the watch ended before it began".to_owned()),
    }
}

fn understand(message: Result<Option<WatchResponse>, etcd_client::Error>, endpoint: &str) -> Result<Meaning, Failure> {
    match message {
        Ok(Some(message)) => Ok(meaning(
            message.canceled(),
            message.compact_revision(),
            message.cancel_reason(),
            !message.events().is_empty(),
        )),
        Ok(None) => {
            let text = format!("etcd at {endpoint} ended the watch");
            Err(Failure::new(KvErrorKind::Unavailable, Effect::NotApplied, FollowUp::Rotate, text))
        }
        Err(error) => match Failure::of(error, Access::Read, endpoint) {
            // The change is larger than the reply limit: that there was one is all a hint says.
            failure if failure.error.kind == KvErrorKind::TooLarge => Ok(Meaning::Renew),
            failure => Err(failure),
        },
    }
}

fn meaning(canceled: bool, compact_revision: i64, reason: &str, events: bool) -> Meaning {
    match (canceled, events) {
        (true, _) if compact_revision > 0 => Meaning::Renew,
        (true, _) => Meaning::Ended(if reason.is_empty() { "the watch was cancelled".into() } else { reason.into() }),
        (false, true) => Meaning::Changed,
        (false, false) => Meaning::Alive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_behind_a_compaction_is_renewed_and_any_other_end_is_told() {
        assert_eq!(meaning(true, 7, "mvcc: required revision has been compacted", false), Meaning::Renew);
        assert_eq!(meaning(true, 0, "etcdserver: no leader", false), Meaning::Ended("etcdserver: no leader".into()));
        assert_eq!(meaning(true, 0, "", false), Meaning::Ended("the watch was cancelled".into()));
        assert_eq!(meaning(false, 0, "", true), Meaning::Changed);
        assert_eq!(meaning(false, 0, "", false), Meaning::Alive);
    }
}
