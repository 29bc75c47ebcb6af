//! Owns the wish to end: from a signal, or from a part of the node that cannot go on.

use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Asks all parts of the node to end. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown(Arc<watch::Sender<Option<Ending>>>);

/// Why the node ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// An operator wants it.
    Asked,
    /// It cannot go on; the sentence says why.
    Fatal(String),
}

/// The exit code after a second signal.
const SECOND_SIGNAL: i32 = 130;

impl Shutdown {
    /// Nobody wants to end yet.
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// Wants to end. The first reason stays.
    pub(crate) fn begin(&self, ending: Ending) {
        self.0.send_if_modified(|now| {
            let first = now.is_none();
            if first {
                *now = Some(ending);
            }
            first
        });
    }

    /// Waits for the wish to end.
    pub(crate) async fn wanted(&self) -> Ending {
        let mut watch = self.0.subscribe();
        match watch.wait_for(Option::is_some).await {
            Ok(ending) => ending.clone().unwrap_or(Ending::Asked),
            // The sender is ours, so the channel cannot close.
            Err(_) => Ending::Asked,
        }
    }

    /// Listens for SIGTERM and SIGINT from now on: the first begins the end, the second ends the process at once.
    pub(crate) fn on_signals(&self) -> std::io::Result<()> {
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let shutdown = self.clone();
        tokio::spawn(async move {
            either(&mut term, &mut int).await;
            tracing::info!("signal: ending; a second one ends at once");
            shutdown.begin(Ending::Asked);
            either(&mut term, &mut int).await;
            tracing::warn!("second signal: ending at once");
            std::process::exit(SECOND_SIGNAL);
        });
        Ok(())
    }
}

async fn either(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
