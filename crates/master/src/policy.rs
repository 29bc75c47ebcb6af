//! Owns the cluster's times: how long a put may run, how long a lease lasts. They live in the log, not in a node's configuration.

use std::time::Duration;

use crate::MasterError;

/// The cluster's times. Every primary grants by the values in the log, so that its successor knows how long it must wait
/// before it hands out space (design §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// How long a client may write after its put start, in milliseconds.
    pub put_grant_ms: u64,
    /// The lease of a get that asks for none, in milliseconds.
    pub default_lease_ms: u64,
    /// The longest lease a get may ask for, in milliseconds.
    pub longest_lease_ms: u64,
}

/// A change of some of the cluster's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PolicyChange {
    /// [`Policy::put_grant_ms`]; `None` leaves it as the log has it.
    pub put_grant_ms: Option<u64>,
    /// [`Policy::default_lease_ms`]; `None` leaves it as the log has it.
    pub default_lease_ms: Option<u64>,
    /// [`Policy::longest_lease_ms`]; `None` leaves it as the log has it.
    pub longest_lease_ms: Option<u64>,
}

impl PolicyChange {
    /// The times after the change of `before`.
    pub(crate) fn of(&self, before: Policy) -> Policy {
        Policy {
            put_grant_ms: self.put_grant_ms.unwrap_or(before.put_grant_ms),
            default_lease_ms: self.default_lease_ms.unwrap_or(before.default_lease_ms),
            longest_lease_ms: self.longest_lease_ms.unwrap_or(before.longest_lease_ms),
        }
    }
}

/// All of the times.
impl From<Policy> for PolicyChange {
    fn from(policy: Policy) -> Self {
        Self {
            put_grant_ms: Some(policy.put_grant_ms),
            default_lease_ms: Some(policy.default_lease_ms),
            longest_lease_ms: Some(policy.longest_lease_ms),
        }
    }
}

impl Policy {
    /// What holds while the log has no POLICY entry. Part of the format: a later version must not change it.
    pub const INITIAL: Self = Self { put_grant_ms: 2_000, default_lease_ms: 5_000, longest_lease_ms: 30_000 };
    /// For how long clients of a primary of Mooncake's may use what it granted them, in milliseconds: how long the first primary
    /// of ours waits, unless the operator knows better.
    pub const AFTER_MOONCAKE_MS: u64 = 600_000;
    /// The shortest of any of the times, in milliseconds.
    pub const SHORTEST_MS: u64 = 10;
    /// The longest of any of the times, in milliseconds: an hour.
    pub const LONGEST_MS: u64 = 3_600_000;

    /// Checks the values.
    ///
    /// # Errors
    /// [`MasterError::Invalid`] names the value and what is allowed.
    pub fn validate(&self) -> Result<(), MasterError> {
        let named = [
            ("put_grant_ms", self.put_grant_ms),
            ("default_lease_ms", self.default_lease_ms),
            ("longest_lease_ms", self.longest_lease_ms),
        ];
        for (name, value) in named {
            if !(Self::SHORTEST_MS..=Self::LONGEST_MS).contains(&value) {
                return Err(MasterError::Invalid(format!(
                    "{name} is {value}; give {} to {}",
                    Self::SHORTEST_MS,
                    Self::LONGEST_MS
                )));
            }
        }
        if self.default_lease_ms > self.longest_lease_ms {
            return Err(MasterError::Invalid(format!(
                "default_lease_ms is {}, above longest_lease_ms {}; raise the longest or lower the default",
                self.default_lease_ms, self.longest_lease_ms
            )));
        }
        Ok(())
    }

    /// The longest time for which a client of this policy may still use a range, in milliseconds.
    #[must_use]
    pub fn span_ms(&self) -> u64 {
        self.put_grant_ms.max(self.default_lease_ms).max(self.longest_lease_ms)
    }

    /// Each time the shorter of the two.
    #[must_use]
    pub fn shorter(&self, other: &Self) -> Self {
        Self {
            put_grant_ms: self.put_grant_ms.min(other.put_grant_ms),
            default_lease_ms: self.default_lease_ms.min(other.default_lease_ms),
            longest_lease_ms: self.longest_lease_ms.min(other.longest_lease_ms),
        }
    }

    pub(crate) fn put_grant(&self) -> Duration {
        Duration::from_millis(self.put_grant_ms)
    }
}
