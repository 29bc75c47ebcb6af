//! Owns the repair of a directory: it is opened as a store would open it, and closed. Nothing that is live is touched, and what a person
//! must decide is left to a person.

use std::sync::Arc;

use ha_types::Clock;

use super::fsck::needed_high_water;
use super::look::{Look, MarkerLook, look};
use crate::crashsafe;
use crate::error::{Problem, StoreError};
use crate::format::high_water::HighWater;
use crate::format::names::{BucketId, ID_HIGH_WATER, MARKER};
use crate::observer::{Event, Observer};
use crate::recovery::{Decision, decide, survey};
use crate::store::Store;
use crate::sync::Mutex;
use crate::vfs::Vfs;

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Rounds that were ended, and how.
    pub rounds: Vec<Decision>,
    /// Data files without a table that were removed, and the bytes of their blocks.
    pub orphans: (usize, u64),
    /// Temporary files that were removed.
    pub temporaries: usize,
    /// The high-water mark that was written.
    pub high_water: Option<HighWater>,
    /// Buckets that were left alone, and why.
    pub quarantined: Vec<(BucketId, String)>,
}

impl Repaired {
    /// Whether anything in the directory was changed.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.rounds.is_empty() && self.orphans.0 == 0 && self.temporaries == 0 && self.high_water.is_none()
    }
}

/// Ends the rounds that a crash left, removes what no table names and what is temporary, and writes the high-water mark anew if it is below
/// what was used. A second call finds nothing to do.
///
/// The lock is `vfs`'s: whoever has made one has the directory for itself.
///
/// # Errors
/// As the open of a store; whatever refuses that leaves the directory as it was.
pub fn repair(vfs: Arc<dyn Vfs>, clock: Arc<dyn Clock>) -> Result<Repaired, StoreError> {
    let before = look(&*vfs)?;
    let MarkerLook::Ours(identity) = &before.marker else {
        return Err(Problem::Refused {
            code: "MARKER_MISSING",
            file: MARKER.into(),
            field: "the file",
            expected: "a marker of this program's".into(),
            found: "none".into(),
            remedy: "restore it, or adopt the directory for good",
        }
        .into());
    };
    let rounds = decide(&survey(&*vfs)?)?;
    let heard = Arc::new(Heard::default());
    let store = Store::builder(identity.clone(), clock).observer(Arc::clone(&heard) as _).open(Arc::clone(&vfs))?;
    drop(store);
    let high_water = raised(&before);
    if let Some(high_water) = high_water {
        crashsafe::publish(&*vfs, ID_HIGH_WATER, &high_water.encode().map_err(unwritable)?)?;
    }
    let heard = std::mem::take(&mut *heard.0.lock());
    Ok(Repaired { rounds, temporaries: before.temporaries.len(), high_water, ..heard })
}

/// The mark that the directory needs, if the one it has is below; what is gone by now has used its number too.
fn raised(before: &Look) -> Option<HighWater> {
    let needed = needed_high_water(before);
    let has = match &before.high_water {
        Some(Ok(high_water)) => *high_water,
        Some(Err(_)) => return None,
        None if needed.next_write_number == 0 => return None,
        None => HighWater::default(),
    };
    let raised = HighWater {
        next_bucket: has.next_bucket.max(needed.next_bucket),
        next_write_number: has.next_write_number.max(needed.next_write_number),
    };
    (raised != has).then_some(raised)
}

fn unwritable(error: crate::format::FormatError) -> StoreError {
    StoreError::io(crate::error::DiskOp::Write, ID_HIGH_WATER, std::io::Error::other(error))
}

/// What the open tells.
#[derive(Debug, Default)]
struct Heard(Mutex<Repaired>);

impl Observer for Heard {
    fn event(&self, event: &Event) {
        let mut heard = self.0.lock();
        match event {
            Event::OrphansRemoved { files, bytes } => heard.orphans = (*files, *bytes),
            Event::BucketQuarantined { bucket, reason } => heard.quarantined.push((*bucket, reason.clone())),
            _ => {}
        }
    }
}
