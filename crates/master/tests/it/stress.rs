//! Many threads at once: no range is handed out twice, and the log of it all can be replayed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use master::{MasterError, Promise, PutGrant, PutStart};
use parking_lot::Mutex;

use crate::kit::*;

/// The ranges that somebody owns, by segment and address.
#[derive(Default)]
struct Owned(Mutex<BTreeMap<(String, u64), u64>>);

impl Owned {
    fn add(&self, grant: &PutGrant) {
        let mut owned = self.0.lock();
        for range in &grant.replicas {
            let (start, end) = (range.address, range.address + range.length);
            let at = |address| (range.segment.as_str().to_owned(), address);
            let before = owned.range(at(0)..at(end)).next_back();
            assert!(before.is_none_or(|(_, there)| *there <= start), "{range:?} is handed out twice");
            owned.insert(at(start), end);
        }
    }

    fn forget(&self, grant: &PutGrant) {
        let mut owned = self.0.lock();
        for range in &grant.replicas {
            owned.remove(&(range.segment.as_str().to_owned(), range.address));
        }
    }
}

/// What the workers share.
struct Shared {
    node: Node,
    owned: Owned,
    puts: AtomicU64,
    removals: AtomicU64,
    unmounts: AtomicU64,
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

impl Shared {
    fn refused(&self, error: &MasterError) {
        *self.refused.lock().entry(error.code()).or_default() += 1;
    }
}

/// Puts and removes keys that other workers use too.
async fn work(shared: Arc<Shared>, worker: u64) {
    let master = &shared.node.master;
    for step in 0..400_u64 {
        let k = key(&format!("k{}", (worker * 31 + step * 7) % 40));
        let promise = if step % 3 == 0 { Promise::Durable } else { Promise::Accepted };
        let request = PutStart { key: k.clone(), replicas: 1 + (step % 2) as usize, ..put("-", 16 + step % 48) };
        match master.put_start(&request) {
            Ok(grant) => {
                shared.owned.add(&grant);
                tokio::task::yield_now().await;
                // From its put end on anybody may remove it, and the range be used again; replay judges that order below.
                shared.owned.forget(&grant);
                master.put_end(&tenant(), &k, grant.incarnation, CLIENT, promise).await.unwrap();
                shared.puts.fetch_add(1, Ordering::Relaxed);
            }
            Err(e) => {
                shared.refused(&e);
                // In the way, or out of space: something goes. Others may be removing it too.
                match master.remove(&tenant(), &k, promise).await {
                    Ok(()) => {
                        shared.removals.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(e) => shared.refused(&e),
                }
            }
        }
    }
}

/// Mounts and unmounts segments while the others work: what they check must be what is logged.
async fn churn(shared: Arc<Shared>) {
    let master = &shared.node.master;
    for round in 0..60 {
        let id = format!("churn{round}");
        master.mount_segment(mount(&id, 1 << 20, 1 << 12)).await.unwrap();
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        while let Err(e) = master.unmount_segment(&segment(&id)).await {
            assert_eq!(e.code(), "SEGMENT_BUSY");
            shared.refused(&e);
            tokio::task::yield_now().await;
        }
        shared.unmounts.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn m7_no_range_is_handed_out_twice_by_many_threads_and_replay_agrees() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1024).await;
    node.mount("t", 1 << 16, 1024).await;
    // Past the margin between clocks: the ranges of what is never read come back with its removal.
    cluster.advance(1000);
    let shared = Arc::new(Shared {
        node,
        owned: Owned::default(),
        puts: AtomicU64::new(0),
        removals: AtomicU64::new(0),
        unmounts: AtomicU64::new(0),
        refused: Mutex::default(),
    });
    let mut tasks: Vec<_> = (0..8).map(|worker| tokio::spawn(work(shared.clone(), worker))).collect();
    tasks.push(tokio::spawn(churn(shared.clone())));
    for task in tasks {
        task.await.unwrap();
    }
    shared.node.settle().await;
    let master = &shared.node.master;
    assert_space_adds_up(master, &[]);
    assert_eq!(master.state().contents(), cluster.fold_contents().await);
    let (puts, removals) = (shared.puts.load(Ordering::Relaxed), shared.removals.load(Ordering::Relaxed));
    let refused = shared.refused.lock().clone();
    assert!(puts > 500 && removals > 500, "{puts} puts, {removals} removals, {refused:?}");
    assert_eq!(shared.unmounts.load(Ordering::Relaxed), 60);
    for code in ["OBJECT_ALREADY_EXISTS", "OBJECT_NOT_FOUND"] {
        assert!(refused.contains_key(code), "never {code}: {refused:?}");
    }
}

/// Objects are removed while their segment is unmounted: what a removal found must be what replay finds, so nothing may come
/// between its check and its commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s8_removals_and_an_unmount_at_once_are_logged_in_the_order_in_which_they_were_checked() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    let mut in_time = 0;
    for round in 0..60 {
        let removed = Arc::new(AtomicU64::new(0));
        let id = format!("s{round}");
        node.mount(&id, round << 16, 1 << 16).await;
        let keys: Vec<_> = (0..96).map(|i| format!("{round}-{i}")).collect();
        for k in &keys {
            let grant = node.start(k, 10).unwrap();
            node.end(k, &grant, Promise::Accepted).await.unwrap();
        }
        let removers = keys.chunks(32).map(|keys| {
            let (master, keys, removed) = (node.master.clone(), keys.to_vec(), removed.clone());
            tokio::spawn(async move {
                for k in keys {
                    let done = master.remove(&tenant(), &key(&k), Promise::Accepted).await.is_ok();
                    removed.fetch_add(u64::from(done), Ordering::Relaxed);
                }
            })
        });
        let removers: Vec<_> = removers.collect();
        // In the thick of it: from before the first removal to after the sixth, whatever the schedule.
        while removed.load(Ordering::Relaxed) < round % 7 {
            tokio::task::yield_now().await;
        }
        node.master.unmount_segment(&segment(&id)).await.unwrap();
        for remover in removers {
            remover.await.unwrap();
        }
        in_time += removed.load(Ordering::Relaxed);
    }
    assert!(in_time > 0, "no removal ever came before the unmount");
    node.settle().await;
    assert_eq!(node.master.state().contents(), cluster.fold_contents().await);
}

/// The same in one certain place: a removal has found its object and is about to be committed when the unmount is called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s8_no_unmount_comes_between_the_check_of_a_removal_or_put_end_and_its_commit() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    node.put("k", 10).await;
    let came_between = unmount_in_the_middle(&node, 1);
    node.remove("k", Promise::Accepted).await.unwrap();
    assert!(!came_between.await.unwrap());
    node.settle().await;
    assert_eq!(node.master.state().contents(), cluster.fold_contents().await);

    node.mount("t", 5000, 1000).await;
    let grant = node.start("n", 10).unwrap();
    let came_between = unmount_in_the_middle(&node, 1);
    node.end("n", &grant, Promise::Accepted).await.unwrap();
    assert!(!came_between.await.unwrap());
    node.settle().await;
    assert_eq!(node.master.state().contents(), cluster.fold_contents().await);
}

/// Unmounts all segments at the question after `skipped`, and says whether an unmount was committed before that was answered.
#[allow(clippy::disallowed_methods, reason = "the middle of a critical section cannot be awaited in")]
fn unmount_in_the_middle(node: &Node, skipped: u64) -> tokio::sync::oneshot::Receiver<bool> {
    let (answer, came_between) = tokio::sync::oneshot::channel();
    let (master, runtime) = (node.master.clone(), tokio::runtime::Handle::current());
    node.guard.when_asked(skipped, move || {
        let before = master.writer().metrics().committed;
        for id in ["s", "t"] {
            let master = master.clone();
            runtime.spawn(async move { master.unmount_segment(&segment(id)).await });
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        answer.send(master.writer().metrics().committed > before).expect("the test waits for it");
    });
    came_between
}

/// Row D9: the futures of all calls can move between threads, so none holds a lock's guard across a wait.
#[test]
fn d9_no_call_holds_a_lock_across_a_wait() {
    fn can_move<T: Send>(_: T) {}
    fn all(m: &master::Master) {
        let (t, k, s) = (tenant(), key("k"), segment("s"));
        let i = ha_types::ObjectIncarnation::LEGACY;
        can_move(m.mount_segment(mount("s", 0, 1)));
        can_move(m.update_segment(&s, "h".into()));
        can_move(m.unmount_segment(&s));
        can_move(m.put_end(&t, &k, i, CLIENT, Promise::Durable));
        can_move(m.remove(&t, &k, Promise::Durable));
        can_move(m.batch_remove(&t, std::slice::from_ref(&k), Promise::Durable));
        can_move(m.list(&t, None, 1));
        can_move(m.set_policy(master::Policy::INITIAL));
        can_move(m.drain(ha_types::MonoTime::ZERO));
        can_move(m.stop());
    }
    let _ = all as fn(&master::Master);
}
