//! Mount, update, unmount, and what becomes of what lies in a segment.

use std::time::Duration;

use crate::kit::*;
use master::{MountSegment, Promise, PutStart};

#[tokio::test]
async fn mounts_that_cannot_be_are_refused_and_change_nothing() {
    let cluster = Cluster::new();
    let node = cluster.promote_with(|env| env.config.max_segments = 2).await;
    let m = &node.master;
    for (base, size) in [(0, 0), (1, u64::MAX), (u64::MAX, 1)] {
        assert_eq!(code(m.mount_segment(mount("s", base, size)).await), "INVALID", "{base} {size}");
    }
    for endpoint in [String::new(), "x".repeat(256)] {
        let request = MountSegment { endpoint: endpoint.into(), ..mount("s", 0, 1) };
        assert_eq!(code(m.mount_segment(request).await), "INVALID");
    }
    node.mount("s", 100, 100).await;
    node.mount("s", 100, 100).await;
    assert_eq!(node.master.writer().metrics().committed, 1, "mounting it again logs nothing");
    assert_eq!(code(m.mount_segment(mount("s", 100, 50)).await), "SEGMENT_ALREADY_MOUNTED");
    assert_eq!(code(m.mount_segment(mount("s", 500, 100)).await), "SEGMENT_ALREADY_MOUNTED");
    for (base, size) in [(0, 101), (150, 10), (199, 1), (99, 200), (100, 100)] {
        let error = m.mount_segment(mount("t", base, size)).await.unwrap_err();
        assert_eq!(error.code(), "SEGMENT_OVERLAPS", "{base} {size}");
        assert!(error.to_string().contains("100 bytes at 0x64 of host:1"), "{error}");
    }
    // Next to it, and the same addresses of another process, are fine.
    node.mount("t", 0, 100).await;
    let elsewhere = MountSegment { endpoint: "host:2".into(), ..mount("u", 100, 100) };
    assert_eq!(code(m.mount_segment(elsewhere.clone()).await), "INVALID", "too many");
    m.unmount_segment(&segment("t")).await.unwrap();
    m.mount_segment(elsewhere).await.unwrap();
    assert_eq!(m.state().contents(), cluster.fold_contents().await);
}

#[tokio::test]
async fn nothing_is_handed_out_before_the_mount_is_durable() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.hold();
    let mounting = node.master.mount_segment(mount("s", 0, 100));
    tokio::pin!(mounting);
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut mounting).await.is_err());
    assert_eq!(node.master.list_segments().unwrap()[0].quarantined_ms, None);
    assert_eq!(code(node.start("k", 10)), "NO_AVAILABLE_SPACE");
    let again = node.master.mount_segment(mount("s", 0, 100));
    tokio::pin!(again);
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut again).await.is_err(), "not durable either");
    node.release().await;
    mounting.await.unwrap();
    again.await.unwrap();
    node.start("k", 10).unwrap();
}

#[tokio::test]
async fn update_moves_readers_and_is_checked_like_a_mount() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 100).await;
    node.put("k", 10).await;
    let m = &node.master;
    assert_eq!(code(m.update_segment(&segment("x"), "host:2".into()).await), "SEGMENT_NOT_FOUND");
    assert_eq!(code(m.update_segment(&segment("s"), "".into()).await), "INVALID");
    let other = MountSegment { endpoint: "host:2".into(), ..mount("t", 50, 100) };
    m.mount_segment(other).await.unwrap();
    assert_eq!(code(m.update_segment(&segment("s"), "host:2".into()).await), "SEGMENT_OVERLAPS");
    m.update_segment(&segment("s"), "host:3".into()).await.unwrap();
    m.update_segment(&segment("s"), "host:3".into()).await.unwrap();
    assert_eq!(&*node.get("k").unwrap().replicas[0].endpoint, "host:3");
    // Its old place is free for another, its new one is not.
    node.mount("u", 0, 100).await;
    let onto = MountSegment { endpoint: "host:3".into(), ..mount("v", 99, 10) };
    assert_eq!(code(m.mount_segment(onto).await), "SEGMENT_OVERLAPS");
    assert_eq!(m.state().contents(), cluster.fold_contents().await);
    assert_eq!(&*cluster.promote().await.get("k").unwrap().replicas[0].endpoint, "host:3");
}

#[tokio::test]
async fn unmount_takes_replicas_and_objects_that_have_no_other() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    node.put("only", 10).await;
    node.mount("t", 5000, 1000).await;
    let grant = node.master.put_start(&PutStart { replicas: 2, ..put("both", 10) }).unwrap();
    node.end("both", &grant, Promise::Durable).await.unwrap();
    node.master.unmount_segment(&segment("s")).await.unwrap();
    assert_eq!(code(node.get("only")), "OBJECT_NOT_FOUND");
    assert!(!node.master.exists(&tenant(), &key("only")).unwrap());
    let left = node.get("both").unwrap().replicas;
    assert_eq!(left.iter().map(|r| r.segment.as_str()).collect::<Vec<_>>(), ["t"]);
    assert_eq!(code(node.master.unmount_segment(&segment("s")).await), "SEGMENT_NOT_FOUND");
    assert_eq!(node.master.state().contents(), cluster.fold_contents().await);
    // Its keys are free, its memory is collected, and replay agrees with what is put there next.
    node.put("only", 20).await;
    node.remove("both", Promise::Durable).await.unwrap();
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(node.master.state().objects(), 1);
    assert_eq!(node.master.state().contents(), cluster.fold_contents().await);
    assert_space_adds_up(&node.master, &[]);
}

#[tokio::test]
async fn a_segment_with_puts_running_is_not_unmounted() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    node.put("k", 10).await;
    let first = node.start("first", 10).unwrap();
    node.start("second", 10).unwrap();
    let error = node.master.unmount_segment(&segment("s")).await.unwrap_err();
    assert_eq!(error.to_string(), "segment s has 2 puts running; the last grant ends in 2100 ms; unmount it then");
    assert!(node.get("k").is_ok());
    node.end("first", &first, Promise::Durable).await.unwrap();
    assert_eq!(code(node.master.unmount_segment(&segment("s")).await), "SEGMENT_BUSY");
    cluster.advance(2100);
    node.master.unmount_segment(&segment("s")).await.unwrap();
    assert_eq!(node.master.stats().running_puts, 0);
    assert_eq!(node.master.state().contents(), cluster.fold_contents().await);
}

/// Row W8: the log takes nothing while segments change. Each call has failed and changed nothing, or is in the log.
#[tokio::test]
async fn w8_queue_full_while_a_segment_changes() {
    let cluster = Cluster::new();
    let node = cluster.promote_with(|env| env.writer.oplog_batch_max_entries = 2).await;
    node.mount("s", 0, 1000).await;
    for k in ["a", "b", "c", "d", "e"] {
        node.put(k, 10).await;
    }
    let before = node.master.state().contents();
    node.hold();
    // One in flight, two that fill the queue.
    for k in ["a", "b", "c"] {
        node.remove(k, Promise::Accepted).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(node.master.writer().reserve().unwrap_err(), oplog_core::ReserveError::QueueFull);
    let wait = Duration::from_millis(30);
    let (s, endpoint) = (segment("s"), "host:9".into());
    // Given up while it waits for a place: nothing has changed.
    assert!(tokio::time::timeout(wait, node.master.update_segment(&s, endpoint)).await.is_err());
    assert!(tokio::time::timeout(wait, node.master.mount_segment(mount("t", 5000, 10))).await.is_err());
    assert!(tokio::time::timeout(wait, node.master.unmount_segment(&s)).await.is_err());
    assert_eq!(node.master.state().contents().segments, before.segments);
    assert!(node.get("d").is_ok());
    // Waiting until there is a place: in the log.
    let unmount = node.master.unmount_segment(&s);
    tokio::pin!(unmount);
    assert!(tokio::time::timeout(wait, &mut unmount).await.is_err());
    node.release().await;
    unmount.await.unwrap();
    node.settle().await;
    let folded = cluster.fold_contents().await;
    assert!(folded.segments.is_empty() && folded.objects.is_empty());
    assert_eq!(node.master.state().contents(), folded);
}

/// Row W8, the other way: the store fails, so nothing is admitted; the calls say so and have changed nothing.
#[tokio::test]
async fn w8_store_failing_while_segments_and_objects_change() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    node.put("k", 10).await;
    let grant = node.start("running", 10).unwrap();
    node.kv.partition(true);
    node.remove("k", Promise::Accepted).await.unwrap();
    while node.master.writer().status().borrow().accepting {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let before = (node.master.state().contents(), node.master.stats().running_puts);
    let m = &node.master;
    assert_eq!(code(m.mount_segment(mount("t", 5000, 10)).await), "NOT_APPLIED");
    assert_eq!(code(m.update_segment(&segment("s"), "host:2".into()).await), "NOT_APPLIED");
    assert_eq!(code(m.unmount_segment(&segment("s")).await), "NOT_APPLIED");
    assert_eq!(code(m.set_policy(master::Policy::INITIAL).await), "NOT_APPLIED");
    assert_eq!(code(node.end("running", &grant, Promise::Durable).await), "NOT_APPLIED");
    assert_eq!(code(node.remove("k", Promise::Durable).await), "NOT_APPLIED");
    assert_eq!((m.state().contents(), m.stats().running_puts), before);
    node.kv.partition(false);
    node.settle().await;
    while !m.writer().status().borrow().accepting {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    node.end("running", &grant, Promise::Durable).await.unwrap();
    assert_eq!(m.state().contents(), cluster.fold_contents().await);
}

/// Row W8, and M5: the log refuses the entry itself, after all checks and under the locks.
#[tokio::test]
async fn w8_an_entry_that_the_log_refuses_changes_nothing() {
    let cluster = Cluster::new();
    let long = "k".repeat(4096);
    let roomy = cluster.promote().await;
    roomy.mount("s", 0, 1000).await;
    roomy.put(&long, 10).await;
    let node = cluster.promote_with(|env| env.writer.oplog_batch_max_bytes = 256).await;
    node.mount("t", 5000, 1000).await;
    let grant = node.start(&"n".repeat(4096), 10).unwrap();
    let endpoint = "e".repeat(255);
    let before = (node.master.state().contents(), node.master.stats());
    let m = &node.master;
    let refused = [
        m.mount_segment(MountSegment { endpoint: endpoint.as_str().into(), ..mount("u", 9000, 10) }).await,
        m.update_segment(&segment("t"), endpoint.as_str().into()).await,
        node.remove(&long, Promise::Durable).await,
        node.end(&"n".repeat(4096), &grant, Promise::Durable).await,
        m.batch_remove(&tenant(), &[key(&long)], Promise::Durable)
            .await
            .map(|mut each| each.remove(0).unwrap_err())
            .map_or_else(Err, Err),
    ];
    for result in refused {
        let error = result.unwrap_err();
        assert_eq!(error.code(), "INVALID", "{error}");
        assert!(error.to_string().contains("a batch takes 256"), "{error}");
    }
    assert_eq!((m.state().contents(), m.stats()), before);
    assert_eq!(m.state().contents(), cluster.fold_contents().await);
    m.put_revoke(&tenant(), &key(&"n".repeat(4096)), grant.incarnation, CLIENT).unwrap();
}

/// Row W8, and M5: the writer ends after a call's checks, so that the commit itself is refused under the lock. Neither the state
/// nor the log has changed.
#[tokio::test]
async fn w8_a_segment_change_refused_at_its_commit_changes_nothing() {
    for change in ["mount", "update", "unmount"] {
        let cluster = Cluster::new();
        let node = cluster.promote().await;
        node.mount("s", 0, 1000).await;
        node.put("k", 10).await;
        let (m, s) = (&node.master, segment("s"));
        let before = m.state().contents();
        let writer = m.writer().clone();
        // Leadership is asked for on entry, and for the last time right before the commit.
        node.guard.when_asked(1, move || {
            let mut ending = std::pin::pin!(writer.stop());
            let _ = ending.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
            assert!(writer.status().borrow().terminal.is_some(), "the writer ends at once");
        });
        let result = match change {
            "mount" => m.mount_segment(mount("t", 5000, 10)).await,
            "update" => m.update_segment(&s, "host:2".into()).await,
            _ => m.unmount_segment(&s).await,
        };
        let committed = m.writer().metrics().committed;
        assert_eq!((code(result), committed), ("NOT_APPLIED", 2), "{change} is refused, and at its commit");
        assert_eq!(m.state().contents(), before, "{change} changed the state before its entry was in the log");
        assert_eq!(cluster.fold_contents().await, before, "{change}");
    }
}

#[tokio::test]
async fn m7_a_remount_is_not_free_at_once_and_a_new_id_is() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 100).await;
    node.put("k", 10).await;
    node.master.get(&tenant(), &key("k"), Some(30_000)).unwrap();
    node.master.unmount_segment(&segment("s")).await.unwrap();
    cluster.advance(1000);
    node.mount("s", 0, 100).await;
    let error = node.start("n", 10).unwrap_err();
    assert_eq!(error.code(), "RETRY_AFTER");
    assert!(error.to_string().starts_with("try again in 34100 ms"), "{error}");
    node.mount("new", 1000, 100).await;
    assert_eq!(node.put("n", 10).await.replicas[0].segment.as_str(), "new");
    cluster.advance(34_099);
    assert_eq!(code(node.start("m", 100)), "RETRY_AFTER");
    cluster.advance(1);
    assert_eq!(node.start("m", 100).unwrap().replicas[0].segment.as_str(), "s");
}
