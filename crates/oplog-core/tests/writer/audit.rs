//! Every request the writer makes, whatever befalls it. Rows W12, W17 and W19.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ha_kv::faulty::{Fault, FaultPlan, Op, OpKind, ServerLimits, Stage};
use ha_kv::{Compare, KvErrorKind};
use ha_types::Clock;
use oplog_core::{DurablePrefix, Outcome, Terminal, WriterConfig};

use crate::support::{Log, Node, entry};

/// Records what the client sends from now on.
fn record(node: &Node) -> Arc<Mutex<Vec<Op>>> {
    let ops = Arc::new(Mutex::new(Vec::new()));
    node.kv.observe({
        let ops = Arc::clone(&ops);
        move |op, stage| {
            if stage == Stage::Called {
                ops.lock().expect("lock").push(op.clone());
            }
        }
    });
    ops
}

/// W19, W12, W17: a write is one transaction that compares the prefix and puts the next batch and the next prefix, and no more.
fn audit(ops: &[Op]) -> usize {
    let prefix_key = Log::keys().durable_prefix();
    let mut writes = 0;
    for op in ops.iter().filter(|op| op.kind().is_write()) {
        let Op::Txn(txn) = op else { panic!("a write outside a transaction: {op:?}") };
        writes += 1;
        assert!(txn.deletes.is_empty(), "W17: the writer never deletes: {txn:?}");
        let [Compare::ValueEquals { key, value }] = &txn.compares[..] else { panic!("W19: {:?}", txn.compares) };
        assert_eq!(*key, prefix_key, "W19: every write compares the prefix");
        let expected = DurablePrefix::decode(value).expect("a prefix");
        let [batch, prefix] = &txn.puts[..] else { panic!("W12: two puts, {:?}", txn.puts.len()) };
        assert_eq!(prefix.key, prefix_key);
        let new = DurablePrefix::decode(&prefix.value).expect("a prefix");
        assert_eq!(batch.key, Log::keys().batch(new.batch_id));
        assert_eq!((new.epoch, new.owner), (expected.epoch, expected.owner));
        assert_eq!(expected.batch_id.next(), Some(new.batch_id));
        assert!(new.last_seq > expected.last_seq);
        assert!(txn.ops() <= 128, "W12");
    }
    writes
}

async fn work(node: &Node, rounds: u8) {
    for i in 0..rounds {
        if let Ok(slot) = node.writer.reserve() {
            slot.commit_with(entry(&[i]), |_, _| {}).expect("committed");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn w19_every_write_compares_the_prefix_and_w12_stays_small() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let ops = record(&node);
    node.kv.plan(FaultPlan::rough(Duration::from_millis(5)));
    work(&node, 200).await;
    node.kv.plan(FaultPlan::NONE);
    node.kv.limit_server(ServerLimits { request_bytes: 700, ..ServerLimits::NONE });
    node.until(|s| s.accepting).await;
    let slots = node.writer.reserve_many(30).expect("slots");
    let tickets: Vec<_> = slots.into_iter().map(|s| s.commit(entry(&[1; 30])).expect("committed")).collect();
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    assert!(audit(&ops.lock().expect("lock")) > 50);
}

type Befall = fn(&Node);

/// W17: shutdown, drain, a panicking callback, the end of the runtime's task, being fenced, being refused: nothing is deleted.
#[tokio::test(start_paused = true)]
async fn w17_no_path_to_the_end_deletes_anything() {
    let ends: [(&str, Befall); 4] = [
        ("shutdown", |_| {}),
        ("rejected", |node| node.kv.always(OpKind::Txn, Some(Fault::FailBefore(KvErrorKind::InvalidArgument)))),
        ("partition", |node| node.kv.partition(true)),
        ("panic", |node| {
            let panics = |_, _| panic!("a callback that panics on purpose");
            node.reserve().commit_with(entry(b"p"), panics).expect("committed");
        }),
    ];
    for (name, befall) in ends {
        let log = Log::new().await;
        let node = log.node(WriterConfig::default()).await;
        let ops = record(&node);
        work(&node, 20).await;
        let (prefix, payloads) = (log.prefix().await, log.payloads().await);
        befall(&node);
        work(&node, 20).await;
        let _ = node.writer.drain(log.clock.now().saturating_add(Duration::from_secs(2))).await;
        node.writer.stop().await;
        assert!(node.status().terminal.is_some());
        audit(&ops.lock().expect("lock"));
        assert!(log.prefix().await.last_seq >= prefix.last_seq, "{name}");
        assert_eq!(log.payloads().await[..payloads.len()], payloads, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn w17_being_fenced_deletes_nothing() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let ops = record(&node);
    work(&node, 20).await;
    let new = log.node(WriterConfig::default()).await;
    work(&node, 2).await;
    assert!(matches!(node.until(|s| s.terminal.is_some()).await.terminal, Some(Terminal::Fenced { .. })));
    assert_eq!(new.reserve().commit(entry(b"new")).expect("committed").await, Outcome::Durable);
    node.writer.stop().await;
    drop(node);
    audit(&ops.lock().expect("lock"));
    assert_eq!(log.payloads().await.len(), 21);
}

#[tokio::test(start_paused = true)]
async fn l13_what_was_refused_or_aborted_is_never_in_the_log() {
    let log = Log::new().await;
    let node = log.node(WriterConfig { oplog_batch_max_entries: 3, ..WriterConfig::default() }).await;
    node.kv.plan(FaultPlan::rough(Duration::from_millis(5)));
    let mut committed = Vec::new();
    let (mut full, mut unavailable, mut aborted) = (0, 0, 0);
    for i in 0..2000_u32 {
        match node.writer.reserve() {
            Ok(slot) if i % 5 == 0 => {
                aborted += 1;
                drop(slot);
            }
            Ok(slot) => {
                drop(slot.commit(entry(&i.to_le_bytes())).expect("committed"));
                committed.push(i.to_le_bytes().to_vec());
            }
            Err(oplog_core::ReserveError::QueueFull) => full += 1,
            Err(_) => unavailable += 1,
        }
        if i % 7 == 0 {
            tokio::time::sleep(Duration::from_micros(700)).await;
        }
    }
    node.kv.plan(FaultPlan::NONE);
    node.writer.drain(log.clock.now().saturating_add(Duration::from_secs(60))).await.expect("drained");
    assert!(full > 0 && unavailable > 0 && aborted > 0, "full {full}, unavailable {unavailable}, aborted {aborted}");
    assert_eq!(log.payloads().await, committed);
    assert_eq!(node.writer.metrics().slots, 0);
}
