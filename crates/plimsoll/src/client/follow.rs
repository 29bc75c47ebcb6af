//! Owns the loop around one call: whom to ask next, when to wait, when to stop.

use std::future::Future;
use std::time::Duration;

use ha_rpc::v1::{ErrorCode, ErrorDetail};
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use super::{CallError, Client};

/// Whether sending a call twice could do something twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It changes nothing: a cut call is asked again.
    Read,
    /// It may change something: a cut call is reported; one that certainly changed nothing is asked again.
    Change,
    /// It is meant for the node that it reaches: it is never asked again once it was answered.
    Order,
}

/// How one attempt ended.
enum Attempt<R> {
    Done(R),
    /// Not sent, or answered NOT_LEADER: ask there, or the next endpoint.
    Elsewhere {
        leader: Option<String>,
        why: String,
    },
    /// Ask again after the pause.
    Later {
        pause: Duration,
        detail: ErrorDetail,
    },
    Failed(CallError),
}

/// Pause after every endpoint was asked in vain.
const ROUND_PAUSE: Duration = Duration::from_millis(50);
/// With less time than this left, or than a tenth of it all, no further attempt begins: one that the deadline cuts off has an unknown outcome,
/// and up to here it is certain that nothing was done.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(200);
/// Pause after an answer that nothing was applied.
const NOT_APPLIED_PAUSE: Duration = Duration::from_millis(20);

impl Client {
    /// Sends `request` to the leader, wherever it is.
    pub(super) async fn call<Q, R, F, Fut>(&self, kind: Kind, request: Q, send: F) -> Result<R, CallError>
    where
        Q: Clone,
        F: Fn(Channel, Request<Q>) -> Fut,
        Fut: Future<Output = Result<Response<R>, Status>>,
    {
        let deadline = Instant::now() + self.options.timeout;
        let last_start = deadline - SHORTEST_ATTEMPT.min(self.options.timeout / 10);
        let mut target = self.first_target();
        let mut asked = 0;
        loop {
            let attempt = self.attempt(kind, &target, deadline, request.clone(), &send).await;
            let (why, next, pause) = match attempt {
                Attempt::Done(reply) => {
                    *self.leader.lock() = Some(target);
                    return Ok(reply);
                }
                Attempt::Failed(error) => return Err(error),
                Attempt::Later { pause, detail } => {
                    if Instant::now() + pause >= last_start {
                        return Err(CallError::Refused(detail));
                    }
                    (detail.message, target, pause)
                }
                Attempt::Elsewhere { leader, why } => {
                    self.forget_leader(&target);
                    asked += 1;
                    let told = leader.filter(|l| *l != target);
                    // A leader that was named is asked at once; a whole round in vain is followed by a pause.
                    let pause =
                        if asked % (self.options.endpoints.len() + 1) == 0 { ROUND_PAUSE } else { Duration::ZERO };
                    (why, told.unwrap_or_else(|| self.endpoint_after(&target)), pause)
                }
            };
            if Instant::now() + pause >= last_start {
                return Err(CallError::NotDone(format!("no leader within {:?}: {why}", self.options.timeout)));
            }
            tokio::time::sleep(pause).await;
            target = next;
        }
    }

    async fn attempt<Q, R, F, Fut>(
        &self,
        kind: Kind,
        target: &str,
        deadline: Instant,
        request: Q,
        send: &F,
    ) -> Attempt<R>
    where
        F: Fn(Channel, Request<Q>) -> Fut,
        Fut: Future<Output = Result<Response<R>, Status>>,
    {
        let channel = match self.channel(target) {
            Ok(channel) => channel,
            Err(why) => return Attempt::Elsewhere { leader: None, why },
        };
        let mut request = Request::new(request);
        if let Some(authorization) = &self.transport.authorization {
            request.metadata_mut().insert("authorization", authorization.clone());
        }
        match tokio::time::timeout_at(deadline, send(channel, request)).await {
            Ok(Ok(reply)) => Attempt::Done(reply.into_inner()),
            Ok(Err(status)) => judge(kind, target, &status),
            Err(_) if kind == Kind::Read => Attempt::Failed(CallError::NotDone(format!(
                "{target} did not answer within {:?}",
                self.options.timeout
            ))),
            Err(_) => Attempt::Failed(CallError::Unknown(format!(
                "{target} did not answer within {:?}",
                self.options.timeout
            ))),
        }
    }

    fn first_target(&self) -> String {
        let leader = self.leader.lock().clone();
        leader.or_else(|| self.options.endpoints.first().cloned()).unwrap_or_default()
    }

    fn endpoint_after(&self, target: &str) -> String {
        let endpoints = &self.options.endpoints;
        let next = endpoints.iter().position(|e| e == target).map_or(0, |i| (i + 1) % endpoints.len());
        endpoints.get(next).cloned().unwrap_or_default()
    }

    fn forget_leader(&self, target: &str) {
        let mut leader = self.leader.lock();
        if leader.as_deref() == Some(target) {
            *leader = None;
        }
    }

    fn channel(&self, target: &str) -> Result<Channel, String> {
        if let Some(channel) = self.channels.lock().get(target) {
            return Ok(channel.clone());
        }
        let channel = self.transport.endpoint(target)?.connect_lazy();
        self.channels.lock().insert(target.to_owned(), channel.clone());
        Ok(channel)
    }
}

/// What a failed attempt means. Only what certainly did nothing may be sent again.
fn judge<R>(kind: Kind, target: &str, status: &Status) -> Attempt<R> {
    if let Some(detail) = ErrorDetail::of(status) {
        return match detail.code() {
            ErrorCode::NotLeader => Attempt::Elsewhere {
                leader: Some(detail.leader_address).filter(|a| !a.is_empty()),
                why: format!("{target}: {}", detail.message),
            },
            ErrorCode::RetryAfter => {
                Attempt::Later { pause: Duration::from_millis(detail.retry_after_ms.max(1)), detail }
            }
            ErrorCode::Unknown => Attempt::Failed(CallError::Unknown(format!("{target}: {}", detail.message))),
            // The node's log closed or ended under the call; it soon admits again or names the next leader.
            ErrorCode::NotApplied if kind != Kind::Order => Attempt::Later { pause: NOT_APPLIED_PAUSE, detail },
            // A server that failed in the middle knows no more than we do.
            ErrorCode::Internal if kind != Kind::Read => {
                Attempt::Failed(CallError::Unknown(format!("{target}: {}", detail.message)))
            }
            _ => Attempt::Failed(CallError::Refused(detail)),
        };
    }
    let why = format!("{target}: {}", sentence(status));
    if was_never_sent(status) || kind == Kind::Read {
        return Attempt::Elsewhere { leader: None, why };
    }
    Attempt::Failed(CallError::Unknown(why))
}

fn was_never_sent(status: &Status) -> bool {
    causes(status).any(|c| c.is::<tonic::ConnectError>())
}

fn sentence(status: &Status) -> String {
    let deepest = causes(status).last().map(ToString::to_string);
    match deepest {
        Some(cause) if cause != status.message() => format!("{} ({cause})", status.message()),
        _ => status.message().to_owned(),
    }
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(status), |e| e.source())
}

#[cfg(test)]
mod tests;
