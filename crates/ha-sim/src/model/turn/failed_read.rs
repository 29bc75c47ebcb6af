//! Owns what a node does when a read fails by which it was to decide: it asks again, or gives up and says so to nobody. A failed read
//! of whoever only waits is another moment of waiting, and no step.

use ha_kv::{KvError, KvErrorKind};
use oplog_core::LogError;

use super::Turn;
use crate::model::rules::Rule;
use crate::model::situation::Situation;
use crate::model::world::{LegacyNext, Next, Role, Writing};

fn silence() -> KvError {
    KvError::read(KvErrorKind::Timeout, "silence")
}

impl Turn<'_> {
    pub(super) fn fail_read(&mut self, at: usize, role: Role) {
        self.world.spent.failed_reads += 1;
        match role {
            Role::Writing(writing) => self.fail_writers_read(at, *writing),
            Role::LegacyWriting(mut writing) => {
                self.note(Situation::LegacyReadFailed);
                writing.next = LegacyNext::ReadPrefix;
                self.become_role(at, Role::LegacyWriting(writing));
            }
            // The state stands where it stands, and follows on; the claim is not taken back.
            Role::Claimed { .. } => {
                self.note(Situation::GivenUpAfterClaim);
                self.become_role(at, Role::Following);
            }
            Role::Unsure { .. } => {
                self.note(Situation::ClaimantGaveUp);
                self.become_role(at, Role::Following);
            }
            Role::Reading { .. } | Role::Missed { .. } => self.become_role(at, Role::Following),
            role => unreachable!("nothing is read by {role:?}"),
        }
    }

    /// What follows is the flight's to say.
    fn fail_writers_read(&mut self, at: usize, mut writing: Writing) {
        let step = match writing.next {
            Next::Append => unreachable!("nothing is read before a transaction is sent"),
            Next::ReadPrefix => {
                self.note(Situation::WriterReadFailed);
                let read =
                    if self.keep(Rule::FailedReadIsNoAbsence) { Err(LogError::Store(silence())) } else { Ok(None) };
                writing.flight.on_prefix(&read)
            }
            Next::ReadBatch => {
                self.note(Situation::FencedReadFailed);
                writing.flight.on_stored_failed(silence())
            }
        };
        self.go_on(at, writing, step);
    }
}
