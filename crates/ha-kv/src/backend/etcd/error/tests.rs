//! One test a meaning (W11): the texts are those of the servers, word for word.

use std::io;
use std::sync::Arc;

use super::*;

fn on(access: Access, code: Code, text: &str) -> Failure {
    Failure::of(etcd_client::Error::GRpcStatus(tonic::Status::new(code, text)), access, "http://e:1")
}

fn write(code: Code, text: &str) -> (KvErrorKind, Effect, FollowUp) {
    let failure = on(Access::Write, code, text);
    assert!(failure.error.message.contains("http://e:1"), "the endpoint is named");
    (failure.error.kind, failure.error.effect, failure.follow_up)
}

macro_rules! meanings {
    ($($name:ident: $code:ident $text:literal => $kind:ident $effect:ident $follow_up:ident;)*) => {
        /// What the tests below ask about.
        const ASKED: &[(Code, &str)] = &[$((Code::$code, $text)),*];

        $(#[test]
        fn $name() {
            assert_eq!(write(Code::$code, $text), (K::$kind, $effect, $follow_up));
            assert_eq!(on(Access::Read, Code::$code, $text).error.effect, NotApplied, "a read applies nothing");
        })*
    };
}

meanings! {
    w11_code_8_no_space: ResourceExhausted "etcdserver: mvcc: database space exceeded" => NoSpace Unknown Stay;
    w11_code_8_too_many_requests: ResourceExhausted "etcdserver: too many requests" => Busy NotApplied Stay;
    w11_code_8_request_larger_than_max: ResourceExhausted "grpc: received message larger than max (2097200 vs. 2097152)" => TooLarge NotApplied Stay;
    w11_code_8_reply_larger_than_max: ResourceExhausted "grpc: trying to send message larger than max (5 vs. 4)" => TooLarge Unknown Stay;
    w11_code_8_anything_else: ResourceExhausted "quota" => Busy Unknown Stay;
    w11_code_11_compacted: OutOfRange "etcdserver: mvcc: required revision has been compacted" => Busy NotApplied Stay;
    w11_code_11_reply_too_large: OutOfRange "Error, decoded message length too large: found 6291503 bytes, the limit is: 4194304 bytes" => TooLarge Unknown Stay;
    w11_code_11_lease_ttl: OutOfRange "etcdserver: too large lease TTL" => InvalidArgument NotApplied Stay;
    w11_code_3_request_too_large: InvalidArgument "etcdserver: request is too large" => TooLarge NotApplied Stay;
    w11_code_3_too_many_operations: InvalidArgument "etcdserver: too many operations in txn request" => TooLarge NotApplied Stay;
    w11_code_3_duplicate_key: InvalidArgument "etcdserver: duplicate key given in txn request" => InvalidArgument NotApplied Stay;
    w11_code_3_wrong_password: InvalidArgument "etcdserver: authentication failed, invalid user ID or password" => Auth NotApplied Stay;
    w11_code_3_no_user: InvalidArgument "etcdserver: user name is empty" => Auth NotApplied Stay;
    w11_code_3_auth_store_changed: InvalidArgument "etcdserver: revision of auth store is old" => Unavailable NotApplied Authenticate;
    w11_code_5_lease_not_found: NotFound "etcdserver: requested lease not found" => LeaseNotFound NotApplied Stay;
    w11_code_7_permission: PermissionDenied "etcdserver: permission denied" => Auth NotApplied Stay;
    w11_code_9_auth_not_enabled: FailedPrecondition "etcdserver: authentication is not enabled" => Auth NotApplied Stay;
    w11_code_14_no_leader: Unavailable "etcdserver: no leader" => Unavailable NotApplied Rotate;
    w11_code_14_timed_out: Unavailable "etcdserver: request timed out, possibly due to previous leader failure" => Timeout Unknown Rotate;
    w11_code_14_leader_changed: Unavailable "etcdserver: leader changed" => Unavailable Unknown Rotate;
    w11_code_14_learner: Unavailable "etcdserver: rpc not supported for learner" => Unavailable NotApplied Rotate;
    w11_code_14_cut: Unavailable "error reading a body from connection" => Unavailable Unknown Rotate;
    w11_code_15_corrupt: DataLoss "etcdserver: corrupt cluster" => Corrupt NotApplied Stay;
    w11_code_16_expired_token: Unauthenticated "etcdserver: invalid auth token" => Unavailable NotApplied Authenticate;
    w11_code_2_expired_token: Unknown "etcdserver: invalid auth token" => Unavailable NotApplied Authenticate;
    w11_code_2_too_many_requests: Unknown "etcdserver: too many requests" => Busy NotApplied Stay;
    w11_code_2_dropped_proposal: Unknown "raft proposal dropped" => Unavailable Unknown Rotate;
    w11_code_1_cancelled: Cancelled "" => Unavailable Unknown Rotate;
    w11_code_4_deadline: DeadlineExceeded "context deadline exceeded" => Timeout Unknown Rotate;
    w11_code_12_old_server: Unimplemented "unknown method" => Unsupported NotApplied Stay;
    w11_code_13_internal: Internal "h2 protocol error" => Unavailable Unknown Rotate;
    w11_code_3_user_gone: InvalidArgument "etcdserver: user name not found" => Auth NotApplied Authenticate;
    w11_code_3_anything_else: InvalidArgument "etcdserver: key is not provided" => InvalidArgument NotApplied Stay;
    w11_code_5_anything_else: NotFound "etcdserver: member not found" => InvalidArgument NotApplied Stay;
    w11_code_6_exists: AlreadyExists "etcdserver: peerURL exists" => InvalidArgument NotApplied Stay;
    w11_code_9_not_leader: FailedPrecondition "etcdserver: not leader" => Unavailable Unknown Stay;
    w11_code_10_aborted: Aborted "" => Unavailable Unknown Rotate;
    w11_code_11_request_too_large: OutOfRange "Error, encoded message length too large: found 5 bytes, the limit is: 4 bytes" => TooLarge NotApplied Stay;
    w11_code_11_anything_else: OutOfRange "etcdserver: mvcc: required revision is a future revision" => Unavailable Unknown Stay;
    w11_code_14_old_server: Unavailable "etcdserver: not capable" => Unsupported NotApplied Stay;
    w11_code_15_anything_else: DataLoss "lost" => Corrupt Unknown Stay;
}

#[test]
fn every_row_has_a_test() {
    for row in TABLE {
        let asked = ASKED.iter().any(|(code, text)| std::ptr::eq(find(*code, text), row));
        assert!(asked, "nothing asks about {:?} {:?}", row.native, row.text);
    }
    assert_eq!(find(Code::Ok, "").kind, OTHER.kind);
}

/// `errors.md` is shown with [`EtcdKv`](crate::EtcdKv); it says what the code does.
#[test]
fn the_table_for_readers_is_the_table() {
    let shown: Vec<_> = include_str!("../errors.md").lines().filter(|line| line.starts_with("| `")).collect();
    let made: Vec<_> = TABLE
        .iter()
        .map(|row| {
            let text = if row.text.is_empty() { "anything else".into() } else { format!("\"{}\"", row.text) };
            let (code, kind, effect) = (row.native as i32, row.kind, row.effect);
            format!("| `{:?}` ({code}) | {text} | `{kind:?}` | `{effect:?}` | {:?} |", row.native, row.follow_up)
        })
        .collect();
    assert_eq!(shown.join("\n"), made.join("\n"), "errors.md and the table differ");
}

#[test]
fn every_code_ends_in_a_row_that_matches_all_texts() {
    for code in (1..=16).map(Code::from) {
        assert!(TABLE.iter().any(|r| r.native == code && r.text.is_empty()), "{code:?} has no last row");
    }
}

#[test]
fn no_row_is_hidden_by_an_earlier_one() {
    for (at, row) in TABLE.iter().enumerate() {
        let first = TABLE.iter().position(|r| r.native == row.native && row.text.contains(r.text));
        assert_eq!(first, Some(at), "{:?} {:?}", row.native, row.text);
    }
}

#[test]
fn a_connection_that_was_never_made_applied_nothing() {
    let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    let mut status = tonic::Status::unavailable("tcp connect error");
    status.set_source(Arc::new(tonic::ConnectError(refused.into())));
    let failure = Failure::of(etcd_client::Error::GRpcStatus(status), Access::Write, "http://e:1");
    assert_eq!((failure.error.kind, failure.error.effect, failure.follow_up), (K::Unavailable, NotApplied, Rotate));
}

#[test]
fn a_refused_handshake_is_a_matter_of_trust() {
    let bad = io::Error::new(io::ErrorKind::InvalidData, "invalid peer certificate: UnknownIssuer");
    let mut status = tonic::Status::unavailable("invalid peer certificate");
    status.set_source(Arc::new(tonic::ConnectError(bad.into())));
    let failure = Failure::of(etcd_client::Error::GRpcStatus(status), Access::Write, "https://e:1");
    assert_eq!((failure.error.kind, failure.error.effect), (K::Auth, NotApplied));
    assert!(failure.error.message.contains("UnknownIssuer"), "{}", failure.error.message);
}

#[test]
fn a_timeout_is_unknown_once_sent() {
    let after = std::time::Duration::from_secs(2);
    assert_eq!(Failure::timed_out(Access::Write, true, "e", after).error.effect, Unknown);
    assert_eq!(Failure::timed_out(Access::Write, false, "e", after).error.effect, NotApplied);
    assert_eq!(Failure::timed_out(Access::Read, true, "e", after).error.effect, NotApplied);
}

#[test]
fn a_dead_lease_is_final() {
    let error = etcd_client::Error::LeaseKeepAliveError("lease not found".into());
    assert_eq!(Failure::of(error, Access::Write, "e").error.kind, K::LeaseNotFound);
    let error = etcd_client::Error::LeaseKeepAliveError("channel closed".into());
    assert_eq!(Failure::of(error, Access::Write, "e").error.effect, Unknown);
}
