//! Owns the change of the cluster's times.

use std::sync::Arc;
use std::time::Duration;

use ha_types::OpType;
use oplog_core::{NewEntry, Outcome, Reservation};
use tokio::sync::oneshot;

use crate::after_commit::AfterCommit;
use crate::inner::Inner;
use crate::payload::{CLUSTER_POLICY_KEY, CLUSTER_TENANT, LoggedPolicy};
use crate::{Master, MasterError, Policy, PolicyChange, locks};

impl Master {
    /// The cluster's times, once what they rest on is durable.
    ///
    /// # Errors
    /// [`MasterError::Unknown`] if the log ended before that, [`MasterError::NotLeader`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn durable_policy(&self) -> Result<Policy, MasterError> {
        let inner = &*self.inner;
        let (policy, on_its_way) = {
            let policy = inner.state.policy.read();
            (policy.in_force(), policy.on_its_way())
        };
        if let Some(seq) = on_its_way {
            inner.durable(seq).await?;
        }
        inner.check_serving()?;
        Ok(policy)
    }

    /// Changes the cluster's times. A shorter time holds at once, a longer one as soon as it is durable. The reply promises
    /// durability.
    ///
    /// Shorter times do not shorten the quarantine of the next primary at once: grants of the longer ones may still run. Repeat
    /// the call after they have ended to shorten it.
    ///
    /// # Errors
    /// * [`MasterError::Invalid`] names the value and what is allowed.
    /// * [`MasterError::NotApplied`], [`MasterError::Unknown`], [`MasterError::NotLeader`], [`MasterError::RetryAfter`].
    ///
    /// # Cancel safety
    /// See [`Master`].
    pub async fn set_policy(&self, policy: Policy) -> Result<(), MasterError> {
        policy.validate()?;
        self.change_policy(policy.into()).await.map(|_| ())
    }

    /// As [`Self::set_policy`] for some of the times, and gives all of them. The others stay as the log has them, entries on their way
    /// included: of two such calls at once neither takes the other's change back. A time that is named with the value that it has is
    /// logged all the same.
    ///
    /// # Errors
    /// As [`Self::set_policy`]; `Invalid` is about the times as they would be.
    ///
    /// # Cancel safety
    /// See [`Master`].
    pub async fn change_policy(&self, change: PolicyChange) -> Result<Policy, MasterError> {
        let inner = &self.inner;
        let _pass = inner.enter_write()?;
        let slot = inner.admission().await?;
        let (policy, answered) = inner.begin_policy(change, slot)?;
        locks::assert_none_held();
        inner.judge(answered.await.unwrap_or(Outcome::Unknown)).map(|()| policy)
    }
}

impl Inner {
    fn begin_policy(
        self: &Arc<Self>,
        change: PolicyChange,
        slot: Reservation,
    ) -> Result<(Policy, oneshot::Receiver<Outcome>), MasterError> {
        let mut in_force = self.state.policy.write();
        self.check_serving()?;
        let mut earlier_until = self.earlier_grants_until.lock();
        let now = self.now();
        let logged = in_force.logged();
        let policy = change.of(logged.policy);
        policy.validate()?;
        // What may still run at this moment: grants of the times in the log, and those of times before while they last.
        let running_ms = if now >= *earlier_until { logged.policy.span_ms() } else { in_force.longest_quarantine_ms() };
        let next = LoggedPolicy { policy, quarantine_ms: policy.span_ms().max(running_ms) };
        let payload = next.encode();
        let entry = NewEntry {
            op_type: OpType::Policy.number(),
            tenant: CLUSTER_TENANT,
            key: CLUSTER_POLICY_KEY,
            payload: &payload,
        };
        let (answer, answered) = oneshot::channel();
        let inner = self.clone();
        let seq = slot
            .commit_with(entry, move |seq, outcome| {
                if inner.judge(outcome).is_ok() {
                    inner.state.policy.write().became_durable(seq);
                }
                let _ = answer.send(outcome);
            })
            .map_err(|e| self.not_committed(e))?;
        let after = AfterCommit::arm(&self.gate);
        in_force.committed(seq, next);
        *earlier_until = now.saturating_add(Duration::from_millis(running_ms) + self.margin());
        after.followed();
        Ok((policy, answered))
    }
}
