//! Owns what comes after a commit: the sources' files go, the directory is synced, and then the round goes out of the intent file. A
//! failure is tried again at run time, after a pause, and holds up no other round.

use ha_types::MonoTime;

use super::engine::{Paused, Worker};
use crate::crashsafe::{self, Attempt};
use crate::error::StoreError;
use crate::observer::Event;

impl Worker<'_> {
    /// Cleans up after one committed round, if there is one whose pause is over. Whether there was.
    pub(super) fn clean_up(&mut self, now: MonoTime) -> bool {
        let due = |number| self.store.gc.paused_until(Paused::CleanUp(number), now).is_none();
        let Some(at) = self.engine.file.open.iter().position(|round| due(round.number)) else { return false };
        let number = self.engine.file.open[at].number;
        self.has_news = true;
        match self.unlink_sources(at).and_then(|()| self.clear(at)) {
            Ok(()) => self.store.gc.forget_pause(Paused::CleanUp(number)),
            Err(error) => {
                self.pause(Paused::CleanUp(number), now);
                self.store.observer.event(&Event::DiskFailed { error });
            }
        }
        true
    }

    fn unlink_sources(&mut self, at: usize) -> Result<(), StoreError> {
        let round = &mut self.engine.file.open[at];
        if round.unlinked {
            return Ok(());
        }
        let names: Vec<_> = round.sources.iter().flat_map(|id| [id.data_name(), id.table_name()]).collect();
        let removed = crashsafe::remove(&*self.store.vfs, &names, round.attempt).map_err(StoreError::from);
        round.attempt = Attempt::Repeated;
        removed?;
        round.unlinked = true;
        let (sources, freed_bytes) = (round.sources.clone(), round.allocated_bytes);
        let retired: Vec<_> = {
            let mut state = self.store.state.write();
            sources.iter().filter_map(|id| state.forget_retired(*id)).collect()
        };
        // Outside of the lock: closing a file may free many blocks, and takes its time.
        drop(retired);
        self.store.observer.event(&Event::GcCleaned { sources, freed_bytes });
        Ok(())
    }

    fn clear(&mut self, at: usize) -> Result<(), StoreError> {
        let round = self.engine.file.open.remove(at);
        let cleared = self.engine.file.publish(self.store);
        if cleared.is_err() {
            self.engine.file.open.insert(at, round);
        }
        cleared
    }
}
