//! Owns hints on memory: one at every change of the range, none without.

use async_trait::async_trait;

use super::MemoryKv;
use crate::{HintStream, KvError, WatchKv, hint_channel};

#[async_trait]
impl WatchKv for MemoryKv {
    async fn watch(&self, start: &[u8], end: &[u8]) -> Result<HintStream, KvError> {
        let (sender, stream) = hint_channel();
        self.state().watch(start, end, sender);
        Ok(stream)
    }
}
