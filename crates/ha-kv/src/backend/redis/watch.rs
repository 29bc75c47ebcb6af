//! Owns hints: while somebody watches, the store's change counter is asked for at an interval. It reads no key.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::RedisKv;
use crate::{HintSender, HintStream, KvError, WatchKv, hint_channel};

#[async_trait]
impl WatchKv for RedisKv {
    /// Hints come at each change of the store, whatever its key, at most one a watch interval. A watch ends with an error when the
    /// server does not answer. That a lease ran out is no change.
    async fn watch(&self, start: &[u8], end: &[u8]) -> Result<HintStream, KvError> {
        self.inner.capabilities().check_key(start)?;
        let (sender, hints) = hint_channel();
        if start >= end {
            // No key can ever change there: a watch that stays silent until nobody listens.
            tokio::spawn(async move { sender.closed().await });
            return Ok(hints);
        }
        let seen = self.look().await?;
        let store = Self { inner: Arc::clone(&self.inner) };
        tokio::spawn(store.tell(seen, sender));
        Ok(hints)
    }
}

impl RedisKv {
    /// Turns changes of the counter into hints until nobody listens or the server does not answer.
    async fn tell(self, mut seen: Bytes, sender: HintSender) {
        // Whatever changed before the watch stood is covered by this hint.
        sender.hint();
        loop {
            let next = async {
                tokio::time::sleep(self.inner.options().watch_interval).await;
                self.look().await
            };
            let now = tokio::select! {
                () = sender.closed() => return,
                now = next => now,
            };
            match now {
                // Compared for equality only: a store that was replaced may count anew.
                Ok(now) if now == seen => {}
                Ok(now) => {
                    seen = now;
                    sender.hint();
                }
                Err(error) => return sender.fail(error).await,
            }
        }
    }
}
