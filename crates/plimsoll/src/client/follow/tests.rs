//! Against real sockets: a server that answers as it is told, and one that cuts the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ha_rpc::v1::admin_service_server::AdminService;
use ha_rpc::v1::{SetPolicyReply, SetPolicyRequest, StatusReply, StatusRequest, StepDownReply, StepDownRequest};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket};
use tokio_stream::wrappers::TcpListenerStream;

use super::*;
use crate::client::ClientOptions;

/// Of calls that must not end because the machine is slow.
const PATIENT_MS: u64 = 60_000;

type Answer = Box<dyn Fn(usize) -> Option<ErrorDetail> + Send + Sync>;

/// Fails the n-th call as told, or answers with epoch 7.
struct Told {
    calls: Arc<AtomicUsize>,
    answer: Answer,
}

#[tonic::async_trait]
impl AdminService for Told {
    async fn step_down(&self, _: Request<StepDownRequest>) -> Result<Response<StepDownReply>, Status> {
        match (self.answer)(self.calls.fetch_add(1, Ordering::SeqCst)) {
            Some(detail) => Err(detail.into()),
            None => Ok(Response::new(StepDownReply { epoch: 7 })),
        }
    }
    async fn set_policy(&self, _: Request<SetPolicyRequest>) -> Result<Response<SetPolicyReply>, Status> {
        match (self.answer)(self.calls.fetch_add(1, Ordering::SeqCst)) {
            Some(detail) => Err(detail.into()),
            None => Ok(Response::new(SetPolicyReply::default())),
        }
    }
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        Ok(Response::new(StatusReply { epoch: 7, ..StatusReply::default() }))
    }
}

async fn server(answer: impl Fn(usize) -> Option<ErrorDetail> + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let calls = Arc::new(AtomicUsize::new(0));
    let told = Told { calls: Arc::clone(&calls), answer: Box::new(answer) };
    let serving = ha_rpc::server().add_service(ha_rpc::admin_server(told));
    tokio::spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));
    (address, calls)
}

fn client(endpoints: &[&str], timeout_ms: u64) -> Client {
    let endpoints = endpoints.iter().map(|e| (*e).to_owned()).collect();
    let timeout = Duration::from_millis(timeout_ms);
    Client::new(ClientOptions { endpoints, timeout, tls: None, token: None }).unwrap()
}

/// An address where nobody listens, and nobody else will while the socket is there.
fn nobody() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

fn detail(code: ErrorCode, leader: &str, retry_after_ms: u64) -> ErrorDetail {
    ErrorDetail { leader_address: leader.into(), retry_after_ms, ..ErrorDetail::new(code, "told so") }
}

#[tokio::test]
async fn not_leader_is_followed_to_the_address_given_and_remembered() {
    let (leader, leader_calls) = server(|_| None).await;
    let told = leader.clone();
    let (follower, follower_calls) = server(move |_| Some(detail(ErrorCode::NotLeader, &told, 0))).await;
    let client = client(&[&follower], PATIENT_MS);
    for _ in 0..3 {
        assert_eq!(client.step_down(StepDownRequest {}).await.unwrap().epoch, 7);
    }
    assert_eq!((follower_calls.load(Ordering::SeqCst), leader_calls.load(Ordering::SeqCst)), (1, 3));
}

#[tokio::test]
async fn a_connection_never_made_is_followed_to_the_next_endpoint() {
    let (leader, _) = server(|_| None).await;
    let (_held, nobody) = nobody();
    let client = client(&[&nobody, &leader], PATIENT_MS);
    assert_eq!(client.step_down(StepDownRequest {}).await.unwrap().epoch, 7);
}

#[tokio::test]
async fn nobody_there_is_not_done_within_the_timeout() {
    let (_held, nobody) = nobody();
    let client = client(&[&nobody], 3_000);
    let error = client.step_down(StepDownRequest {}).await.unwrap_err();
    assert!(matches!(&error, CallError::NotDone(why) if why.contains("no leader")), "{error}");
}

#[tokio::test]
async fn retry_after_is_waited_for_but_not_past_the_timeout() {
    let (address, calls) = server(|n| (n < 2).then(|| detail(ErrorCode::RetryAfter, "", 5))).await;
    assert_eq!(client(&[&address], PATIENT_MS).step_down(StepDownRequest {}).await.unwrap().epoch, 7);
    assert_eq!(calls.load(Ordering::SeqCst), 3);

    let (address, calls) = server(|_| Some(detail(ErrorCode::RetryAfter, "", 2 * PATIENT_MS))).await;
    let error = client(&[&address], PATIENT_MS).step_down(StepDownRequest {}).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::RetryAfter));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_order_that_was_answered_is_reported_and_never_sent_again() {
    for (code, is_unknown) in
        [(ErrorCode::Unknown, true), (ErrorCode::NotApplied, false), (ErrorCode::NoAvailableSpace, false)]
    {
        let (address, calls) = server(move |_| Some(detail(code, "", 0))).await;
        let error = client(&[&address], PATIENT_MS).step_down(StepDownRequest {}).await.unwrap_err();
        assert_eq!((matches!(error, CallError::Unknown(_)), error.code()), (is_unknown, Some(code)));
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_change_that_was_not_applied_is_asked_again_and_an_unknown_one_never() {
    let (address, calls) = server(|n| (n < 2).then(|| detail(ErrorCode::NotApplied, "", 0))).await;
    client(&[&address], PATIENT_MS).set_policy(SetPolicyRequest::default()).await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 3);

    let (address, calls) = server(|_| Some(detail(ErrorCode::Unknown, "", 0))).await;
    let error = client(&[&address], PATIENT_MS).set_policy(SetPolicyRequest::default()).await.unwrap_err();
    assert!(matches!(error, CallError::Unknown(_)), "{error}");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_change_whose_connection_is_cut_is_unknown_and_a_read_is_asked_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let accepted = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&accepted);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::SeqCst);
            // Takes the request's first bytes, then closes.
            let _ = socket.read(&mut [0; 64]).await;
        }
    });
    let change = client(&[&address], PATIENT_MS).step_down(StepDownRequest {}).await.unwrap_err();
    assert!(matches!(change, CallError::Unknown(_)), "{change}");
    assert_eq!(accepted.load(Ordering::SeqCst), 1);

    let (other, _) = server(|_| None).await;
    let read = client(&[&address, &other], PATIENT_MS).status(StatusRequest {}).await.unwrap();
    assert_eq!(read.epoch, 7, "the next endpoint was asked");
    assert!(accepted.load(Ordering::SeqCst) > 1, "the first one was asked before");
}

/// Calls whose every attempt takes `attempt_ms` and ends in `code`, until the call gives up. Gives how it ended and when, in milliseconds,
/// each attempt began. No socket: what is sent is told here, and time is the runtime's.
async fn until_it_gives_up(
    code: ErrorCode,
    retry_after_ms: u64,
    attempt_ms: u64,
    timeout_ms: u64,
) -> (CallError, Vec<u64>) {
    let client = client(&["127.0.0.1:1"], timeout_ms);
    let begun = Instant::now();
    let attempts = parking_lot::Mutex::new(Vec::new());
    let sent = client.call(Kind::Change, (), |_, _| {
        attempts.lock().push(u64::try_from(begun.elapsed().as_millis()).unwrap());
        async move {
            tokio::time::sleep(Duration::from_millis(attempt_ms)).await;
            Err::<Response<()>, Status>(detail(code, "", retry_after_ms).into())
        }
    });
    let error = sent.await.unwrap_err();
    (error, attempts.into_inner())
}

/// A change that was not done, as often as it was asked for, ends as not done: the deadline cuts no attempt off, for none begins so late.
#[tokio::test(start_paused = true)]
async fn no_attempt_begins_that_the_deadline_would_cut_off() {
    // 200 ms before the end of a long call, a tenth of its time before the end of a short one.
    for (timeout_ms, attempt_ms, last_start_ms) in [(10_000, 190, 9_800), (1_000, 95, 900)] {
        for (code, retry_after_ms) in
            [(ErrorCode::NotApplied, 0), (ErrorCode::RetryAfter, 1), (ErrorCode::NotLeader, 0)]
        {
            let (error, attempts) = until_it_gives_up(code, retry_after_ms, attempt_ms, timeout_ms).await;
            let certain = match code {
                ErrorCode::NotLeader => matches!(error, CallError::NotDone(_)),
                _ => matches!(&error, CallError::Refused(refused) if refused.code() == code),
            };
            assert!(certain, "{timeout_ms} ms, {code:?}: {error:?}");
            let last = *attempts.last().unwrap();
            assert!(last < last_start_ms, "{timeout_ms} ms, {code:?}: an attempt began at {last} ms");
            // It does not give up early either: the next attempt would have begun too late.
            let step = attempts[1] - attempts[0];
            assert!(
                last + step.max(attempt_ms + 50) >= last_start_ms,
                "{timeout_ms} ms, {code:?}: gave up after {last} ms"
            );
        }
    }
}

/// One that began in time and is not answered is cut off all the same, and nobody can tell what became of it.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_began_in_time_and_is_cut_off_is_unknown() {
    let (error, attempts) = until_it_gives_up(ErrorCode::NotApplied, 0, 20_000, 10_000).await;
    assert!(matches!(error, CallError::Unknown(_)), "{error:?}");
    assert_eq!(attempts, [0]);
}
