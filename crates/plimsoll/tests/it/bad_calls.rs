//! Bad calls over gRPC: each has its code and one sentence, and has changed nothing.

use bytes::Bytes;
use ha_rpc::v1::{
    BatchRemoveRequest, ErrorCode, ErrorDetail, GetRequest, ListSegmentsRequest, MountSegmentRequest, PutEndRequest,
    PutRevokeRequest, PutStartRequest, RemoveRequest, UnmountSegmentRequest,
};
use tonic::{Response, Status};

use crate::kit::{Place, block_on, raw};

fn code<T: std::fmt::Debug>(reply: Result<Response<T>, Status>) -> ErrorCode {
    let status = reply.expect_err("the call is refused");
    let detail = ErrorDetail::of(&status).unwrap_or_else(|| panic!("a typed error: {status}"));
    assert!(!detail.message.contains('\n'), "{detail:?}");
    // Behind the thing stands what to do, or what is allowed.
    let (thing, remedy) = detail.message.split_once("; ").unwrap_or_else(|| panic!("a remedy: {detail:?}"));
    assert!(!thing.is_empty() && !remedy.is_empty(), "{detail:?}");
    detail.code()
}

fn start(key: &[u8], size: u64) -> PutStartRequest {
    let (key, client_id) = (Bytes::copy_from_slice(key), Bytes::from(vec![1; 16]));
    PutStartRequest { key, size, client_id, ..Default::default() }
}

fn mount(id: &str, base: u64, size: u64) -> MountSegmentRequest {
    MountSegmentRequest { segment_id: id.into(), endpoint: "h:1".into(), base, size }
}

#[test]
fn every_bad_call_has_its_code_and_changes_nothing() {
    let place = Place::new(5000);
    let node = place.node("a");
    node.wait_for_role("leader");
    block_on(async {
        let mut c = raw(&node).await;
        assert_eq!(code(c.put_start(start(b"k", 5)).await), ErrorCode::NoAvailableSpace, "no segment mounted");
        for (bad, expected) in [
            (mount("", 0, 100), ErrorCode::Invalid),
            (mount("s", 0, 0), ErrorCode::Invalid),
            (mount("s", u64::MAX, 2), ErrorCode::Invalid),
            (MountSegmentRequest { endpoint: String::new(), ..mount("s", 0, 100) }, ErrorCode::Invalid),
        ] {
            assert_eq!(code(c.mount_segment(bad).await), expected);
        }
        c.mount_segment(mount("s", 1000, 1000)).await.unwrap();
        c.mount_segment(mount("s", 1000, 1000)).await.expect("the identical mount again");
        assert_eq!(code(c.mount_segment(mount("s", 1000, 500)).await), ErrorCode::SegmentAlreadyMounted);
        assert_eq!(code(c.mount_segment(mount("t", 1999, 10)).await), ErrorCode::SegmentOverlaps);
        let unmount = |id: &str| UnmountSegmentRequest { segment_id: id.into() };
        assert_eq!(code(c.unmount_segment(unmount("t")).await), ErrorCode::SegmentNotFound);

        for bad in [
            start(b"", 5),
            start(&[0; 4097], 5),
            start(b"k", 0),
            start(b"k", u64::MAX),
            PutStartRequest { tenant: "_x".into(), ..start(b"k", 5) },
            PutStartRequest { tenant: "x".repeat(129), ..start(b"k", 5) },
            PutStartRequest { client_id: Bytes::from_static(b"short"), ..start(b"k", 5) },
            PutStartRequest { replicas: u32::MAX, ..start(b"k", 5) },
        ] {
            assert_eq!(code(c.put_start(bad.clone()).await), ErrorCode::Invalid, "{bad:?}");
        }
        assert_eq!(code(c.put_start(start(b"k", 1001)).await), ErrorCode::NoAvailableSpace);

        let granted = c.put_start(start(b"k", 5)).await.unwrap().into_inner();
        assert_eq!(code(c.put_start(start(b"k", 5)).await), ErrorCode::ObjectAlreadyExists);
        assert_eq!(
            code(c.get(GetRequest { key: "k".into(), ..Default::default() }).await),
            ErrorCode::ReplicaIsNotReady
        );
        assert_eq!(code(c.unmount_segment(unmount("s")).await), ErrorCode::SegmentBusy);
        let end = PutEndRequest {
            key: "k".into(),
            incarnation: granted.incarnation.clone(),
            client_id: Bytes::from(vec![1; 16]),
            ..Default::default()
        };
        let other = PutEndRequest { client_id: Bytes::from(vec![2; 16]), ..end.clone() };
        assert_eq!(code(c.put_end(other).await), ErrorCode::WrongOwner);
        assert_eq!(
            code(c.put_end(PutEndRequest { incarnation: Bytes::new(), ..end.clone() }).await),
            ErrorCode::Invalid
        );
        let unknown = PutEndRequest { incarnation: Bytes::from(vec![9; 16]), ..end.clone() };
        assert_eq!(code(c.put_end(unknown).await), ErrorCode::ObjectNotFound);
        assert_eq!(code(c.put_end(PutEndRequest { durability: 7, ..end.clone() }).await), ErrorCode::Invalid);
        c.put_end(end.clone()).await.unwrap();
        c.put_end(end.clone()).await.expect("repeating a call that succeeded succeeds");
        let revoke = PutRevokeRequest {
            key: "k".into(),
            incarnation: granted.incarnation,
            client_id: Bytes::from(vec![1; 16]),
            ..Default::default()
        };
        assert_eq!(code(c.put_revoke(revoke).await), ErrorCode::ObjectAlreadyExists, "the put has ended");

        let remove = |key: &'static [u8]| RemoveRequest { key: Bytes::from_static(key), ..Default::default() };
        assert_eq!(code(c.remove(remove(b"absent")).await), ErrorCode::ObjectNotFound);
        assert_eq!(code(c.remove(remove(b"")).await), ErrorCode::Invalid);
        let many = |n: usize| BatchRemoveRequest { keys: vec![Bytes::from_static(b"k"); n], ..Default::default() };
        assert_eq!(code(c.batch_remove(many(0)).await), ErrorCode::Invalid);
        assert_eq!(code(c.batch_remove(many(100_000)).await), ErrorCode::Invalid);

        c.get(GetRequest { key: "k".into(), ..Default::default() }).await.expect("k is still there");
        let segments = c.list_segments(ListSegmentsRequest::default()).await.unwrap().into_inner().segments;
        assert_eq!(segments.len(), 1);
        assert_eq!((segments[0].used_bytes, segments[0].running_puts), (5, 0));
    });
}

#[test]
fn a_put_after_its_grant_is_refused() {
    let place = Place::new(5000);
    let node = place.node("a");
    node.wait_for_role("leader");
    crate::kit::must(&[&node], &["policy", "--put-grant-ms", "50"]);
    block_on(async {
        let mut c = raw(&node).await;
        c.mount_segment(mount("s", 0, 1000)).await.unwrap();
        let granted = c.put_start(start(b"k", 5)).await.unwrap().into_inner();
        assert_eq!(granted.grant_ms, 50);
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
        let end = PutEndRequest {
            key: "k".into(),
            incarnation: granted.incarnation,
            client_id: Bytes::from(vec![1; 16]),
            ..Default::default()
        };
        assert_eq!(code(c.put_end(end).await), ErrorCode::GrantExpired);
    });
}

/// The longest key of bytes that print as four characters each still gets its typed answer, alone and 900 at once.
#[test]
fn an_error_about_the_longest_key_arrives() {
    let place = Place::new(5000);
    let node = place.node("a");
    node.wait_for_role("leader");
    block_on(async {
        let mut c = raw(&node).await;
        let key = |n: u16| Bytes::from([&n.to_be_bytes()[..], &[0xff; 4094]].concat());
        let get = GetRequest { key: key(0), ..Default::default() };
        assert_eq!(code(c.get(get).await), ErrorCode::ObjectNotFound);
        let many = BatchRemoveRequest { keys: (0..900).map(key).collect(), ..Default::default() };
        let results = c.batch_remove(many).await.unwrap().into_inner().results;
        assert_eq!(results.len(), 900);
    });
}

#[test]
fn segments_are_listed_in_pages() {
    let place = Place::new(5000);
    let node = place.node("a");
    node.wait_for_role("leader");
    block_on(async {
        let mut c = raw(&node).await;
        for n in 0..5_u64 {
            c.mount_segment(mount(&format!("s{n}"), n * 1000, 100)).await.unwrap();
        }
        let mut seen = Vec::new();
        loop {
            let start_after = seen.last().cloned().unwrap_or_default();
            let page = c.list_segments(ListSegmentsRequest { start_after, limit: 2 }).await.unwrap().into_inner();
            seen.extend(page.segments.into_iter().map(|s| s.segment_id));
            if !page.more {
                break;
            }
        }
        assert_eq!(seen, ["s0", "s1", "s2", "s3", "s4"]);
    });
}
