//! Owns what a reply to a write promises.

/// What the reply to a write promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Promise {
    /// The effect is in the log for good: every later primary has it.
    #[default]
    Durable,
    /// The effect is visible here and on its way into the log; a failover may lose it.
    Accepted,
}
