//! Owns hints that outlive their watch: set up again after a pause when it ends, never a busy loop. It reads nothing.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{HintSender, HintStream, KvError, WatchKv, hint_channel};

/// Hints on a range, from a watch that may be missing, end, or hang while it is set up.
///
/// A reader waits for a hint *or* its poll interval, whichever comes first; without a watch there is only the interval. The
/// watch is tended by a task of its own, which begins with the first wait and ends when this value is dropped.
#[derive(Debug)]
pub struct Hints {
    tend: Option<Tend>,
    stream: Option<HintStream>,
}

/// What the task needs.
#[derive(Debug)]
struct Tend {
    watch: Arc<dyn WatchKv>,
    start: Bytes,
    end: Bytes,
    retry_pause: Duration,
}

impl Hints {
    /// The shortest time between two hints; what comes in between is answered by the second.
    pub const MIN_PAUSE: Duration = Duration::from_millis(2);

    /// Hints on keys with `start <= key < end`. `retry_pause` bounds the set-up of the watch and is waited before the next.
    #[must_use]
    pub fn new(watch: Option<Arc<dyn WatchKv>>, start: Bytes, end: Bytes, retry_pause: Duration) -> Self {
        Self { tend: watch.map(|watch| Tend { watch, start, end, retry_pause }), stream: None }
    }

    /// Hints on one key.
    #[must_use]
    pub fn on_key(watch: Option<Arc<dyn WatchKv>>, key: Bytes, retry_pause: Duration) -> Self {
        let end = [&key[..], &[0]].concat().into();
        Self::new(watch, key, end, retry_pause)
    }

    /// Waits for a hint; for ever without a watch.
    ///
    /// # Panics
    /// Outside a tokio runtime with time.
    ///
    /// # Cancel safety
    /// No hint is lost by dropping the future.
    pub async fn next(&mut self) {
        if let Some(tend) = self.tend.take() {
            let (sender, stream) = hint_channel();
            tokio::spawn(tend.run(sender));
            self.stream = Some(stream);
        }
        let Some(stream) = &mut self.stream else { return pending().await };
        if stream.changed().await.is_err() {
            // The task ended with its runtime.
            pending().await
        }
    }
}

impl Tend {
    async fn run(self, hints: HintSender) {
        tokio::select! {
            () = hints.closed() => {}
            () = self.forward(&hints) => {}
        }
    }

    async fn forward(&self, hints: &HintSender) {
        loop {
            if let Err(error) = self.one_watch(hints).await {
                tracing::debug!(%error, pause = ?self.retry_pause, "no watch; the reader polls");
            }
            tokio::time::sleep(self.retry_pause).await;
        }
    }

    async fn one_watch(&self, hints: &HintSender) -> Result<(), KvError> {
        let set_up = tokio::time::timeout(self.retry_pause, self.watch.watch(&self.start, &self.end));
        let Ok(stream) = set_up.await else { return Ok(()) };
        let mut stream = stream?;
        // What changed before the watch was set up is found by this one.
        hints.hint();
        loop {
            stream.changed().await?;
            hints.hint();
            tokio::time::sleep(Self::MIN_PAUSE).await;
        }
    }

    const MIN_PAUSE: Duration = Hints::MIN_PAUSE;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use async_trait::async_trait;

    use super::*;
    use crate::{Capabilities, Kv, KvErrorKind, MemoryKv, RangeLimit, RangePage, TxnKv};

    /// Every set-up takes longer than the readers below wait; every watch ends after one hint.
    #[derive(Debug, Default)]
    struct Flaky {
        set_ups: AtomicU32,
        inner: MemoryKv,
    }

    #[async_trait]
    impl Kv for Flaky {
        async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
            self.inner.get(key).await
        }
        async fn put(&self, key: &[u8], value: Bytes) -> Result<(), KvError> {
            self.inner.put(key, value).await
        }
        async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
            self.inner.range(start, end, limit).await
        }
        async fn delete(&self, key: &[u8]) -> Result<(), KvError> {
            self.inner.delete(key).await
        }
        async fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<u64, KvError> {
            self.inner.delete_range(start, end).await
        }
        fn capabilities(&self) -> Capabilities {
            self.inner.capabilities()
        }
        fn as_txn(&self) -> Option<&dyn TxnKv> {
            None
        }
    }

    #[async_trait]
    impl WatchKv for Flaky {
        async fn watch(&self, _start: &[u8], _end: &[u8]) -> Result<HintStream, KvError> {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if self.set_ups.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
                return Err(KvError::read(KvErrorKind::Unavailable, "down"));
            }
            let (sender, stream) = hint_channel();
            sender.hint();
            Ok(stream)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn w14_a_watch_that_fails_and_ends_is_set_up_again_without_a_busy_loop() {
        let kv = Arc::new(Flaky::default());
        let mut hints = Hints::on_key(Some(kv.clone()), Bytes::from_static(b"k"), Duration::from_secs(1));
        let mut heard = 0;
        for _ in 0..2000 {
            // A reader that polls more often than a watch takes to be set up.
            if tokio::time::timeout(Duration::from_millis(10), hints.next()).await.is_ok() {
                heard += 1;
            }
        }
        let set_ups = kv.set_ups.load(Ordering::SeqCst);
        assert!(heard >= 8, "{heard} hints in 20 s");
        assert!((10..=20).contains(&set_ups), "{set_ups} set-ups in 20 s, one a second is right");
        drop(hints);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(kv.set_ups.load(Ordering::SeqCst), set_ups, "the task ends with its owner");
    }
}
