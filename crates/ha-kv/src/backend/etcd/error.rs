//! Owns the one table *etcd's error → (kind, effect)*. Nothing else in the backend looks at a gRPC code or at a server's text.
//!
//! etcd uses one code for several meanings (8 is "too large", "no space" and "too many requests"; 11 is "compacted" and "reply
//! too large") and two codes for one (its list of errors has "too many requests" under 8, its servers send 2), so a row is found by
//! code *and* text, the first that matches. An effect of `NotApplied` needs a proof, given in the row; everything else on a write is
//! `Unknown`. Reads say `NotApplied` whatever the row says. `errors.md` beside this file is the table for readers; a test keeps the
//! two equal.

use std::error::Error as StdError;

use tonic::Code;

use crate::backend::failure::{self, row};
use crate::{Effect, KvErrorKind};

pub(super) use crate::backend::failure::Access;

/// What the backend itself does after a failure, before the *next* call. The failed call is never repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowUp {
    /// Nothing: the member answered.
    Stay,
    /// The next call goes to another member.
    Rotate,
    /// The next call authenticates first.
    Authenticate,
}

/// A failure with what to do about it.
pub(super) type Failure = failure::Failure<FollowUp>;

type Row = failure::Row<Code, FollowUp>;

const TOO_LARGE: &str = "set max_request_bytes to the server's --max-request-bytes, or raise the server's";
const NO_SPACE: &str = "delete, compact, defragment and disarm the NOSPACE alarm, or raise --quota-backend-bytes";
const PASSWORD: &str = "check user and password";

use Effect::{NotApplied, Unknown};
use FollowUp::{Authenticate, Rotate, Stay};
use KvErrorKind as K;

/// The table. Proofs of `NotApplied`: the server checks size, operation count, keys, lease, token, permission and backlog before
/// it proposes, or in the deterministic apply step, where a refusal changes nothing on any member. *No space* has no such proof:
/// the member that finds the quota used up while it applies a request applies it, and only then says so.
#[rustfmt::skip]
static TABLE: &[Row] = &[
    row(Code::Cancelled, "", K::Unavailable, Unknown, Rotate, ""),
    row(Code::Unknown, "invalid auth token", K::Unavailable, NotApplied, Authenticate, "the next call authenticates again"),
    row(Code::Unknown, "too many requests", K::Busy, NotApplied, Stay, ""),
    row(Code::Unknown, "", K::Unavailable, Unknown, Rotate, ""),
    row(Code::InvalidArgument, "request is too large", K::TooLarge, NotApplied, Stay, TOO_LARGE),
    row(Code::InvalidArgument, "too many operations in txn", K::TooLarge, NotApplied, Stay, "set max_txn_ops to the server's --max-txn-ops"),
    row(Code::InvalidArgument, "authentication failed", K::Auth, NotApplied, Stay, PASSWORD),
    row(Code::InvalidArgument, "user name is empty", K::Auth, NotApplied, Stay, "the server asks for a user and a password"),
    row(Code::InvalidArgument, "user name not found", K::Auth, NotApplied, Authenticate, PASSWORD),
    row(Code::InvalidArgument, "revision of auth store is old", K::Unavailable, NotApplied, Authenticate, "the next call authenticates again"),
    row(Code::InvalidArgument, "", K::InvalidArgument, NotApplied, Stay, ""),
    row(Code::DeadlineExceeded, "", K::Timeout, Unknown, Rotate, ""),
    row(Code::NotFound, "requested lease not found", K::LeaseNotFound, NotApplied, Stay, ""),
    row(Code::NotFound, "", K::InvalidArgument, NotApplied, Stay, ""),
    row(Code::AlreadyExists, "", K::InvalidArgument, NotApplied, Stay, ""),
    row(Code::PermissionDenied, "", K::Auth, NotApplied, Stay, "grant the user read and write on the keys"),
    row(Code::ResourceExhausted, "database space exceeded", K::NoSpace, Unknown, Stay, NO_SPACE),
    row(Code::ResourceExhausted, "too many requests", K::Busy, NotApplied, Stay, ""),
    row(Code::ResourceExhausted, "received message larger than max", K::TooLarge, NotApplied, Stay, TOO_LARGE),
    row(Code::ResourceExhausted, "trying to send message larger than max", K::TooLarge, Unknown, Stay, ""),
    row(Code::ResourceExhausted, "", K::Busy, Unknown, Stay, ""),
    row(Code::FailedPrecondition, "authentication is not enabled", K::Auth, NotApplied, Stay, "enable authentication on the server or give no user"),
    row(Code::FailedPrecondition, "", K::Unavailable, Unknown, Stay, ""),
    row(Code::Aborted, "", K::Unavailable, Unknown, Rotate, ""),
    row(Code::OutOfRange, "required revision has been compacted", K::Busy, NotApplied, Stay, "read again"),
    row(Code::OutOfRange, "decoded message length too large", K::TooLarge, Unknown, Stay, "raise max_reply_bytes"),
    row(Code::OutOfRange, "encoded message length too large", K::TooLarge, NotApplied, Stay, TOO_LARGE),
    row(Code::OutOfRange, "too large lease TTL", K::InvalidArgument, NotApplied, Stay, "ask for a shorter TTL"),
    row(Code::OutOfRange, "", K::Unavailable, Unknown, Stay, ""),
    row(Code::Unimplemented, "", K::Unsupported, NotApplied, Stay, "etcd 3.4 or later is needed"),
    row(Code::Internal, "", K::Unavailable, Unknown, Rotate, ""),
    row(Code::Unavailable, "etcdserver: no leader", K::Unavailable, NotApplied, Rotate, ""),
    row(Code::Unavailable, "not supported for learner", K::Unavailable, NotApplied, Rotate, "name voting members only"),
    row(Code::Unavailable, "not capable", K::Unsupported, NotApplied, Stay, "etcd 3.4 or later is needed"),
    row(Code::Unavailable, "request timed out", K::Timeout, Unknown, Rotate, ""),
    row(Code::Unavailable, "", K::Unavailable, Unknown, Rotate, ""),
    row(Code::DataLoss, "corrupt cluster", K::Corrupt, NotApplied, Stay, "the members disagree: restore from a backup"),
    row(Code::DataLoss, "", K::Corrupt, Unknown, Stay, ""),
    row(Code::Unauthenticated, "", K::Unavailable, NotApplied, Authenticate, "the next call authenticates again"),
];

/// A code outside the table: nothing is known.
static OTHER: Row = row(Code::Unknown, "", K::Unavailable, Unknown, Rotate, "");

fn find(code: Code, text: &str) -> &'static Row {
    TABLE.iter().find(|row| row.native == code && text.contains(row.text)).unwrap_or(&OTHER)
}

impl Failure {
    /// What the client library reported about a call to `endpoint`.
    pub(super) fn of(error: etcd_client::Error, access: Access, endpoint: &str) -> Self {
        match error {
            etcd_client::Error::GRpcStatus(status) => Self::of_status(status, access, endpoint),
            etcd_client::Error::LeaseKeepAliveError(text) if text.contains("lease not found") => Self::new(
                K::LeaseNotFound,
                NotApplied,
                Stay,
                format!("etcd at {endpoint}: the lease ran out or was revoked"),
            ),
            etcd_client::Error::InvalidArgs(text) => {
                Self::new(K::InvalidArgument, NotApplied, Stay, format!("etcd at {endpoint}: {text}"))
            }
            other => {
                let effect = if never_connected(&other) { NotApplied } else { access.effect(Unknown) };
                let text = format!("etcd at {endpoint}: {other}");
                Self::new(K::Unavailable, effect, Rotate, text).caused_by(other)
            }
        }
    }

    /// A call to `endpoint` that did not end in time. `sent` says whether the request itself had been handed to the connection.
    pub(super) fn timed_out(access: Access, sent: bool, endpoint: &str, after: std::time::Duration) -> Self {
        let effect = if sent { access.effect(Unknown) } else { NotApplied };
        Self::new(K::Timeout, effect, Rotate, format!("etcd at {endpoint} did not answer within {after:?}"))
    }

    /// Text in place of an error, as a cancelled watch gives it.
    pub(super) fn of_text(text: &str, endpoint: &str) -> Self {
        let code = if text.contains("permission denied") {
            Code::PermissionDenied
        } else if text.contains("invalid auth token") {
            Code::Unauthenticated
        } else if text.contains("no leader") {
            Code::Unavailable
        } else {
            Code::Unknown
        };
        let row = find(code, text);
        row.failure(Access::Read, &server(endpoint), text)
    }

    fn of_status(status: tonic::Status, access: Access, endpoint: &str) -> Self {
        if never_connected(&status) {
            return Self::not_connected(status, endpoint);
        }
        let row = find(status.code(), status.message());
        let text = if status.message().is_empty() { status.code().description() } else { status.message() };
        let text = match status.source() {
            // The transport's own words name no cause; what it wraps does.
            Some(source) => format!("{text}: {}", deepest(source)),
            None => text.to_owned(),
        };
        row.failure(access, &server(endpoint), &text).caused_by(status)
    }

    /// No connection, so no request was sent: the proof of `NotApplied`.
    fn not_connected(status: tonic::Status, endpoint: &str) -> Self {
        let cause = deepest(&status).to_string();
        let failure = if tls_refused(&status) {
            let text = format!(
                "TLS with etcd at {endpoint} failed: {cause}; check the CA, the certificate's name and that the server speaks TLS"
            );
            Self::new(K::Auth, NotApplied, Rotate, text)
        } else {
            Self::new(K::Unavailable, NotApplied, Rotate, format!("etcd at {endpoint} cannot be reached: {cause}"))
        };
        failure.caused_by(status)
    }
}

fn server(endpoint: &str) -> String {
    format!("etcd at {endpoint}")
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&e| e.source())
}

fn deepest<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    chain(error).last().unwrap_or(error)
}

/// Whether the connection itself failed. The transport reports this in place of sending the request, never after.
fn never_connected(error: &(dyn StdError + 'static)) -> bool {
    chain(error).any(|e| e.is::<tonic::ConnectError>())
}

/// Whether the handshake was refused. The TLS layer reports what it does not accept as invalid data.
fn tls_refused(error: &(dyn StdError + 'static)) -> bool {
    chain(error).filter_map(|e| e.downcast_ref::<std::io::Error>()).any(|e| e.kind() == std::io::ErrorKind::InvalidData)
}

#[cfg(test)]
mod tests;
