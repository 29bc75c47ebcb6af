//! The proxy against an echo server.

use std::time::Duration;

use super::*;
use crate::eventually;

async fn echo() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reads, mut writes) = stream.split();
                tokio::io::copy(&mut reads, &mut writes).await
            });
        }
    });
    address
}

async fn say(stream: &mut TcpStream, text: &[u8]) {
    stream.write_all(text).await.unwrap();
}

async fn hear(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut heard = vec![0; count];
    tokio::time::timeout(Duration::from_secs(10), stream.read_exact(&mut heard)).await.unwrap().unwrap();
    heard
}

async fn is_silent(stream: &mut TcpStream) -> bool {
    tokio::time::timeout(Duration::from_millis(50), stream.read_u8()).await.is_err()
}

#[tokio::test]
async fn held_bytes_wait_and_are_released_in_order() {
    let proxy = BytesProxy::start(echo().await).await.unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    say(&mut stream, b"a").await;
    assert_eq!(hear(&mut stream, 1).await, b"a");
    proxy.set(Direction::ToServer, Flow::Hold);
    say(&mut stream, b"bc").await;
    eventually("two bytes are held", async || (proxy.held_bytes(Direction::ToServer) == 2).then_some(())).await;
    assert!(is_silent(&mut stream).await);
    say(&mut stream, b"d").await;
    proxy.set(Direction::ToServer, Flow::Pass);
    assert_eq!(hear(&mut stream, 3).await, b"bcd");
}

#[tokio::test]
async fn swallowed_replies_never_come() {
    let proxy = BytesProxy::start(echo().await).await.unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.set(Direction::ToClient, Flow::Swallow);
    say(&mut stream, b"lost").await;
    assert!(is_silent(&mut stream).await);
    proxy.set(Direction::ToClient, Flow::Pass);
    say(&mut stream, b"seen").await;
    assert_eq!(hear(&mut stream, 4).await, b"seen");
}

#[tokio::test]
async fn only_the_first_held_bytes_pass() {
    let proxy = BytesProxy::start(echo().await).await.unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.set(Direction::ToServer, Flow::Hold);
    say(&mut stream, b"keepdrop").await;
    eventually("all bytes are held", async || (proxy.held_bytes(Direction::ToServer) == 8).then_some(())).await;
    proxy.set(Direction::ToServer, Flow::PassFirst(4));
    assert_eq!(hear(&mut stream, 4).await, b"keep");
    assert!(is_silent(&mut stream).await);
}

#[tokio::test]
async fn cut_and_closed() {
    let proxy = BytesProxy::start(echo().await).await.unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    say(&mut stream, b"a").await;
    hear(&mut stream, 1).await;
    proxy.set_open(false);
    proxy.cut();
    assert!(matches!(stream.read_u8().await, Err(e) if e.kind() != std::io::ErrorKind::TimedOut));
    let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(refused.read_u8().await.is_err());
    proxy.set_open(true);
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    say(&mut stream, b"b").await;
    assert_eq!(hear(&mut stream, 1).await, b"b");
}
