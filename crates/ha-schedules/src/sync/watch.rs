//! Tokio's `watch`, each send one step.

pub use tokio::sync::watch::Receiver;

use super::switch;

/// Tokio's sender, each send one step.
#[derive(Debug)]
pub struct Sender<T>(tokio::sync::watch::Sender<T>);

impl<T> Sender<T> {
    /// Shows `value`, to nobody yet.
    pub fn new(value: T) -> Self {
        Self(tokio::sync::watch::Sender::new(value))
    }

    /// One more who looks.
    pub fn subscribe(&self) -> Receiver<T> {
        self.0.subscribe()
    }

    /// Shows what `modify` makes of the value, if it says that it changed it.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        switch();
        self.0.send_if_modified(modify)
    }
}
