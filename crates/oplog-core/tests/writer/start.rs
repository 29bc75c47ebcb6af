//! Bad settings and logs without room are refused at the start, in one sentence, and the claimed log is handed back.

use std::time::Duration;

use bytes::Bytes;
use ha_kv::Kv;
use ha_types::{AlwaysLeads, Epoch, Seq};
use oplog_core::{
    CommitError, DurablePrefix, OrderedWriter, Outcome, Position, Replica, Terminal, WriterConfig, claim_and_verify,
};

use crate::support::{Log, entry};

#[tokio::test]
async fn a_bad_setting_hands_the_log_back_and_changes_nothing() {
    let log = Log::new().await;
    let mut claimed = log.claim(log.client()).await;
    let before = log.prefix().await;
    let bad = [
        (WriterConfig { oplog_batch_max_entries: 0, ..WriterConfig::default() }, "oplog_batch_max_entries is 0"),
        (WriterConfig { oplog_batch_max_bytes: 0, ..WriterConfig::default() }, "oplog_batch_max_bytes is 0"),
        (WriterConfig { oplog_batch_max_bytes: 32 << 20, ..WriterConfig::default() }, "the log was opened for batches"),
        (WriterConfig { oplog_retry_min: Duration::ZERO, ..WriterConfig::default() }, "oplog_retry_min is 0ns"),
    ];
    for (config, words) in bad {
        let (back, sentence) = OrderedWriter::start(claimed, config, log.env()).expect_err("refused");
        assert!(sentence.contains(words) && !sentence.contains('\n'), "{sentence}");
        claimed = *back;
    }
    let writer = OrderedWriter::start(claimed, WriterConfig::default(), log.env()).expect("the log is still good");
    assert_eq!(log.prefix().await, before);
    let slot = writer.reserve().expect("a slot");
    assert_eq!(slot.commit(entry(b"x")).expect("committed").await, Outcome::Durable);
}

/// A machine that stands at a sequence without having applied anything, as after a snapshot.
#[derive(Debug)]
struct Standing(Seq);

impl oplog_core::StateMachine for Standing {
    fn last_applied(&self) -> Seq {
        self.0
    }

    fn apply(&mut self, entry: oplog_core::EntryRef<'_>) -> Result<(), oplog_core::ApplyError> {
        self.0 = entry.seq;
        Ok(())
    }
}

async fn claimed_at(log: &Log, last_seq: u64) -> oplog_core::ClaimedLog {
    let prefix = DurablePrefix { last_seq: Seq::new(last_seq), ..DurablePrefix::FRESH };
    log.store.put(&Log::keys().durable_prefix(), Bytes::from(prefix.encode())).await.expect("memory");
    let position = Position { last_seq: prefix.last_seq, ..Position::default() };
    let replica = Replica::restored(Standing(prefix.last_seq), position).expect("it stands there");
    let storage = log.storage(log.client()).await;
    let (env, pause) = (log.env(), Duration::from_millis(1));
    let claim = claim_and_verify(storage, replica, &AlwaysLeads, &*log.clock, &*env.entropy, pause);
    claim.await.expect("the claim").into_parts().1
}

#[tokio::test]
async fn the_end_of_the_numbers_is_refused_at_the_start_and_at_the_commit() {
    let log = Log::new().await;
    let claimed = claimed_at(&log, u64::MAX - 1).await;
    let (_, sentence) = OrderedWriter::start(claimed, WriterConfig::default(), log.env()).expect_err("no room");
    assert!(sentence.contains("end of its numbers"), "{sentence}");

    let log = Log::new().await;
    let claimed = claimed_at(&log, u64::MAX - 3).await;
    let writer = OrderedWriter::start(claimed, WriterConfig::default(), log.env()).expect("room for two");
    for left in [2, 1] {
        let ticket = writer.reserve().expect("a slot").commit(entry(b"x")).expect("committed");
        assert_eq!(ticket.seq().get(), u64::MAX - left);
        assert_eq!(ticket.await, Outcome::Durable);
    }
    let refused = writer.reserve().expect("a slot").commit(entry(b"x"));
    assert!(matches!(refused, Err(CommitError::Invalid(_))), "{refused:?}");
    assert_eq!(log.prefix().await.last_seq.get(), u64::MAX - 1);
    assert_eq!(writer.status().borrow().terminal, None);
}

/// The first batch of a new claim names the last one of the old claim, and its epoch.
#[tokio::test]
async fn a_new_claim_goes_on_where_the_old_one_ended() {
    let log = Log::new().await;
    for life in 1..=3_u64 {
        let node = log.node(WriterConfig::default()).await;
        let ticket = node.reserve().commit(entry(&life.to_le_bytes())).expect("committed");
        assert_eq!(ticket.seq().get(), life);
        assert_eq!(ticket.await, Outcome::Durable);
        node.writer.stop().await;
        assert_eq!(node.status().terminal, Some(Terminal::Shutdown));
    }
    // `batches` checks sequences and the chain.
    let epochs: Vec<_> = log.batches().await.iter().map(|b| b.header().epoch).collect();
    assert_eq!(epochs, [1, 2, 3].map(Epoch::new));
    let (state, _) = log.claim_state(log.client()).await;
    assert_eq!(state.0, (1..=3_u64).map(|life| life.to_le_bytes().to_vec()).collect::<Vec<_>>());
}
