//! Owns what one worker does: one call after the other, on keys that nobody else touches.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::caller::Caller;
use crate::demo::ledger::{Answer, Call, Incarnation, LedgerError, Promise};

/// How many objects a worker keeps.
const KEPT: usize = 64;
/// One change in so many is asked for without durability.
const ACCEPTED_ONE_IN: u32 = 8;
/// A refused call is followed by a pause, so that a cluster without a leader is not stormed.
const PAUSE: Duration = Duration::from_millis(5);

/// One worker.
#[derive(Debug)]
pub(super) struct Worker {
    caller: Arc<Caller>,
    name: String,
    random: fastrand::Rng,
    next_key: u64,
    live: Vec<(String, Incarnation)>,
    removed: Vec<String>,
}

impl Worker {
    pub(super) fn new(caller: Arc<Caller>, name: String, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { caller, name, random, next_key: 0, live: Vec::new(), removed: Vec::new() }
    }

    /// Calls until told to stop; the call that runs then is ended.
    pub(super) async fn run(mut self, stopped: watch::Receiver<bool>) -> Result<(), LedgerError> {
        while !*stopped.borrow() {
            let done = match self.random.u32(0..100) {
                roll if roll < 55 || self.live.is_empty() => self.put_new().await?,
                roll if roll < 75 => self.get().await?,
                roll if roll < 95 || self.live.len() > KEPT || self.removed.is_empty() => self.remove().await?,
                _ => self.put_again().await?,
            };
            if !done {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    async fn put_new(&mut self) -> Result<bool, LedgerError> {
        if self.live.len() > KEPT {
            return self.remove().await;
        }
        let key = format!("{}/{}", self.name, self.next_key);
        self.next_key += 1;
        self.put(key).await
    }

    /// A removed key gets a new object: the old one must not come back in its place.
    async fn put_again(&mut self) -> Result<bool, LedgerError> {
        let key = self.removed.swap_remove(self.random.usize(..self.removed.len()));
        self.put(key).await
    }

    /// A key whose put or removal was cut short is never touched again: whatever became of it, the ledger allows it.
    async fn put(&mut self, key: String) -> Result<bool, LedgerError> {
        let start = self.caller.call(&Call::PutStart { key: key.clone() }).await?;
        let Answer::Granted(incarnation) = start else { return Ok(false) };
        let end = Call::PutEnd { key: key.clone(), incarnation, promise: self.promise() };
        let done = matches!(self.caller.call(&end).await?, Answer::Durable | Answer::Accepted);
        if done {
            self.live.push((key, incarnation));
        }
        Ok(done)
    }

    async fn get(&mut self) -> Result<bool, LedgerError> {
        let key = self.live[self.random.usize(..self.live.len())].0.clone();
        let answer = self.caller.call(&Call::Get { key }).await?;
        Ok(matches!(answer, Answer::Found(_) | Answer::Absent))
    }

    async fn remove(&mut self) -> Result<bool, LedgerError> {
        let (key, incarnation) = self.live.swap_remove(self.random.usize(..self.live.len()));
        let removal = Call::Remove { key: key.clone(), incarnation, promise: self.promise() };
        let answer = self.caller.call(&removal).await?;
        match answer {
            Answer::Durable | Answer::Accepted => {
                self.removed.push(key);
                Ok(true)
            }
            // Certainly not removed: it may be tried again.
            Answer::Refused(_) => {
                self.live.push((key, incarnation));
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    fn promise(&mut self) -> Promise {
        if self.random.u32(0..ACCEPTED_ONE_IN) == 0 { Promise::Accepted } else { Promise::Durable }
    }
}
