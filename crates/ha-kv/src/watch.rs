//! Owns change hints. A hint says "look again", never what changed.

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::{Kv, KvError, KvErrorKind};

/// A store that hints at changes.
#[async_trait]
pub trait WatchKv: Kv {
    /// Hints at changes of keys with `start <= key < end`. Hints may coalesce, repeat, come without a change, or be lost,
    /// so a reader polls as well; the first hint may come at once.
    ///
    /// # Errors
    /// [`KvError`] if the watch could not be set up.
    async fn watch(&self, start: &[u8], end: &[u8]) -> Result<HintStream, KvError>;
}

/// The receiving end of a watch. Dropping it ends the watch.
#[derive(Debug)]
pub struct HintStream(mpsc::Receiver<Result<(), KvError>>);

/// The sending end of a watch, for backends.
#[derive(Debug, Clone)]
pub struct HintSender(mpsc::Sender<Result<(), KvError>>);

/// A watch's two ends.
#[must_use]
pub fn hint_channel() -> (HintSender, HintStream) {
    let (sender, receiver) = mpsc::channel(1);
    (HintSender(sender), HintStream(receiver))
}

impl HintStream {
    /// Waits for the next hint.
    ///
    /// # Errors
    /// The watch ended: the reader goes on polling and may set up another after a pause.
    ///
    /// # Cancel safety
    /// No hint is lost by dropping the future.
    pub async fn changed(&mut self) -> Result<(), KvError> {
        self.0
            .recv()
            .await
            .unwrap_or_else(|| Err(KvError::read(KvErrorKind::Unavailable, "the watch ended; poll, then watch again")))
    }
}

impl HintSender {
    /// Hints, unless a hint is waiting already. `false` once nobody listens.
    pub fn hint(&self) -> bool {
        !matches!(self.0.try_send(Ok(())), Err(mpsc::error::TrySendError::Closed(_)))
    }

    /// Ends the watch with its reason, after a waiting hint was taken.
    ///
    /// # Cancel safety
    /// Dropping the future ends the watch without its reason.
    pub async fn fail(self, error: KvError) {
        // Nobody listens any more: nobody needs the reason.
        let _ = self.0.send(Err(error)).await;
    }

    /// Whether nobody listens any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Resolves when nobody listens any more.
    ///
    /// # Cancel safety
    /// Safe: nothing is lost.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_watch_is_an_error_not_silence() {
        let (sender, mut stream) = hint_channel();
        assert!(sender.hint() && sender.hint(), "hints coalesce");
        stream.changed().await.expect("one hint");
        drop(sender);
        for _ in 0..2 {
            assert_eq!(stream.changed().await.expect_err("it ended").kind, KvErrorKind::Unavailable);
        }
    }

    #[tokio::test]
    async fn a_failed_watch_gives_its_reason_after_the_waiting_hint() {
        let (sender, mut stream) = hint_channel();
        sender.hint();
        let failing = tokio::spawn(sender.fail(KvError::read(KvErrorKind::WrongStore, "replaced")));
        stream.changed().await.expect("the hint comes first");
        assert_eq!(stream.changed().await.expect_err("the reason").kind, KvErrorKind::WrongStore);
        failing.await.expect("no panic");
        let (sender, stream) = hint_channel();
        drop(stream);
        assert!(!sender.hint() && sender.is_closed());
    }
}
