//! Owns which member the next call goes to, the bound on every call, and the identity of the cluster. It repeats nothing.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use etcd_client::ResponseHeader;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::error::{Access, Failure, FollowUp};
use super::member::Member;
use super::options::EtcdOptions;
use crate::{KvError, KvErrorKind};

/// An answer with the cluster that gave it; `None` where the library hides the header.
pub(super) struct Reply<T> {
    cluster_id: Option<u64>,
    value: T,
}

impl<T> Reply<T> {
    pub(super) fn new(header: Option<&ResponseHeader>, value: T) -> Self {
        Self { cluster_id: header.map(ResponseHeader::cluster_id), value }
    }
}

/// The members of one cluster.
pub(super) struct Pool {
    options: EtcdOptions,
    members: Vec<Arc<Member>>,
    /// Counts failures to answer; the member in use is this modulo their number.
    turn: AtomicUsize,
    cluster_id: u64,
}

impl Pool {
    /// Asks all endpoints at once who they are.
    pub(super) async fn open(options: EtcdOptions) -> Result<Self, KvError> {
        let mut members = Vec::with_capacity(options.endpoints.len());
        for endpoint in &options.endpoints {
            members.push(Arc::new(Member::new(endpoint, &options).await?));
        }
        let answers = inspect_all(&members, &options).await;
        let mut first: Option<(usize, u64)> = None;
        let mut failure = None;
        for (at, (member, answer)) in members.iter().zip(answers).enumerate() {
            let found = match answer {
                Ok(found) => found,
                // Only silence is forgiven: a member may be down, but a wrong password or an old version stays wrong.
                Err(f) if is_silence(f.error.kind) => {
                    failure.get_or_insert_with(|| with_scheme_remedy(f.error, &member.endpoint));
                    continue;
                }
                Err(f) => return Err(f.error),
            };
            let expected = options.cluster_id.or(first.map(|(_, id)| id)).unwrap_or(found);
            member.check_cluster(expected, found, Access::Read).map_err(|f| f.error)?;
            first = first.or(Some((at, found)));
        }
        let Some((turn, cluster_id)) = first else {
            return Err(failure.unwrap_or_else(|| KvError::read(KvErrorKind::Unavailable, "no etcd endpoint answered")));
        };
        Ok(Self { options, members, turn: AtomicUsize::new(turn), cluster_id })
    }

    pub(super) fn options(&self) -> &EtcdOptions {
        &self.options
    }

    pub(super) fn cluster_id(&self) -> u64 {
        self.cluster_id
    }

    /// Runs one call on the member in use, within the request timeout. A failure decides where the next call goes, and so does a
    /// caller that gives up on a slow answer.
    pub(super) async fn call<T, F, Fut>(&self, access: Access, op: F) -> Result<T, KvError>
    where
        F: FnOnce(&Member) -> Fut + Send,
        Fut: Future<Output = Result<Reply<T>, etcd_client::Error>> + Send,
        T: Send,
    {
        let turn = self.turn.load(Ordering::Acquire);
        // Opening refuses an empty list, so there is a member at every turn.
        let Some(member) = self.members.get(turn % self.members.len().max(1)) else {
            return Err(KvError::read(KvErrorKind::Closed, "there is no etcd endpoint"));
        };
        let sent = AtomicBool::new(false);
        let work = async {
            member.admit(&self.options, Some(self.cluster_id)).await?;
            sent.store(true, Ordering::Relaxed);
            let reply = op(member).await.map_err(|e| Failure::of(e, access, &member.endpoint))?;
            if let Some(found) = reply.cluster_id {
                member.check_cluster(self.cluster_id, found, access)?;
            }
            Ok(reply.value)
        };
        let limit = self.options.request_timeout;
        let mut asked = Asked { pool: self, turn, member, slow: false, ended: false };
        let result = match timeout(limit, asked.wait_for(work)).await {
            Ok(result) => result,
            Err(_) => Err(Failure::timed_out(access, sent.load(Ordering::Relaxed), &member.endpoint, limit)),
        };
        asked.ended = true;
        result.map_err(|failure| {
            self.follow_up(turn, member, failure.follow_up);
            failure.error
        })
    }

    /// Prepares the next call. Calls that failed together move on by one member, not by several.
    fn follow_up(&self, turn: usize, member: &Member, follow_up: FollowUp) {
        match follow_up {
            FollowUp::Stay => {}
            FollowUp::Authenticate => member.dismiss(false),
            FollowUp::Rotate => {
                member.dismiss(true);
                let _ = self.turn.compare_exchange(turn, turn.wrapping_add(1), Ordering::AcqRel, Ordering::Acquire);
            }
        }
    }

    /// What [`Self::call`] does after a failure, for a stream that failed later on.
    pub(super) fn stream_failed(&self, turn: usize, failure: Failure) -> KvError {
        if let Some(member) = self.members.get(turn % self.members.len().max(1)) {
            self.follow_up(turn, member, failure.follow_up);
        }
        failure.error
    }

    /// The turn that the next call takes.
    pub(super) fn turn(&self) -> usize {
        self.turn.load(Ordering::Acquire)
    }
}

/// A call that waits for its answer. A caller with less patience than the request timeout drops it unanswered; without this its
/// next call would go to the same silent member, for ever.
struct Asked<'a> {
    pool: &'a Pool,
    turn: usize,
    member: &'a Member,
    /// Whether the answer takes so long that the member is to blame if it is not waited for.
    slow: bool,
    ended: bool,
}

impl Asked<'_> {
    async fn wait_for<T>(&mut self, work: impl Future<Output = T> + Send) -> T {
        let mut work = pin!(work);
        if let Ok(answer) = timeout(self.pool.options.request_timeout / 4, work.as_mut()).await {
            return answer;
        }
        self.slow = true;
        work.await
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.slow && !self.ended {
            self.pool.follow_up(self.turn, self.member, FollowUp::Rotate);
        }
    }
}

/// Whether the member gave no answer at all.
fn is_silence(kind: KvErrorKind) -> bool {
    matches!(kind, KvErrorKind::Unavailable | KvErrorKind::Timeout)
}

/// A server that speaks the other of plain text and TLS just ends the connection: nothing in the error says so.
fn with_scheme_remedy(mut error: KvError, endpoint: &str) -> KvError {
    let remedy = match endpoint.split_once("://") {
        Some(("https", rest)) => format!("is it up, and does it speak TLS? Without TLS write http://{rest}"),
        Some((_, rest)) => format!("is it up, and does it speak plain text? With TLS write https://{rest}"),
        None => return error,
    };
    error.message = format!("{}; {remedy}", error.message);
    error
}

async fn inspect_all(members: &[Arc<Member>], options: &EtcdOptions) -> Vec<Result<u64, Failure>> {
    let mut asking = JoinSet::new();
    for (at, member) in members.iter().enumerate() {
        let (member, options) = (Arc::clone(member), options.clone());
        asking.spawn(async move {
            let limit = options.request_timeout;
            let answer = timeout(limit, member.inspect(&options)).await;
            (at, answer.unwrap_or_else(|_| Err(Failure::timed_out(Access::Read, true, &member.endpoint, limit))))
        });
    }
    let mut answers = asking.join_all().await;
    answers.sort_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
