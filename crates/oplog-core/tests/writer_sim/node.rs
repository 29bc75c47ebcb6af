//! Owns one lifetime of a writer and those who use it.

use std::future::Future;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ha_types::{Entropy, SeededEntropy, Seq};
use oplog_core::{CommitError, NewEntry, OrderedWriter, Outcome, Reservation, ReserveError, Terminal};

use crate::situation::Situation;
use crate::world::Judge;

/// What one producer has: a handle, dice, and the judge.
pub(crate) struct Producer {
    pub(crate) writer: OrderedWriter,
    pub(crate) lifetime: u64,
    pub(crate) dice: SeededEntropy,
    pub(crate) judge: Judge,
}

impl Producer {
    fn roll(&self, sides: u64) -> u64 {
        self.dice.next_u64() % sides
    }

    /// Reserves, commits, aborts and waits at random, `rounds` times or until the writer has ended.
    pub(crate) async fn run(self, rounds: u32) {
        for _ in 0..rounds {
            if self.roll(3) == 0 {
                tokio::time::sleep(Duration::from_micros(self.roll(3000))).await;
            }
            let slots = match self.slots().await {
                Ok(slots) => slots,
                Err(error) => {
                    self.judge.note(match error {
                        ReserveError::QueueFull => Situation::QueueFull,
                        _ => Situation::Unavailable,
                    });
                    if self.writer.status().borrow().terminal.is_some() {
                        return;
                    }
                    continue;
                }
            };
            for slot in slots {
                self.use_slot(slot).await;
            }
        }
    }

    async fn slots(&self) -> Result<Vec<Reservation>, ReserveError> {
        let slots = match self.roll(6) {
            0 => {
                let n = 1 + self.roll(4) as usize;
                let many = self.writer.reserve_many(n)?;
                self.judge.note(Situation::ManyReserved);
                assert_eq!(many.len(), n);
                many
            }
            1 | 2 => return Ok(self.ready().await?.into_iter().collect()),
            _ => vec![self.writer.reserve()?],
        };
        assert!(self.writer.status().borrow().accepting, "L7: admitted by a writer that does not accept");
        Ok(slots)
    }

    /// Waits in line, and sometimes gives up.
    async fn ready(&self) -> Result<Option<Reservation>, ReserveError> {
        let mut ready = Box::pin(self.writer.ready());
        if let Poll::Ready(result) = ready.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result.map(Some);
        }
        self.judge.note(Situation::ReadyWaited);
        if self.roll(4) == 0 {
            tokio::time::sleep(Duration::from_micros(self.roll(2000))).await;
            self.judge.note(Situation::ReadyGivenUp);
            return Ok(None);
        }
        ready.await.map(Some)
    }

    async fn use_slot(&self, slot: Reservation) {
        if self.roll(3) == 0 {
            tokio::time::sleep(Duration::from_micros(self.roll(1500))).await;
        }
        if self.roll(5) == 0 {
            self.judge.note(Situation::ReservationAborted);
            drop(slot);
            return;
        }
        let id = self.judge.fresh_id();
        let mut payload = vec![0; 8 + self.roll(120) as usize];
        if self.roll(60) == 0 {
            payload.resize(4000, 0);
        }
        payload[..8].copy_from_slice(&id.to_le_bytes());
        let entry = NewEntry { op_type: 1, tenant: "default", key: b"key", payload: &payload };
        let failing = !self.writer.status().borrow().accepting;
        let refused = match self.roll(3) {
            0 => self.commit_with_callback(id, slot, entry),
            _ => self.commit(id, slot, entry).await,
        };
        match refused {
            None if failing => self.judge.note(Situation::CommittedWhileFailing),
            None => {}
            Some(CommitError::TooLarge { bytes, limit }) => {
                assert!(bytes > limit && payload.len() > 1000, "{bytes} above {limit}");
                self.judge.note(Situation::TooLargeEntryRefused);
            }
            Some(CommitError::Terminal(_)) => self.judge.note(Situation::RefusedAfterEnd),
            Some(e) => panic!("{e}"),
        }
    }

    fn commit_with_callback(&self, id: u64, slot: Reservation, entry: NewEntry<'_>) -> Option<CommitError> {
        let (judge, lifetime) = (self.judge.clone(), self.lifetime);
        let callback = move |seq: Seq, outcome: Outcome| {
            judge.with(|oracle| {
                oracle.called(lifetime, seq);
                oracle.told(id, seq, outcome);
            });
        };
        // Held while committing, as the callback may otherwise be judged before its entry is known.
        self.judge.with(|oracle| match slot.commit_with(entry, callback) {
            Ok(seq) => {
                oracle.submitted(id, lifetime, seq);
                None
            }
            Err(e) => Some(e),
        })
    }

    async fn commit(&self, id: u64, slot: Reservation, entry: NewEntry<'_>) -> Option<CommitError> {
        let ticket = match slot.commit(entry) {
            Ok(ticket) => ticket,
            Err(e) => return Some(e),
        };
        let seq = ticket.seq();
        self.judge.with(|oracle| oracle.submitted(id, self.lifetime, seq));
        let (judge, writer) = (self.judge.clone(), self.writer.clone());
        let told = async move {
            let outcome = ticket.await;
            judge.with(|oracle| oracle.told(id, seq, outcome));
            let terminal = writer.status().borrow().terminal.clone();
            match (terminal, outcome) {
                (Some(Terminal::Fenced { .. }), Outcome::Never) => judge.note(Situation::FencedNever),
                (Some(Terminal::Shutdown), Outcome::Unknown) => judge.note(Situation::StoppedUnknown),
                (Some(Terminal::Shutdown), Outcome::Never) => judge.note(Situation::StoppedNever),
                (Some(Terminal::Shutdown), Outcome::Durable) => judge.note(Situation::StoppedDurable),
                _ => {}
            }
        };
        // Some callers wait for their own entry, the others go on.
        if self.roll(3) == 0 {
            told.await;
        } else {
            self.judge.spawn(told);
        }
        None
    }
}
