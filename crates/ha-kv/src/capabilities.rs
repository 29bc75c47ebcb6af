//! Owns what a store says of itself. It reports how the server is configured, not what its kind could do.

/// Whether an answered write survives the loss of the server's power.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DurableAck {
    /// It does.
    Yes,
    /// It may not, and this is why, in words for the operator.
    No {
        /// The reason and its remedy.
        reason: String,
    },
}

impl DurableAck {
    /// Whether it is `Yes`.
    #[must_use]
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Yes)
    }
}

/// What a store, as configured, can promise. Limits are in bytes and apply to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The backend's name: `memory`, `sqlite`, `etcd`, ...
    pub backend: &'static str,
    /// Whether `as_txn` gives a store with transactions. Without them there is no compare-and-swap, and no replicated log.
    pub txn: bool,
    /// Whether an answered write survives the loss of the server's power. What a server cannot be asked is a setting of its
    /// backend, and then this repeats what the operator said.
    pub durable_ack: DurableAck,
    /// Whether a read sees every write, of whatever client, that was answered before the read began.
    pub linearizable_read: bool,
    /// Largest value. Above it a put is `TooLarge` and not sent.
    pub max_value_bytes: usize,
    /// Largest transaction, all keys and values of it together, compared ones included ([`Txn::bytes`](crate::Txn::bytes)). A server
    /// may still refuse a smaller one if it was set up differently than declared; that is `TooLarge`, too.
    pub max_txn_bytes: usize,
    /// Most operations in a transaction: compares, or puts and deletes, whichever are more ([`Txn::ops`](crate::Txn::ops)).
    pub max_txn_ops: usize,
    /// Largest page of a range read: no further pair is added once keys and values reach it, so a page is above it by at most
    /// one pair.
    pub max_reply_bytes: usize,
}
