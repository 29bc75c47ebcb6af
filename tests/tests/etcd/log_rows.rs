//! The rows of the log on real etcd: swallowed replies, late requests, overlapping primaries (W1–W4), limits (W5, W6), first boot (W18).

use std::sync::Arc;
use std::time::Duration;

use ha_kv::{EtcdKv, EtcdOptions};
use ha_types::AlwaysLeads;
use oplog_core::{
    BatchId, BatchStorage, CommitError, Epoch, FirstPrefix, LogKeys, OpenOptions, OrderedWriter, Outcome, Replica, Seq,
    Terminal, WriterConfig, catch_up, claim_and_verify,
};
use plimsoll_tests::{BytesProxy, Direction, Flow, eventually};

use crate::log_kit::{
    Interrupted, Ledger, Recorder, claim, cluster, durable, ended, entry, env, fold, held_request, lead, open,
};
use crate::support::{connect, connect_to, etcd_or_skip, options, start};

#[tokio::test]
async fn w1_the_reply_of_a_committed_transaction_is_swallowed() {
    let program = etcd_or_skip!("w1_the_reply_of_a_committed_transaction_is_swallowed");
    let server = start(&program).await;
    let proxy = BytesProxy::start(server.address()).await.unwrap();
    let (_, writer) = lead(connect_to([proxy.endpoint()]).await).await;
    let (ledger, aside) = (Ledger::default(), open(connect(&server).await).await);
    ledger.commit(&writer, "1").await;
    assert_eq!(ledger.wait_for(1).await, durable([1]));

    let slots = writer.reserve_many(4).unwrap();
    let answered = server.answered("Txn").await.unwrap() + 1;
    proxy.set(Direction::ToClient, Flow::Swallow);
    for (slot, text) in slots.into_iter().zip(["2", "3", "4", "5"]) {
        ledger.commit_reserved(slot, text);
    }
    // It is committed in the store, and the writer does not know.
    let prefix = eventually("a batch commits", async || {
        Some(aside.require_prefix().await.unwrap()).filter(|p| p.batch_id.get() >= 2)
    })
    .await;
    assert!(prefix.last_seq.get() > 1);
    assert_eq!(ledger.seen(), durable([1]), "no callback before the writer knows");
    eventually("the server has answered", async || (server.answered("Txn").await.unwrap() == answered).then_some(()))
        .await;
    proxy.set(Direction::ToClient, Flow::Pass);
    proxy.cut();

    assert_eq!(ledger.wait_for(5).await, durable(1..=5));
    ledger.commit(&writer, "6").await;
    assert_eq!(ledger.wait_for(6).await, durable(1..=6), "once each, in order");
    assert!(writer.metrics().recovered_unknown >= 1, "{:?}", writer.metrics());
    let batches = aside.require_prefix().await.unwrap().batch_id.get() - prefix.batch_id.get();
    let sent = server.answered("Txn").await.unwrap() - answered;
    assert_eq!(sent, batches, "the transaction that had committed was not sent again");
    assert_eq!(fold(connect(&server).await).await.texts(), ["1", "2", "3", "4", "5", "6"]);
}

#[tokio::test]
async fn w2_a_timed_out_request_arrives_after_its_retry() {
    let program = etcd_or_skip!("w2_a_timed_out_request_arrives_after_its_retry");
    let server = start(&program).await;
    let first = BytesProxy::start(server.address()).await.unwrap();
    let second = BytesProxy::start(server.address()).await.unwrap();
    let (_, writer) = lead(connect_to([first.endpoint(), second.endpoint()]).await).await;
    let ledger = Ledger::default();
    ledger.commit(&writer, "1").await;
    ledger.wait_for(1).await;

    let slot = writer.reserve().unwrap();
    first.set(Direction::ToServer, Flow::Hold);
    ledger.commit_reserved(slot, "2");
    let request = held_request(&first).await;
    // The writer gives up on it, reads the prefix by another way, finds nothing of it there, and sends the same again.
    assert_eq!(ledger.wait_for(2).await, durable(1..=2));
    assert!(writer.metrics().retries >= 1);
    ledger.commit(&writer, "3").await;
    ledger.wait_for(3).await;

    let (before, answered) = (fold(connect(&server).await).await, server.answered("Txn").await.unwrap());
    first.set(Direction::ToServer, Flow::PassFirst(request));
    eventually("the server has judged the late request", async || {
        (server.answered("Txn").await.unwrap() > answered).then_some(())
    })
    .await;
    assert_eq!(fold(connect(&server).await).await, before, "it failed its compare");
    ledger.commit(&writer, "4").await;
    assert_eq!(ledger.wait_for(4).await, durable(1..=4), "nothing doubled");
    assert_eq!(fold(connect(&server).await).await.texts(), ["1", "2", "3", "4"]);
}

#[tokio::test]
async fn w3_old_leader_paused_between_seal_and_transaction() {
    let program = etcd_or_skip!("w3_old_leader_paused_between_seal_and_transaction");
    let server = start(&program).await;
    let proxy = BytesProxy::start(server.address()).await.unwrap();
    // Patient enough not to give up while it is paused.
    let patient = EtcdOptions {
        request_timeout: Duration::from_secs(60),
        keep_alive: Duration::from_secs(60),
        ..options([proxy.endpoint()])
    };
    let old_kv = Arc::new(EtcdKv::connect(patient).await.unwrap());
    let (_, old) = lead(old_kv).await;
    let (old_ledger, new_ledger) = (Ledger::default(), Ledger::default());
    old_ledger.commit(&old, "old 1").await;
    old_ledger.wait_for(1).await;

    let slots = old.reserve_many(2).unwrap();
    proxy.set(Direction::ToServer, Flow::Hold);
    let mut slots = slots.into_iter();
    old_ledger.commit_reserved(slots.next().unwrap(), "old 2");
    held_request(&proxy).await;
    old_ledger.commit_reserved(slots.next().unwrap(), "old 3");

    // The new one claims, has everything that was durable, and serves.
    let (state, new) = lead(connect(&server).await).await;
    assert_eq!(state.texts(), ["old 1"]);
    new_ledger.commit(&new, "new 2").await;
    assert_eq!(new_ledger.wait_for(1).await, durable([2]));

    proxy.set(Direction::ToServer, Flow::Pass);
    let Terminal::Fenced { found } = ended(&old).await else { panic!("{:?}", old.status().borrow().terminal) };
    assert_eq!(found.epoch, Epoch::new(2));
    let after = old_ledger.wait_for(3).await;
    assert_eq!(
        after,
        [(1, Outcome::Durable), (2, Outcome::Never), (3, Outcome::Never)],
        "no success, and no doubt either"
    );
    assert!(old.reserve().is_err(), "it never accepts again");

    new_ledger.commit(&new, "new 3").await;
    assert_eq!(new_ledger.wait_for(2).await, durable(2..=3));
    assert_eq!(fold(connect(&server).await).await.texts(), ["old 1", "new 2", "new 3"]);
}

#[tokio::test]
async fn w4_the_old_leader_commits_between_the_read_and_the_fence() {
    let program = etcd_or_skip!("w4_the_old_leader_commits_between_the_read_and_the_fence");
    let server = start(&program).await;
    let (_, old) = lead(connect(&server).await).await;
    let ledger = Ledger::default();
    ledger.commit(&old, "1").await;
    ledger.wait_for(1).await;

    let between = Interrupted::new(connect(&server).await);
    let storage = open(between.clone()).await;
    let happened = {
        let (slot, ledger) = (old.reserve().unwrap(), ledger.clone());
        move || -> crate::log_kit::Happening {
            Box::pin(async move {
                ledger.commit_reserved(slot, "2");
                ledger.wait_for(2).await;
            })
        }
    };
    // The next transaction of the new node is its claim.
    between.before_txn(happened);
    let env = env();
    let replica = Replica::empty(Recorder::default());
    let pause = Duration::from_millis(20);
    let claimed = claim_and_verify(storage, replica, &AlwaysLeads, &*env.clock, &*env.entropy, pause).await.unwrap();
    assert_eq!(ledger.seen(), durable(1..=2), "the old leader did commit in between");
    assert_eq!(claimed.machine().texts(), ["1", "2"], "and the new one has it");
    assert_eq!(claimed.claim().epoch, Epoch::new(2));

    let slot = old.reserve().unwrap();
    ledger.commit_reserved(slot, "3");
    assert!(matches!(ended(&old).await, Terminal::Fenced { .. }));
    assert_eq!(ledger.wait_for(3).await.last(), Some(&(3, Outcome::Never)));
}

#[tokio::test]
async fn w5_batches_are_split_by_bytes_and_too_large_an_entry_is_refused_before_it_has_a_sequence() {
    let program =
        etcd_or_skip!("w5_batches_are_split_by_bytes_and_too_large_an_entry_is_refused_before_it_has_a_sequence");
    let server = start(&program).await;
    let (_, writer) = lead(connect(&server).await).await;
    let payload: Vec<u8> = (0..2048_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let slots = writer.reserve_many(1024).unwrap();
    let tickets: Vec<_> = slots.into_iter().map(|slot| slot.commit(entry(&payload)).unwrap()).collect();
    let refused = writer.ready().await.unwrap().commit(entry(&vec![7; 3 << 20])).unwrap_err();
    assert!(matches!(refused, CommitError::TooLarge { .. }), "{refused}");
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    let next = writer.ready().await.unwrap().commit(entry(b"next")).unwrap();
    assert_eq!(next.seq(), Seq::new(1025), "the refused entry used no sequence");
    assert_eq!(next.await, Outcome::Durable);
    let prefix = open(connect(&server).await).await.require_prefix().await.unwrap();
    assert!(prefix.batch_id >= BatchId::new(3), "2 MiB in batches of at most 1 MiB: {prefix:?}");
    assert_eq!(fold(connect(&server).await).await.entries.len(), 1025);
}

#[tokio::test]
async fn w6_a_follower_catches_up_over_five_batches_of_more_than_a_reply() {
    let program = etcd_or_skip!("w6_a_follower_catches_up_over_five_batches_of_more_than_a_reply");
    let server = start(&program).await;
    let large = OpenOptions { max_batch_bytes: 1300 << 10, ..OpenOptions::default() };
    let storage = BatchStorage::open(connect(&server).await, LogKeys::of(&cluster()), large).await.unwrap();
    storage.create_first_prefix().await.unwrap();
    let env = env();
    let replica = Replica::empty(Recorder::default());
    let pause = Duration::from_millis(20);
    let claimed =
        claim_and_verify(storage.clone(), replica, &AlwaysLeads, &*env.clock, &*env.entropy, pause).await.unwrap();
    let config = WriterConfig { oplog_batch_max_bytes: 1300 << 10, ..WriterConfig::default() };
    let writer = OrderedWriter::start(claimed.into_parts().1, config, env).map_err(|(_, why)| why).unwrap();
    for n in 0..5_u8 {
        // Not compressible, in case that records are compressed one day.
        let payload: Vec<u8> =
            (0..1200_u32 << 10).map(|i| (i ^ u32::from(n)).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
        assert_eq!(writer.ready().await.unwrap().commit(entry(&payload)).unwrap().await, Outcome::Durable);
    }
    let prefix = storage.require_prefix().await.unwrap();
    assert_eq!(prefix.batch_id, BatchId::new(5));
    let follower = BatchStorage::open(connect(&server).await, LogKeys::of(&cluster()), large).await.unwrap();
    let mut replica = Replica::empty(Recorder::default());
    // It asks for far more than a reply may hold.
    assert_eq!(catch_up(&follower, &mut replica, &prefix, 64 << 20).await.unwrap(), 5);
    assert_eq!(replica.applied(), Seq::new(5));
}

#[tokio::test]
async fn w18_initialisers_race_and_the_empty_log_is_promoted() {
    let program = etcd_or_skip!("w18_initialisers_race_and_the_empty_log_is_promoted");
    let server = start(&program).await;
    let mut racing = tokio::task::JoinSet::new();
    let start_line = Arc::new(tokio::sync::Barrier::new(6));
    for _ in 0..6 {
        let (storage, start_line) = (open(connect(&server).await).await, start_line.clone());
        racing.spawn(async move {
            start_line.wait().await;
            storage.create_first_prefix().await.unwrap()
        });
    }
    let results = racing.join_all().await;
    let created: Vec<_> = results.iter().filter(|r| matches!(r, FirstPrefix::Created(_))).collect();
    assert_eq!(created.len(), 1, "{results:?}");
    assert!(results.iter().all(|r| r.prefix() == created[0].prefix()), "the losers read the winner's");

    // Nothing was written: a promotion finds the empty log, at sequence 0, and both winners and losers go on from it.
    let first = claim(connect(&server).await).await;
    assert_eq!((first.prefix().last_seq, first.claim().epoch), (Seq::ZERO, Epoch::new(1)));
    let (state, writer) = lead(connect(&server).await).await;
    assert!(state.entries.is_empty());
    let ticket = writer.ready().await.unwrap().commit(entry(b"first")).unwrap();
    assert_eq!((ticket.seq(), ticket.await), (Seq::new(1), Outcome::Durable));
}
