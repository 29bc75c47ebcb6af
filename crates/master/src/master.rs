//! Owns the start of serving and its end. The calls themselves are in `calls/`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use ha_types::MonoTime;
use oplog_core::{CaughtUp, Claim, OrderedWriter, WriterEnv};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::gate::Gate;
use crate::grants::Grants;
use crate::inner::{Inner, Term};
use crate::locks;
use crate::state::ServingTerm;
use crate::{MasterError, MasterState, Policy, ServeEnv, ServeFailed, Serving};

/// A serving master. Clones share it.
///
/// Calls that write wait for a place in the log before they take a lock. Dropping a call's future before that changes nothing;
/// dropping it later leaves the effect on its way into the log.
#[derive(Clone, Debug)]
pub struct Master {
    pub(crate) inner: Arc<Inner>,
}

impl Master {
    /// Starts to serve, on the current tokio runtime, from a state that equals the claimed log. Nothing is copied and nothing is
    /// gone over: the time this takes does not depend on the number of objects.
    ///
    /// # Errors
    /// [`ServeFailed`] gives state and log back if a setting is wrong.
    pub fn serve(caught_up: CaughtUp<MasterState>, env: ServeEnv) -> Result<Self, Box<ServeFailed>> {
        let claim = caught_up.claim();
        let (state, log) = caught_up.into_parts();
        if let Err(reason) = check(&env, &claim) {
            return Err(Box::new(ServeFailed { state, log, reason }));
        }
        let writer_env = WriterEnv { clock: env.clock.clone(), entropy: env.entropy.clone() };
        let writer = match OrderedWriter::start(log, env.writer.clone(), writer_env) {
            Ok(writer) => writer,
            Err((log, reason)) => return Err(Box::new(ServeFailed { state, log: *log, reason })),
        };
        let inner = Arc::new(Inner::new(state, writer, &claim, env));
        end_serving_with_the_log(&inner);
        Ok(Self { inner })
    }

    /// The times in force.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.inner.state.policy.read().in_force()
    }

    /// The state, for audits.
    #[must_use]
    pub fn state(&self) -> &MasterState {
        &self.inner.state
    }

    /// The writer, for its status and metrics.
    #[must_use]
    pub fn writer(&self) -> &OrderedWriter {
        &self.inner.writer
    }

    /// Whether it serves. Closed is final: the node drops this master and starts again from the log.
    #[must_use]
    pub fn serving(&self) -> watch::Receiver<Serving> {
        self.inner.gate.watch()
    }

    /// Sends new writes away and waits until the writes on their way have been answered and all entries are durable. Reads go
    /// on.
    ///
    /// # Errors
    /// [`MasterError::NotApplied`] names how many were not finished at the deadline.
    ///
    /// # Cancel safety
    /// New writes stay away.
    pub async fn drain(&self, deadline: MonoTime) -> Result<(), MasterError> {
        locks::assert_none_held();
        let inner = &self.inner;
        inner.gate.drain();
        let left = deadline.saturating_since(inner.now());
        // The calls first: while they wait for admission the writer must go on admitting.
        if tokio::time::timeout(left, inner.gate.idle()).await.is_err() {
            let reason = format!("{} calls were not answered at the deadline", inner.gate.writes());
            return Err(MasterError::NotApplied { reason });
        }
        inner.writer.drain(deadline).await.map_err(|e| MasterError::NotApplied { reason: e.to_string() })
    }

    /// Closes the gate: from here on nothing is answered but what waits for the log. Call before leadership is resigned.
    pub fn close(&self, reason: &str) {
        self.inner.gate.close(reason);
    }

    /// Closes the gate and ends the writer; every waiting call is told the truth.
    ///
    /// # Cancel safety
    /// The gate stays closed; call again to end the writer.
    pub async fn stop(&self) {
        locks::assert_none_held();
        self.close("the node is stopping");
        self.inner.writer.stop().await;
    }
}

impl Inner {
    fn new(state: MasterState, writer: OrderedWriter, claim: &Claim, env: ServeEnv) -> Self {
        let ServeEnv { config, clock, guard, ttl, .. } = env;
        let now = clock.now();
        let (policy, quarantine_ms) = {
            let policy = state.policy.read();
            let logged = policy.longest_quarantine_ms();
            let after_mooncake = u64::try_from(config.after_mooncake.as_millis()).unwrap_or(u64::MAX);
            let span = policy.in_force().span_ms();
            let longest = match (policy.is_imported(), claim.from_mooncake) {
                // The operator's word stands in for what the log cannot know, and for nothing else.
                (true, _) => after_mooncake.max(span),
                (false, true) => after_mooncake.max(logged),
                (false, false) => logged,
            };
            (policy.in_force(), longest)
        };
        let quarantine = ttl + Duration::from_millis(quarantine_ms) + config.clock_margin;
        let quarantine_until = claim.claimed_at.saturating_add(quarantine);
        let serving = ServingTerm {
            tag: u32::try_from(claim.epoch.get()).expect("the epoch was checked to be below 2^31"),
            untouched_until: now.saturating_add(Duration::from_millis(policy.default_lease_ms)),
        };
        Self {
            state,
            writer,
            gate: Arc::new(Gate::open()),
            clock,
            guard,
            config,
            term: Term { epoch: claim.epoch, owner: claim.owner, serving, quarantine_until },
            incarnations: AtomicU64::new(0),
            grants: Grants::default(),
            running_puts: AtomicUsize::new(0),
            pending_removals: AtomicU64::new(0),
            leases_granted: AtomicU64::new(0),
            next_segment: AtomicUsize::new(0),
            earlier_grants_until: Mutex::new(quarantine_until),
        }
    }
}

/// Everything that could make serving fail, checked while nothing has been given away.
fn check(env: &ServeEnv, claim: &Claim) -> Result<(), String> {
    env.config.validate()?;
    if !(1..1 << 31).contains(&claim.epoch.get()) {
        return Err(format!("epoch {} names no incarnation; epochs 1 to 2^31 - 1 do", claim.epoch));
    }
    if env.ttl.is_zero() || env.ttl > Duration::from_secs(3600) {
        return Err(format!("the leadership TTL is {:?}; give more than 0 and at most an hour", env.ttl));
    }
    Ok(())
}

/// Closes the gate when the writer ends, whatever ended it.
fn end_serving_with_the_log(inner: &Arc<Inner>) {
    let (gate, mut status) = (inner.gate.clone(), inner.writer.status());
    let mut serving = gate.watch();
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = status.wait_for(|status| status.terminal.is_some()) => ended.ok().and_then(|s| s.terminal.clone()),
            _ = serving.wait_for(|serving| matches!(serving, Serving::Closed { .. })) => return,
        };
        match ended {
            Some(terminal) => {
                tracing::warn!(?terminal, "the log has ended, and serving with it");
                gate.close(&format!("the log has ended: {terminal:?}"));
            }
            None => gate.close("the log has ended"),
        }
    });
}
