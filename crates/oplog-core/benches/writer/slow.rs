//! Owns a store whose transactions take an exact time: a timer's grain of a millisecond would be most of what is measured.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ha_kv::test_kit::Detour;
use ha_kv::{KvError, MemoryKv, Txn, TxnKv, TxnOutcome};
use tokio::sync::oneshot;

/// A sleep of the system ends about so much late; the rest is spun.
const SLEEP_SLACK: Duration = Duration::from_micros(80);

type Alarm = (Instant, oneshot::Sender<()>);

/// A memory store behind a clock of its own: each transaction is answered `delay` after it was sent.
#[derive(Debug)]
pub(crate) struct SlowKv {
    memory: MemoryKv,
    delay: Duration,
    alarms: SyncSender<Alarm>,
}

impl SlowKv {
    pub(crate) fn new(delay: Duration) -> Arc<Self> {
        let (alarms, due) = sync_channel::<Alarm>(4);
        // Ends when its store is gone.
        thread::spawn(move || {
            for (at, done) in due {
                let left = at.saturating_duration_since(Instant::now());
                if left > SLEEP_SLACK {
                    thread::sleep(left - SLEEP_SLACK);
                }
                while Instant::now() < at {
                    std::hint::spin_loop();
                }
                // Whoever waited may have given up.
                let _ = done.send(());
            }
        });
        Arc::new(Self { memory: MemoryKv::new(), delay, alarms })
    }
}

#[async_trait]
impl Detour for SlowKv {
    fn store(&self) -> &dyn TxnKv {
        &self.memory
    }

    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError> {
        let at = Instant::now() + self.delay;
        let (done, wait) = oneshot::channel();
        self.alarms.send((at, done)).expect("the clock runs as long as its store");
        let outcome = self.store().txn(txn).await;
        wait.await.expect("the clock rings");
        outcome
    }
}
