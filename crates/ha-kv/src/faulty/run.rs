//! Owns the way of one call: out to the store, through what befalls it, and back.

use std::pin::Pin;
use std::sync::Arc;

use super::server::Server;
use super::{Fault, FaultyKv, Link, Op, OpKind, Situation, Stage};
use crate::{Effect, HintStream, KvError, KvErrorKind, LeaseId, PutIfAbsent, RangePage, TxnOutcome};

pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How an answer counts: whether the store took the write.
pub(super) trait Answer: Send + 'static {
    fn taken(&self) -> bool {
        true
    }
}

impl Answer for () {}
impl Answer for u64 {}
impl Answer for Option<bytes::Bytes> {}
impl Answer for RangePage {}
impl Answer for HintStream {}
impl Answer for (LeaseId, std::time::Duration) {}

impl Answer for TxnOutcome {
    fn taken(&self) -> bool {
        matches!(self, Self::Committed)
    }
}

impl Answer for PutIfAbsent {
    fn taken(&self) -> bool {
        matches!(self, Self::Put)
    }
}

/// A request that its client has given up, still on its way.
pub(super) struct HeldCall(Boxed<()>);

impl HeldCall {
    pub(super) async fn land(self) {
        self.0.await;
    }
}

/// Lets the store do `op`.
async fn arrive<T: Answer>(
    server: &Arc<Server>,
    op: &Op,
    apply: &(dyn Fn(Arc<Server>) -> Boxed<Result<T, KvError>> + Send + Sync),
) -> Result<T, KvError> {
    let answer = match server.admit(op) {
        Ok(()) => apply(Arc::clone(server)).await,
        Err(refused) => Err(refused),
    };
    server.show(
        op,
        match &answer {
            Ok(answer) if answer.taken() => Stage::Applied,
            Ok(_) => Stage::NotTaken,
            Err(_) => Stage::Refused,
        },
    );
    answer
}

fn lost(kind: OpKind, error: KvErrorKind, what: &str) -> KvError {
    let effect = if kind.is_write() { Effect::Unknown } else { Effect::NotApplied };
    KvError::new(error, effect, format!("injected fault: {what}"))
}

impl FaultyKv {
    fn next_fault(&self, kind: OpKind) -> Fault {
        let mut state = self.state.lock();
        if let Some(fault) = state.scripts.get_mut(&kind).and_then(|q| q.pop_front()) {
            return fault;
        }
        if let Some(fault) = state.standing.get(&kind) {
            return fault.clone();
        }
        state.plans.get(&kind).unwrap_or(&state.plan).draw(kind, &self.entropy)
    }

    /// Waits for the next release.
    async fn held_until_release(&self) {
        let mut releases = self.releases.subscribe();
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = releases.changed().await;
    }

    /// What the link does to a request; `Ok` if it arrives.
    async fn pass_request(&self, kind: OpKind) -> Result<(), KvError> {
        let link = *self.link.borrow();
        match link {
            Link::Up | Link::RepliesCut => Ok(()),
            Link::Cut => {
                self.server.note(Situation::RequestCut);
                Err(lost(kind, KvErrorKind::Unavailable, "this client is cut off"))
            }
            Link::BlackHole => {
                self.server.note(Situation::RequestCut);
                self.out_of_the_hole().await;
                Err(lost(kind, KvErrorKind::Timeout, "the request was swallowed"))
            }
        }
    }

    /// What the link does to a reply; `Ok` if it arrives.
    async fn pass_reply(&self, kind: OpKind) -> Result<(), KvError> {
        let link = *self.link.borrow();
        match link {
            Link::Up => Ok(()),
            Link::Cut => {
                self.server.note(Situation::ReplyCut);
                Err(lost(kind, KvErrorKind::Unavailable, "this client was cut off before the reply"))
            }
            Link::RepliesCut => {
                self.server.note(Situation::ReplyCut);
                Err(lost(kind, KvErrorKind::Timeout, "the reply was lost"))
            }
            Link::BlackHole => {
                self.server.note(Situation::ReplyCut);
                self.out_of_the_hole().await;
                Err(lost(kind, KvErrorKind::Timeout, "the reply was swallowed"))
            }
        }
    }

    async fn out_of_the_hole(&self) {
        let mut link = self.link.subscribe();
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = link.wait_for(|l| *l != Link::BlackHole).await;
    }

    /// One call: `op` describes it, `apply` makes the store do it.
    pub(super) async fn run<T: Answer>(
        &self,
        op: Op,
        apply: impl Fn(Arc<Server>) -> Boxed<Result<T, KvError>> + Send + Sync + 'static,
    ) -> Result<T, KvError> {
        let kind = op.kind();
        let fault = self.next_fault(kind);
        self.server.show(&op, Stage::Called);
        self.calls.send_modify(|calls| *calls.entry(kind).or_default() += 1);
        match fault {
            Fault::Delay(delay) => {
                self.server.note(Situation::Delayed);
                tokio::time::sleep(delay).await;
            }
            Fault::HoldRequest => {
                self.held_until_release().await;
                self.server.note(Situation::RequestHeld);
            }
            Fault::FailBefore(error) => {
                self.server.note(Situation::FailedBefore);
                return Err(KvError::new(error, Effect::NotApplied, "injected fault: refused before it applied"));
            }
            Fault::LoseRequest(error) => {
                self.server.note(Situation::RequestLost);
                return Err(lost(kind, error, "the request was lost"));
            }
            _ => {}
        }
        self.pass_request(kind).await?;
        if let Fault::ApplyLater(after) = fault {
            self.hold(op, apply, after);
            return Err(lost(kind, KvErrorKind::Timeout, "the request is still on its way"));
        }
        let answer = arrive(&self.server, &op, &apply).await;
        match fault {
            Fault::Duplicate => {
                let again = arrive(&self.server, &op, &apply).await;
                let applied = again.is_ok_and(|a| a.taken());
                self.server.note(if applied { Situation::DuplicateApplied } else { Situation::DuplicateRefused });
            }
            Fault::HoldReply => {
                self.held_until_release().await;
                self.server.note(Situation::ReplyHeld);
            }
            Fault::FailAfter(error) => {
                self.server.note(Situation::ReplyLost);
                return Err(lost(kind, error, "the reply was lost"));
            }
            _ => {}
        }
        self.pass_reply(kind).await?;
        answer
    }

    /// Keeps a request on its way after its client has given up.
    fn hold<T: Answer>(
        &self,
        op: Op,
        apply: impl Fn(Arc<Server>) -> Boxed<Result<T, KvError>> + Send + Sync + 'static,
        after: Option<std::time::Duration>,
    ) {
        let server = Arc::clone(&self.server);
        server.note(Situation::AppliedLater);
        let held = HeldCall(Box::pin(async move {
            let applied = arrive(&server, &op, &apply).await.is_ok_and(|answer| answer.taken());
            server.note(if applied { Situation::LandedApplied } else { Situation::LandedRefused });
        }));
        match after {
            None => self.state.lock().held.push_back(held),
            Some(delay) => {
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    held.land().await;
                });
            }
        }
    }
}
