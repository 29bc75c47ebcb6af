//! Owns the tests of following: nothing skipped, nothing twice, every fault named with its key, the position kept.

mod support;

use std::sync::Arc;

use bytes::Bytes;
use ha_kv::faulty::{Fault, FaultyKv, OpKind};
use ha_kv::{Kv, KvErrorKind, KvPair, MemoryKv, RangeLimit};
use ha_types::{BatchId, Epoch, Seq};
use oplog_core::record::BatchRecord;
use oplog_core::{BatchStorage, DurablePrefix, FaultKind, LogError, LogSize, ReplayFault, Replica, catch_up};
use support::{Crooked, Hand, Journal, claim_new, fresh, keys, open};

const PAGE: usize = 1 << 20;

/// A store with a log of `n` batches.
async fn log_of(n: u8) -> (Arc<MemoryKv>, Hand) {
    let store = Arc::new(MemoryKv::new());
    let mut hand = Hand::new(claim_new(&fresh(store.clone()).await, 1).await);
    hand.append_batches(n).await;
    (store, hand)
}

fn empty() -> Replica<Journal> {
    Replica::empty(Journal::default())
}

async fn fault(storage: &BatchStorage, replica: &mut Replica<Journal>, through: &DurablePrefix) -> ReplayFault {
    match catch_up(storage, replica, through, PAGE).await {
        Err(LogError::Fault(fault)) => fault,
        other => panic!("{other:?} is no fault"),
    }
}

fn key_of(id: u64) -> String {
    String::from_utf8(keys().batch(BatchId::new(id)).to_vec()).unwrap()
}

#[tokio::test]
async fn s1_the_state_is_the_fold_of_the_log_whatever_the_page_size() {
    let (store, hand) = log_of(30).await;
    let storage = open(store).await;
    for page_bytes in [0, 1, 100, 1000, usize::MAX] {
        let mut replica = empty();
        let entries = catch_up(&storage, &mut replica, &hand.prefix, page_bytes).await.unwrap();
        assert_eq!(entries, hand.prefix.last_seq.get());
        replica.machine().assert_is_fold_of(&hand.written);
        let end = replica.position();
        assert_eq!((end.batch_id, end.last_seq, end.crc), (hand.prefix.batch_id, hand.prefix.last_seq, hand.crc));
    }
}

#[tokio::test]
async fn s1_only_batches_at_or_below_the_prefix_read_first_are_applied() {
    let (store, mut hand) = log_of(5).await;
    let seen = hand.prefix;
    hand.append_batches(5).await;
    let storage = open(store).await;
    let mut replica = empty();
    catch_up(&storage, &mut replica, &seen, PAGE).await.unwrap();
    assert_eq!(replica.position().batch_id, seen.batch_id);
    catch_up(&storage, &mut replica, &hand.prefix, PAGE).await.unwrap();
    replica.machine().assert_is_fold_of(&hand.written);
}

#[tokio::test]
async fn s2_only_the_suffix_is_read() {
    let (store, mut hand) = log_of(100).await;
    let storage = open(store.clone()).await;
    let mut replica = empty();
    catch_up(&storage, &mut replica, &hand.prefix, PAGE).await.unwrap();
    let (position, machine) = (replica.position(), replica.into_machine());
    hand.append_batches(20).await;
    // The snapshot's batches and all before are gone.
    let (start, end) = keys().batch_range(BatchId::ZERO, BatchId::new(99));
    store.delete_range(&start, &end).await.unwrap();

    let crooked = Crooked::new(store);
    let storage = open(crooked.clone()).await;
    let mut restored = Replica::restored(machine, position).unwrap();
    assert_eq!(catch_up(&storage, &mut restored, &hand.prefix, 500).await.unwrap(), hand.written.len() as u64 - 199);
    assert_eq!(crooked.take_reads().len(), 20, "each batch after the snapshot once, and nothing else");
    restored.machine().assert_is_fold_of(&hand.written);
    assert!(Replica::restored(Journal::default(), position).unwrap_err().to_string().contains("one snapshot"));
}

#[tokio::test]
async fn w6_ranges_are_paged_by_bytes() {
    let store = Arc::new(MemoryKv::new().with_limits(3 << 19, 128, 4 << 20));
    let crooked = Crooked::new(store.clone());
    let most = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    crooked.bend_range({
        let most = most.clone();
        move |_, page| {
            let bytes = page.pairs.iter().map(|p| p.key.len() + p.value.len()).sum();
            most.fetch_max(bytes, std::sync::atomic::Ordering::SeqCst);
            page
        }
    });
    let options = oplog_core::OpenOptions { max_batch_bytes: 5 << 18, ..support::options() };
    let storage = BatchStorage::open(crooked, keys(), options).await.unwrap();
    storage.create_first_prefix().await.unwrap();
    let mut hand = Hand::new(claim_new(&storage, 1).await);
    let payload = vec![7; 6 << 10];
    let batch = vec![&payload[..]; 200];
    for _ in 0..5 {
        hand.append(&batch).await;
    }
    let mut replica = empty();
    catch_up(&storage, &mut replica, &hand.prefix, usize::MAX).await.unwrap();
    replica.machine().assert_is_fold_of(&hand.written);
    let most = most.load(std::sync::atomic::Ordering::SeqCst);
    assert!((1 << 20..4 << 20).contains(&most), "the largest page had {most} bytes");
}

#[tokio::test]
async fn w6_a_page_that_the_store_refuses_is_asked_for_again_in_a_smaller_size() {
    let (store, hand) = log_of(9).await;
    let client = FaultyKv::new(store, 1);
    let storage = open(client.clone()).await;
    for _ in 0..3 {
        client.script(OpKind::Range, Fault::FailBefore(KvErrorKind::TooLarge));
    }
    let mut replica = empty();
    catch_up(&storage, &mut replica, &hand.prefix, PAGE).await.unwrap();
    client.always(OpKind::Range, Some(Fault::FailBefore(KvErrorKind::TooLarge)));
    let error = storage.read_batches(BatchId::ZERO, hand.prefix.batch_id, RangeLimit::pairs(64)).await.unwrap_err();
    assert!(matches!(error, LogError::Store(e) if e.kind == KvErrorKind::TooLarge), "one record alone does not fit");
}

#[tokio::test]
async fn w10_a_missing_batch_is_named_by_its_key() {
    for missing in 1..=6 {
        let (store, hand) = log_of(6).await;
        store.delete(key_of(missing).as_bytes()).await.unwrap();
        let storage = open(store).await;
        for page_bytes in [1, PAGE] {
            let mut replica = empty();
            let error = catch_up(&storage, &mut replica, &hand.prefix, page_bytes).await.unwrap_err();
            let LogError::Fault(fault) = error else { panic!("{error:?}") };
            assert_eq!((fault.kind, &*fault.key), (FaultKind::BatchMissing, &*key_of(missing)));
            assert!(fault.kind.needs_second_read());
            assert_eq!(replica.position().batch_id.get(), missing - 1, "the position is the last good batch");
        }
    }
}

#[tokio::test]
async fn w10_another_batch_under_the_key() {
    let (store, hand) = log_of(6).await;
    store.put(key_of(4).as_bytes(), hand.stored(5).await).await.unwrap();
    let mut replica = empty();
    let fault = fault(&open(store).await, &mut replica, &hand.prefix).await;
    assert_eq!((fault.kind, &*fault.key), (FaultKind::WrongBatchId, &*key_of(4)));
    assert_eq!(replica.position().batch_id.get(), 3);
}

#[tokio::test]
async fn a_stray_key_among_the_batches_is_a_fault() {
    for stray in ["00000000000000000003x", "000000000000000000031", "00000000000000000003.5"] {
        let (store, hand) = log_of(6).await;
        let stray = format!("/oplog/c1/batches/{stray}");
        store.put(stray.as_bytes(), "x".into()).await.unwrap();
        let fault = fault(&open(store).await, &mut empty(), &hand.prefix).await;
        assert_eq!((fault.kind, &*fault.key), (FaultKind::StrayKey, &*stray));
    }
}

#[tokio::test]
async fn s10_every_flipped_byte_of_every_batch_is_detected_and_the_last_good_sequence_kept() {
    let (store, hand) = log_of(3).await;
    let storage = open(store.clone()).await;
    let mut before = Seq::ZERO;
    for id in 1..=3_u64 {
        let good = hand.stored(id).await;
        for at in 0..good.len() {
            let mut bad = good.to_vec();
            bad[at] ^= 0x5a;
            store.put(key_of(id).as_bytes(), bad.into()).await.unwrap();
            let mut replica = empty();
            let fault = fault(&storage, &mut replica, &hand.prefix).await;
            assert_eq!((fault.kind, &*fault.key), (FaultKind::BatchUndecodable, &*key_of(id)), "byte {at}");
            assert_eq!((replica.position().last_seq, replica.applied()), (before, before));
        }
        store.put(key_of(id).as_bytes(), good.clone()).await.unwrap();
        before = BatchRecord::decode(good).unwrap().last_seq();
    }
    let good = hand.prefix.encode();
    for at in 0..good.len() {
        let mut bad = good.clone().into_bytes();
        bad[at] ^= 0x01;
        store.put(&keys().durable_prefix(), bad.into()).await.unwrap();
        let error = storage.read_prefix().await.unwrap_err();
        assert!(matches!(error, LogError::Fault(f) if f.kind == FaultKind::PrefixUndecodable), "byte {at}");
    }
}

#[tokio::test]
async fn s11_schema_and_flags_that_are_not_known_stop_the_reader() {
    let (store, hand) = log_of(3).await;
    for (at, value) in [(4, 2), (5, 1), (5, 0x40)] {
        let mut bad = hand.stored(2).await.to_vec();
        bad[at] = value;
        let (good, mut replica) = (hand.stored(2).await, empty());
        store.put(key_of(2).as_bytes(), bad.into()).await.unwrap();
        let fault = fault(&open(store.clone()).await, &mut replica, &hand.prefix).await;
        assert_eq!(fault.kind, FaultKind::BatchUndecodable);
        assert_eq!(replica.applied(), Seq::new(1), "the sequence is not advanced");
        store.put(key_of(2).as_bytes(), good).await.unwrap();
    }
}

#[tokio::test]
async fn s4_an_entry_that_cannot_be_applied_stops_at_the_previous_entry_each_time() {
    let (store, hand) = log_of(6).await;
    let storage = open(store).await;
    // Batch 3 holds sequences 4 to 6.
    let mut replica = Replica::empty(Journal { refuse: Some(5), ..Journal::default() });
    for _ in 0..3 {
        let fault = fault(&storage, &mut replica, &hand.prefix).await;
        assert_eq!((fault.kind, fault.seq, &*fault.key), (FaultKind::Apply, Some(Seq::new(5)), &*key_of(3)));
        assert!(fault.found.contains("told to refuse it") && fault.found.contains("\"key\""), "{fault}");
        assert!(!fault.kind.needs_second_read());
        assert_eq!((replica.applied(), replica.position().last_seq), (Seq::new(4), Seq::new(3)));
        replica.machine().assert_is_fold_of(&hand.written[..4]);
    }
}

#[tokio::test]
async fn s1_a_machine_that_did_not_move_is_not_believed() {
    let (store, hand) = log_of(3).await;
    let mut replica = Replica::empty(Journal { lie_at: Some(2), ..Journal::default() });
    let fault = fault(&open(store).await, &mut replica, &hand.prefix).await;
    assert_eq!((fault.kind, fault.seq), (FaultKind::Machine, Some(Seq::new(2))));
}

/// Replaces batch `id` by its record with another header.
async fn rewrite(store: &MemoryKv, hand: &Hand, id: u64, change: impl FnOnce(&mut oplog_core::record::BatchHeader)) {
    let record = BatchRecord::decode(hand.stored(id).await).unwrap();
    let mut header = *record.header();
    change(&mut header);
    let mut batch = oplog_core::record::OpenBatch::new();
    for entry in record.entries() {
        batch.push(&entry.into()).unwrap();
    }
    store.put(key_of(id).as_bytes(), batch.seal(header).unwrap().bytes).await.unwrap();
}

#[tokio::test]
async fn l16_a_broken_chain_stops_the_reader() {
    let (store, hand) = log_of(6).await;
    rewrite(&store, &hand, 4, |header| header.prev_crc ^= 1).await;
    let mut replica = empty();
    let fault = fault(&open(store).await, &mut replica, &hand.prefix).await;
    assert_eq!((fault.kind, &*fault.key), (FaultKind::BrokenChain, &*key_of(4)));
    assert_eq!(replica.position().batch_id.get(), 3);
}

#[tokio::test]
async fn l16_a_store_rolled_back_and_written_past_the_readers_ids_is_found() {
    let (store, mut hand) = log_of(4).await;
    let (old_prefix, old) = (hand.prefix, hand.clone());
    hand.append(&[b"lost"]).await;
    let storage = open(store.clone()).await;
    let mut replica = empty();
    catch_up(&storage, &mut replica, &hand.prefix, PAGE).await.unwrap();

    // The store forgets batch 5, and another history takes its number.
    store.put(&keys().durable_prefix(), old_prefix.encode().into()).await.unwrap();
    let mut other = old;
    other.append(&[b"other"]).await;
    other.append(&[b"more"]).await;
    let fault = fault(&storage, &mut replica, &other.prefix).await;
    assert_eq!((fault.kind, &*fault.key), (FaultKind::BrokenChain, &*key_of(6)));
    assert!(fault.found.contains("rolled back"), "{fault}");
}

#[tokio::test]
async fn l1_sequences_join_and_epochs_never_fall() {
    for (change, kind) in [
        (
            (|h| h.first_seq = Seq::new(h.first_seq.get() + 1)) as fn(&mut oplog_core::record::BatchHeader),
            FaultKind::SequenceGap,
        ),
        (|h| h.first_seq = Seq::new(h.first_seq.get() - 1), FaultKind::SequenceGap),
        (|h| h.epoch = Epoch::new(h.epoch.get() - 1), FaultKind::WrongEpoch),
        (|h| h.epoch = Epoch::new(h.epoch.get() + 1), FaultKind::WrongEpoch),
        (|h| h.batch_id = BatchId::new(h.batch_id.get() - 1), FaultKind::WrongBatchId),
    ] {
        let store = Arc::new(MemoryKv::new());
        let storage = fresh(store.clone()).await;
        claim_new(&storage, 1).await;
        let mut hand = Hand::new(claim_new(&storage, 3).await);
        hand.append_batches(6).await;
        rewrite(&store, &hand, 4, change).await;
        let mut replica = empty();
        let fault = fault(&storage, &mut replica, &hand.prefix).await;
        assert_eq!((fault.kind, &*fault.key), (kind, &*key_of(4)));
        assert_eq!(replica.position().batch_id.get(), 3);
    }
}

#[tokio::test]
async fn l2_the_last_batch_ends_where_the_prefix_says() {
    let (store, hand) = log_of(6).await;
    let storage = open(store).await;
    for (last_seq, batch_id) in [(1, 0), (-1, 0), (0, -1)] {
        let through = DurablePrefix {
            last_seq: Seq::new(hand.prefix.last_seq.get().checked_add_signed(last_seq).unwrap()),
            batch_id: BatchId::new(hand.prefix.batch_id.get().checked_add_signed(batch_id).unwrap()),
            ..hand.prefix
        };
        let mut replica = empty();
        let fault = fault(&storage, &mut replica, &through).await;
        assert_eq!(fault.kind, FaultKind::SequenceGap, "{through}: {fault}");
        assert_eq!(replica.position().batch_id, BatchId::new(through.batch_id.get() - 1));
    }
}

#[tokio::test]
async fn s2_a_prefix_below_what_was_applied_is_a_fault() {
    let (store, hand) = log_of(6).await;
    let storage = open(store).await;
    let mut replica = empty();
    catch_up(&storage, &mut replica, &hand.prefix, PAGE).await.unwrap();
    let lower = |batch_id, last_seq, epoch| DurablePrefix {
        batch_id: BatchId::new(batch_id),
        last_seq: Seq::new(last_seq),
        epoch: Epoch::new(epoch),
        ..hand.prefix
    };
    let (batch, seq, epoch) = (hand.prefix.batch_id.get(), hand.prefix.last_seq.get(), hand.prefix.epoch.get());
    for (through, kind) in [
        (lower(batch - 1, seq - 3, epoch), FaultKind::AppliedAbovePrefix),
        (lower(batch, seq - 1, epoch), FaultKind::AppliedAbovePrefix),
        (lower(batch, seq, epoch - 1), FaultKind::AppliedAbovePrefix),
        (lower(batch, seq + 1, epoch), FaultKind::SequenceGap),
    ] {
        let fault = fault(&storage, &mut replica, &through).await;
        assert_eq!((fault.kind, fault.key.as_bytes()), (kind, &keys().durable_prefix()[..]));
        assert!(fault.kind.needs_second_read());
    }
}

#[tokio::test]
async fn a_log_that_begins_above_an_empty_replica_is_refused() {
    let store = Arc::new(MemoryKv::new());
    let base = DurablePrefix { last_seq: Seq::new(1024), ..DurablePrefix::FRESH };
    store.put(&keys().durable_prefix(), base.encode().into()).await.unwrap();
    let storage = open(store).await;
    let first = fault(&storage, &mut empty(), &base).await;
    assert_eq!(first.kind, FaultKind::BaseNotHeld, "{first}");
    let position = oplog_core::Position { last_seq: Seq::new(1024), ..Default::default() };
    let restored = Journal { entries: vec![(1024, vec![])], ..Journal::default() };
    let restored = Replica::restored(restored, position).unwrap();
    let claimed = support::claim(&storage, restored, &support::Guard::new(), 1).await.unwrap();
    let mut hand = Hand::new(claimed);
    hand.append(&[b"1025"]).await;
    let later = fault(&storage, &mut empty(), &hand.prefix).await;
    assert_eq!((later.kind, &*later.key), (FaultKind::BaseNotHeld, &*key_of(1)));
}

#[tokio::test]
async fn s3_an_error_in_any_one_read_never_looks_like_not_found() {
    let (store, hand) = log_of(6).await;
    for kind in [KvErrorKind::Unavailable, KvErrorKind::Timeout, KvErrorKind::Auth, KvErrorKind::Corrupt] {
        for nth in 0..12 {
            let client = FaultyKv::new(store.clone(), 1);
            let storage = open(client.clone()).await;
            for op in [OpKind::Get, OpKind::Range] {
                for _ in 0..nth {
                    client.script(op, Fault::Pass);
                }
                client.script(op, Fault::FailBefore(kind));
            }
            let mut replica = empty();
            let round = async {
                let prefix = storage.require_prefix().await?;
                catch_up(&storage, &mut replica, &prefix, 1).await
            };
            match round.await {
                Ok(entries) => assert_eq!(entries, hand.written.len() as u64),
                Err(LogError::Store(error)) => assert_eq!(error.kind, kind),
                Err(other) => panic!("an error of read {nth} became {other}"),
            }
            let so_far = replica.applied().get() as usize;
            replica.machine().assert_is_fold_of(&hand.written[..so_far]);
            // The store answers again: the replica goes on where it stopped.
            let again = FaultyKv::new(store.clone(), 2);
            catch_up(&open(again).await, &mut replica, &hand.prefix, 1).await.unwrap();
            replica.machine().assert_is_fold_of(&hand.written);
        }
    }
}

#[tokio::test]
async fn s1_an_empty_or_a_short_page_never_counts_as_caught_up() {
    let (store, hand) = log_of(6).await;
    let crooked = Crooked::new(store);
    let storage = open(crooked.clone()).await;
    for keep in 0..6 {
        crooked.bend_range(move |_, mut page| {
            page.pairs.truncate(keep);
            page.more = false;
            page
        });
        let mut replica = empty();
        let fault = fault(&storage, &mut replica, &hand.prefix).await;
        assert_eq!((fault.kind, &*fault.key), (FaultKind::BatchMissing, &*key_of(keep as u64 + 1)));
    }
    crooked.bend_range(|_, mut page| {
        page.pairs.remove(1);
        page
    });
    let fault = fault(&storage, &mut empty(), &hand.prefix).await;
    assert_eq!((fault.kind, &*fault.key), (FaultKind::BatchMissing, &*key_of(2)));
    crooked.bend_range(|_, mut page| {
        page.pairs.push(KvPair::new(keys().batch(BatchId::new(3)), Bytes::new()));
        page
    });
    let error = catch_up(&storage, &mut empty(), &hand.prefix, PAGE).await.unwrap_err();
    assert!(matches!(error, LogError::Fault(_)), "a record twice in one page");
}

#[tokio::test]
async fn a_dropped_catch_up_leaves_a_position_to_go_on_from() {
    let (store, hand) = log_of(30).await;
    let storage = open(store).await;
    let mut replica = empty();
    for budget in 0..60 {
        let catching_up = catch_up(&storage, &mut replica, &hand.prefix, 300);
        let mut polls = 0;
        tokio::select! {
            biased;
            () = std::future::poll_fn(|cx| {
                polls += 1;
                cx.waker().wake_by_ref();
                if polls > budget { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            }) => {}
            done = catching_up => { done.unwrap(); }
        }
        assert_eq!(replica.position().last_seq, replica.applied());
        let so_far = replica.applied().get() as usize;
        replica.machine().assert_is_fold_of(&hand.written[..so_far]);
    }
    assert_eq!(replica.position().batch_id, hand.prefix.batch_id);
}

#[tokio::test]
async fn an_inspection_shows_every_record_and_goes_on_behind_a_broken_one() {
    let (store, hand) = log_of(8).await;
    let mut bad = hand.stored(4).await.to_vec();
    bad[20] ^= 1;
    store.put(key_of(4).as_bytes(), bad.into()).await.unwrap();
    store.put(key_of(6).as_bytes(), hand.stored(7).await).await.unwrap();
    let storage = BatchStorage::open_for_reading(store, keys());
    for page_bytes in [1, 200, PAGE] {
        let mut records = storage.records(BatchId::ZERO, hand.prefix.batch_id, page_bytes);
        let mut seen = Vec::new();
        loop {
            match records.next().await {
                Ok(None) => break,
                Ok(Some((id, record))) => {
                    assert_eq!(record.header().batch_id, id);
                    seen.push((id.get(), None));
                }
                Err(LogError::Fault(fault)) => seen.push((0, Some(fault.kind))),
                Err(error) => panic!("{error}"),
            }
        }
        let (bad, wrong) = ((0, Some(FaultKind::BatchUndecodable)), (0, Some(FaultKind::WrongBatchId)));
        assert_eq!(seen, [(1, None), (2, None), (3, None), bad, (5, None), wrong, (7, None), (8, None)]);
    }
}

#[tokio::test]
async fn the_size_of_the_log_is_counted_once() {
    let (store, mut hand) = log_of(8).await;
    let crooked = Crooked::new(store);
    let storage = open(crooked.clone()).await;
    let mut size = storage.log_size(LogSize::default(), &hand.prefix, 200).await.unwrap();
    let mut bytes = 0;
    for id in 1..=8 {
        bytes += hand.stored(id).await.len() as u64;
    }
    assert_eq!(size, LogSize { through: BatchId::new(8), batches: 8, bytes });
    hand.append(&[b"one more"]).await;
    crooked.take_reads();
    size = storage.log_size(size, &hand.prefix, 200).await.unwrap();
    let more = hand.stored(9).await.len();
    assert_eq!(size, LogSize { through: BatchId::new(8), batches: 8, bytes }.with(BatchId::new(9), more));
    assert_eq!(crooked.take_reads().len(), 1, "what was counted is not read again");
}
