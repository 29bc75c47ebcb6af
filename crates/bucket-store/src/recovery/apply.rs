//! Owns the carrying out of recovery's decisions, in an order that any crash and any failure may interrupt.

use crate::crashsafe::{self, Attempt};
use crate::error::{DiskOp, StoreError};
use crate::format::intent::Intents;
use crate::format::names::{BucketId, GC_INTENT, RESERVE};
use crate::vfs::Vfs;

use super::decide::{Action, Decision, decide};
use super::survey::{Survey, counted_bytes};

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Targets that were not committed and are gone.
    pub rolled_back: Vec<BucketId>,
    /// Buckets that were replaced or removed and are gone now.
    pub retired: Vec<BucketId>,
    /// Bytes of the blocks of all data files that went.
    pub freed_bytes: u64,
}

impl RecoveryReport {
    fn add(&mut self, decision: &Decision, survey: &Survey) {
        let gone = decision.gone();
        match decision.action {
            Action::RollBack => self.rolled_back.extend(gone),
            Action::Finish | Action::Remove => self.retired.extend(gone),
        }
        self.freed_bytes += gone.iter().filter_map(|id| survey.data.get(id)).map(counted_bytes).sum::<u64>();
    }
}

/// Ends every round that a crash left, and takes the buckets that went out of `survey`. The directory's lock is held.
///
/// Nothing is changed before every round is decided. It may be interrupted anywhere and begun again.
///
/// # Errors
/// As [`decide`], with the directory as it was; as the disk says, and then it may be called again with a new survey.
pub fn recover(vfs: &dyn Vfs, survey: &mut Survey) -> Result<RecoveryReport, StoreError> {
    let decisions = decide(survey)?;
    // A process that died left names that the cache has and the disk may not. Nothing may rest on them before this.
    vfs.sync_dir().map_err(|error| StoreError::io(DiskOp::SyncDir, "the directory", error))?;
    let mut report = RecoveryReport::default();
    if !survey.has_intents {
        return Ok(report);
    }
    if !decisions.is_empty() {
        // If that process died after a sync of the directory had failed, the sync above does not vouch for the intents, and
        // unlinking could become durable without them. A file that is put in place anew can be vouched for.
        republish(vfs, &survey.intents)?;
        let gone: Vec<_> = decisions.iter().flat_map(Decision::gone).copied().collect();
        let names: Vec<_> = gone.iter().flat_map(|id| [id.data_name(), id.table_name()]).collect();
        // Likewise a name that is absent may come back, so each is taken away anew.
        crashsafe::remove(vfs, &names, Attempt::Repeated)?;
        decisions.iter().for_each(|decision| report.add(decision, survey));
        for id in gone {
            survey.data.remove(&id);
            survey.tables.remove(&id);
        }
    }
    crashsafe::remove(vfs, &[GC_INTENT], Attempt::First)?;
    survey.intents = Intents::default();
    survey.has_intents = false;
    Ok(report)
}

/// On a full disk the reserve is spent: what recovery removes makes room.
fn republish(vfs: &dyn Vfs, intents: &Intents) -> Result<(), StoreError> {
    let bytes = intents.encode().map_err(|error| StoreError::unwritable(GC_INTENT, error))?;
    let mut published = crashsafe::publish(vfs, GC_INTENT, &bytes);
    if published.as_ref().is_err_and(crashsafe::PublishError::is_no_space) {
        crashsafe::remove(vfs, &[RESERVE], Attempt::First)?;
        published = crashsafe::publish(vfs, GC_INTENT, &bytes);
    }
    Ok(published?)
}
