//! Compressed batches (design §3.2): written where the configuration says so, followed, cut, fenced, and refused by name.

use std::time::Duration;

use ha_kv::Kv;
use ha_kv::faulty::{Fault, OpKind, ServerLimits};
use ha_types::{AlwaysLeads, Clock};
use oplog_core::record::BatchCompression;
use oplog_core::{
    BatchId, ClaimError, FaultKind, LogError, Outcome, Replica, Terminal, WriterConfig, claim_and_verify,
};

use crate::support::{Log, Node, Payloads, ends, entry};

fn zstd() -> WriterConfig {
    WriterConfig { oplog_batch_compression: BatchCompression::Zstd, ..WriterConfig::default() }
}

/// `count` payloads of 2 KiB that compress to about half.
fn payloads(count: u64) -> Vec<Vec<u8>> {
    let mut noise = 7_u64;
    let half = |i: u64| {
        let mut payload = vec![0; 2 << 10];
        payload[..8].copy_from_slice(&i.to_le_bytes());
        for byte in &mut payload[1024..] {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (noise >> 56) as u8;
        }
        payload
    };
    (0..count).map(half).collect()
}

async fn write(node: &Node, payloads: &[Vec<u8>]) {
    let slots = node.writer.reserve_many(payloads.len()).expect("slots");
    let commit = |(slot, payload): (oplog_core::Reservation, &Vec<u8>)| slot.commit(entry(payload)).expect("committed");
    for ticket in slots.into_iter().zip(payloads).map(commit).collect::<Vec<_>>() {
        assert_eq!(ticket.await, Outcome::Durable);
    }
}

#[tokio::test(start_paused = true)]
async fn compressed_batches_are_written_where_the_configuration_says_so_and_followed() {
    ends(async {
        let log = Log::new().await;
        let node = log.node(zstd()).await;
        let mut all = payloads(200);
        write(&node, &all).await;
        // One short entry is below the least length that is compressed.
        write(&node, &[b"short".to_vec()]).await;
        all.push(b"short".to_vec());
        let batches = log.batches().await;
        let stored: Vec<_> = batches.iter().map(oplog_core::record::BatchRecord::compression).collect();
        assert_eq!(stored, [BatchCompression::Zstd, BatchCompression::Off]);
        assert!(
            batches[0].raw_bytes() > 400 << 10 && batches[0].bytes().len() < 250 << 10,
            "{:?}",
            batches[0].bytes().len()
        );
        assert_eq!(node.writer.metrics().bytes, batches.iter().map(|b| b.bytes().len() as u64).sum::<u64>());
        node.writer.stop().await;
        // The next leader replays them, and goes on without compression.
        let (state, _) = log.claim_state(log.client()).await;
        assert_eq!(state.0, all);
        let next = log.node(WriterConfig::default()).await;
        write(&next, &payloads(3)).await;
        assert_eq!(log.batches().await[2].compression(), BatchCompression::Off);
    })
    .await;
}

/// `oplog_batch_max_bytes` counts raw bytes, so that a batch is as large for a reader as it is without compression.
#[tokio::test(start_paused = true)]
async fn a_batch_seals_by_its_raw_bytes() {
    let log = Log::new().await;
    let node = log.node(WriterConfig { oplog_batch_max_bytes: 64 << 10, ..zstd() }).await;
    node.kv.script(OpKind::Txn, Fault::HoldRequest);
    let all = payloads(100);
    let slots = node.writer.reserve_many(100).expect("slots");
    let tickets: Vec<_> = slots.into_iter().zip(&all).map(|(s, p)| s.commit(entry(p)).expect("committed")).collect();
    tokio::task::yield_now().await;
    node.kv.release();
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    let batches = log.batches().await;
    let full = &batches[..batches.len() - 1];
    assert!(full.iter().all(|b| (60 << 10..=64 << 10).contains(&b.raw_bytes())), "filled by raw bytes");
    assert!(full.iter().all(|b| b.bytes().len() < 40 << 10), "stored compressed");
    assert_eq!(node.writer.metrics().cuts, 0);
}

/// W5 with compression: what the store refuses is cut by its raw bytes, under the same sequences.
#[tokio::test(start_paused = true)]
async fn w5_a_compressed_batch_that_is_too_large_is_cut() {
    ends(async {
        let log = Log::new().await;
        let node = log.node(zstd()).await;
        node.kv.limit_server(ServerLimits { request_bytes: 64 << 10, ..ServerLimits::NONE });
        let all = payloads(400);
        write(&node, &all).await;
        assert_eq!(log.payloads().await, all, "the same sequences, in order");
        let metrics = node.writer.metrics();
        assert!(metrics.cuts > 0, "{metrics:?}");
        let batches = log.batches().await;
        assert!(batches.iter().all(|b| b.bytes().len() < 64 << 10));
        assert!(
            batches.iter().any(|b| b.compression() == BatchCompression::Zstd && b.raw_bytes() > 64 << 10),
            "a part that fits only because it is compressed was cut further"
        );
        node.writer.drain(log.clock.now().saturating_add(Duration::from_secs(5))).await.expect("drained");
    })
    .await;
}

/// W3 with compression: the fenced one reads the epoch inside the other's compressed batch.
#[tokio::test(start_paused = true)]
async fn w3_a_fenced_writer_reads_a_compressed_batch_at_its_id() {
    ends(async {
        let log = Log::new().await;
        let old = log.node(zstd()).await;
        old.kv.script(OpKind::Txn, Fault::HoldRequest);
        let sent = old.kv.calls(OpKind::Txn);
        let ticket = old.reserve().commit(entry(b"ours")).expect("committed");
        old.kv.reached(OpKind::Txn, sent + 1).await;
        let new = log.node(zstd()).await;
        write(&new, &payloads(50)).await;
        assert_eq!(log.batches().await[0].compression(), BatchCompression::Zstd);
        old.kv.release();
        assert_eq!(ticket.await, Outcome::Never, "an unreadable record would leave it unknown");
        assert!(matches!(old.status().terminal, Some(Terminal::Fenced { .. })));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_is_none_stops_a_reader_with_key_and_field_and_changes_nothing() {
    let log = Log::new().await;
    let node = log.node(zstd()).await;
    write(&node, &payloads(50)).await;
    node.writer.stop().await;
    let key = Log::keys().batch(BatchId::new(1));
    let mut record = log.store.get(&key).await.expect("memory").expect("a batch").to_vec();
    // The flag on a body that is no frame, under a right checksum.
    record[10] ^= 1;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&record[4..6]), &record[10..]);
    record[6..10].copy_from_slice(&crc.to_le_bytes());
    log.store.put(&key, record.into()).await.expect("memory");
    let (storage, before) = (log.storage(log.client()).await, log.prefix().await);
    let (env, pause) = (log.env(), Duration::from_millis(1));
    let failed =
        claim_and_verify(storage, Replica::empty(Payloads::default()), &AlwaysLeads, &*env.clock, &*env.entropy, pause)
            .await
            .expect_err("a broken batch");
    assert!(failed.replica.machine().0.is_empty());
    let ClaimError::Log(LogError::Fault(fault)) = failed.error else { panic!("{:?}", failed.error) };
    assert_eq!((fault.kind, fault.key.as_bytes()), (FaultKind::BatchUndecodable, &key[..]));
    assert!(fault.to_string().contains("zstd frame"), "{fault}");
    assert_eq!(log.prefix().await, before, "nothing was claimed");
}
