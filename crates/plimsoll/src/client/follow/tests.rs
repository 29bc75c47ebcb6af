//! Against real sockets: a server that answers as it is told, and one that cuts the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ha_rpc::v1::admin_service_server::AdminService;
use ha_rpc::v1::{SetPolicyReply, SetPolicyRequest, StatusReply, StatusRequest, StepDownReply, StepDownRequest};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;

use super::*;
use crate::client::ClientOptions;

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
        Err(Status::unimplemented(""))
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

/// An address where nobody listens.
async fn nobody() -> String {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string()
}

fn detail(code: ErrorCode, leader: &str, retry_after_ms: u64) -> ErrorDetail {
    ErrorDetail { leader_address: leader.into(), retry_after_ms, ..ErrorDetail::new(code, "told so") }
}

#[tokio::test]
async fn not_leader_is_followed_to_the_address_given_and_remembered() {
    let (leader, leader_calls) = server(|_| None).await;
    let told = leader.clone();
    let (follower, follower_calls) = server(move |_| Some(detail(ErrorCode::NotLeader, &told, 0))).await;
    let client = client(&[&follower], 5_000);
    for _ in 0..3 {
        assert_eq!(client.step_down(StepDownRequest {}).await.unwrap().epoch, 7);
    }
    assert_eq!((follower_calls.load(Ordering::SeqCst), leader_calls.load(Ordering::SeqCst)), (1, 3));
}

#[tokio::test]
async fn a_connection_never_made_is_followed_to_the_next_endpoint() {
    let (leader, _) = server(|_| None).await;
    let client = client(&[&nobody().await, &leader], 5_000);
    assert_eq!(client.step_down(StepDownRequest {}).await.unwrap().epoch, 7);
}

#[tokio::test]
async fn nobody_there_is_not_done_within_the_timeout() {
    let client = client(&[&nobody().await], 3_000);
    let error = client.step_down(StepDownRequest {}).await.unwrap_err();
    assert!(matches!(&error, CallError::NotDone(why) if why.contains("no leader")), "{error}");
}

#[tokio::test]
async fn retry_after_is_waited_for_but_not_past_the_timeout() {
    let (address, calls) = server(|n| (n < 2).then(|| detail(ErrorCode::RetryAfter, "", 5))).await;
    assert_eq!(client(&[&address], 5_000).step_down(StepDownRequest {}).await.unwrap().epoch, 7);
    assert_eq!(calls.load(Ordering::SeqCst), 3);

    let (address, calls) = server(|_| Some(detail(ErrorCode::RetryAfter, "", 60_000))).await;
    let error = client(&[&address], 1_000).step_down(StepDownRequest {}).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::RetryAfter));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_order_that_was_answered_is_reported_and_never_sent_again() {
    for (code, is_unknown) in
        [(ErrorCode::Unknown, true), (ErrorCode::NotApplied, false), (ErrorCode::NoAvailableSpace, false)]
    {
        let (address, calls) = server(move |_| Some(detail(code, "", 0))).await;
        let error = client(&[&address], 5_000).step_down(StepDownRequest {}).await.unwrap_err();
        assert_eq!((matches!(error, CallError::Unknown(_)), error.code()), (is_unknown, Some(code)));
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_change_that_was_not_applied_is_asked_again_and_an_unknown_one_never() {
    let (address, calls) = server(|n| (n < 2).then(|| detail(ErrorCode::NotApplied, "", 0))).await;
    client(&[&address], 5_000).set_policy(SetPolicyRequest::default()).await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 3);

    let (address, calls) = server(|_| Some(detail(ErrorCode::NotApplied, "", 0))).await;
    let error = client(&[&address], 300).set_policy(SetPolicyRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NotApplied), "{error}");
    assert!(calls.load(Ordering::SeqCst) > 1);

    let (address, calls) = server(|_| Some(detail(ErrorCode::Unknown, "", 0))).await;
    let error = client(&[&address], 5_000).set_policy(SetPolicyRequest::default()).await.unwrap_err();
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
    let change = client(&[&address], 5_000).step_down(StepDownRequest {}).await.unwrap_err();
    assert!(matches!(change, CallError::Unknown(_)), "{change}");
    assert_eq!(accepted.load(Ordering::SeqCst), 1);

    let read = client(&[&address], 400).status(StatusRequest {}).await.unwrap_err();
    assert!(matches!(read, CallError::NotDone(_)), "{read}");
    assert!(accepted.load(Ordering::SeqCst) > 2);
}
