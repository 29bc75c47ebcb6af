//! Two candidates in one process: one leads, resigns after a moment, and the other takes over at once.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::MemoryKv;
use ha_types::{Clock, SystemClock, SystemEntropy};
use leadership::{ElectionConfig, Elector};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(MemoryKv::with_clock(clock.clone()));
    let candidate = |name: &'static str| {
        let elector = Elector::new(
            store.clone(),
            "/example/leader".into(),
            name.into(),
            ElectionConfig::default(),
            clock.clone(),
            Arc::new(SystemEntropy),
        );
        elector.map(|e| Arc::new(e.with_watch(store.clone())))
    };
    let (first, second) = (candidate("first")?, candidate("second")?);

    let leadership = first.campaign().await?;
    println!("first leads for {} ms unless it keeps its lease alive", first.metrics().remaining_ms);
    let waiting = tokio::spawn({
        let second = second.clone();
        async move { second.campaign().await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    println!("second reads that {:?} leads", second.leader().await?);

    let resigned_at = clock.now();
    println!("first resigns: {:?}", leadership.resign().await);
    let leadership = waiting.await??;
    println!("second leads {:?} later", clock.now().saturating_since(resigned_at));
    let _ = leadership.resign().await;
    Ok(())
}
