//! Owns the hints of the faulty client: cut, swallowed or lost.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use ha_types::{Entropy, SeededEntropy};
use tokio::sync::watch as channel;

use super::server::Server;
use super::{FaultyKv, Link, Op, Situation};
use crate::{HintSender, HintStream, KvError, KvErrorKind, WatchKv, hint_channel};

/// Resolves when the link is cut (`true`) or its client dropped.
async fn cut_off(link: &mut channel::Receiver<Link>) -> bool {
    link.wait_for(|l| *l == Link::Cut).await.is_ok()
}

/// Passes hints on while the link is up.
async fn forward(
    server: Arc<Server>,
    mut inner: HintStream,
    outer: HintSender,
    mut link: channel::Receiver<Link>,
    dice: SeededEntropy,
) {
    loop {
        let hint = tokio::select! {
            () = outer.closed() => return,
            cut = cut_off(&mut link) => {
                let why = if cut { "this client is cut off" } else { "this client is gone" };
                return outer.fail(KvError::read(KvErrorKind::Unavailable, format!("injected fault: {why}"))).await;
            }
            hint = inner.changed() => hint,
        };
        match hint {
            Ok(()) if *link.borrow() != Link::Up || server.loses_hint(&dice) => server.note(Situation::HintLost),
            Ok(()) if !outer.hint() => return,
            Ok(()) => {}
            Err(end) => return outer.fail(end).await,
        }
    }
}

#[async_trait]
impl WatchKv for FaultyKv {
    async fn watch(&self, start: &[u8], end: &[u8]) -> Result<HintStream, KvError> {
        let (start, end) = (Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
        let inner = self
            .run(Op::Watch { start: start.clone(), end: end.clone() }, move |server| {
                let (start, end) = (start.clone(), end.clone());
                Box::pin(async move {
                    let watch = server.watch.as_deref().ok_or_else(|| {
                        KvError::read(
                            KvErrorKind::Unsupported,
                            "the wrapped store was given without watches; wrap it with `from_parts`",
                        )
                    })?;
                    watch.watch(&start, &end).await
                })
            })
            .await?;
        let (sender, stream) = hint_channel();
        let dice = SeededEntropy::new(self.entropy.next_u64());
        tokio::spawn(forward(Arc::clone(&self.server), inner, sender, self.link.subscribe(), dice));
        Ok(stream)
    }
}
