//! Owns the knowledge which names of a directory a sync can vouch for. A sync of the directory that fails loses every change of names
//! that was waiting for one, whoever made it, and no later sync brings it back; only changing the name again does.
//!
//! Two threads that each rename a file and sync show why somebody must keep the books: if the sync of the first fails, that of the
//! second may succeed without having made the second's rename durable.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::sync::Arc;

use parking_lot::ReentrantMutex;

use super::{DirEntry, Space, Vfs, VfsFile};
use crate::crashsafe::{temporary_for, temporary_name};
use crate::sync::Mutex;

/// A directory that keeps the books. Syncs of it run one at a time, and one that finds everything durable does nothing: whoever waited
/// for another's sync that began after its own change needs none of its own.
///
/// After a failed sync it leaves an empty temporary file for each name that was lost. If this process ends and another opens the
/// directory while the system's cache still shows the lost names, [`lost_names`] tells it which ones to put in place anew.
/// A process that is killed after the failed sync and before it has left that file leaves nothing to tell by: two faults within one step.
pub(crate) struct Vouched {
    inner: Arc<dyn Vfs>,
    /// Held over a sync and what it changes in the books. Reentrant, for a simulated disk whose operations run code of a test.
    syncing: ReentrantMutex<()>,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    /// Changed, and no sync has begun since.
    waiting: HashSet<String>,
    /// Changed before the sync that runs.
    running: HashSet<String>,
    /// Changed, and lost to a failed sync.
    lost: HashSet<String>,
    /// Syncs that have failed. What was changed while one failed may be lost with the rest, although nobody had noted it yet.
    failures: u64,
    /// A sync has succeeded: before that, what an earlier process changed is waiting too.
    synced: bool,
}

/// The number in the temporary name that tells of a loss: no publish uses it.
const EVIDENCE: u64 = u64::MAX;

impl Vouched {
    pub(crate) fn new(inner: Arc<dyn Vfs>) -> Arc<Self> {
        Arc::new(Self { inner, syncing: ReentrantMutex::new(()), names: Mutex::default() })
    }

    fn failures(&self) -> u64 {
        self.names.lock().failures
    }

    /// The name was changed, by an operation that began when so many syncs had failed.
    fn changed(&self, name: &str, failures_before: u64) {
        // Temporary names need not be durable, nor gone for certain.
        if temporary_for(name).is_some() {
            return;
        }
        let mut names = self.names.lock();
        if names.failures == failures_before {
            names.lost.remove(name);
            names.waiting.insert(name.to_owned());
            return;
        }
        names.lost.insert(name.to_owned());
        drop(names);
        self.leave_evidence(name);
    }

    /// For the next process, if this one ends before the name is changed again.
    fn leave_evidence(&self, name: &str) {
        // Where it is there already, or cannot be made, there is nothing else to do.
        let _ = self.inner.create(&temporary_name(name, EVIDENCE));
    }
}

/// The names that a process which has ended has lost: those that only the cache may have.
pub(crate) fn lost_names(entries: &[DirEntry]) -> Vec<String> {
    let lost = |entry: &DirEntry| {
        let name = temporary_for(&entry.name)?;
        (entry.name == temporary_name(name, EVIDENCE)).then(|| name.to_owned())
    };
    let mut names: Vec<_> = entries.iter().filter_map(lost).collect();
    names.sort_unstable();
    names
}

impl fmt::Debug for Vouched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Vfs for Vouched {
    fn create(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        let before = self.failures();
        let file = self.inner.create(name)?;
        self.changed(name, before);
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        self.inner.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let before = self.failures();
        self.inner.rename(from, to)?;
        self.changed(from, before);
        self.changed(to, before);
        Ok(())
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        let before = self.failures();
        self.inner.unlink(name)?;
        self.changed(name, before);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.inner.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        let _one_at_a_time = self.syncing.lock();
        {
            let mut names = self.names.lock();
            if names.synced && names.waiting.is_empty() {
                return Ok(());
            }
            let waiting = std::mem::take(&mut names.waiting);
            names.running.extend(waiting);
        }
        let result = self.inner.sync_dir();
        let mut names = self.names.lock();
        let mut lost = std::mem::take(&mut names.running);
        if result.is_ok() {
            names.synced = true;
            return result;
        }
        names.failures += 1;
        // What was changed while it ran may have been lost with the rest.
        lost.extend(std::mem::take(&mut names.waiting));
        names.lost.extend(lost.iter().cloned());
        drop(names);
        lost.iter().for_each(|name| self.leave_evidence(name));
        result
    }

    /// The name stays lost until all of it is done.
    fn renew(&self, name: &str) -> io::Result<()> {
        let before = self.failures();
        self.inner.renew(name)?;
        self.changed(name, before);
        Ok(())
    }

    fn is_vouched(&self, name: &str) -> bool {
        !self.names.lock().lost.contains(name)
    }

    fn space(&self) -> io::Result<Space> {
        self.inner.space()
    }
}

#[cfg(test)]
mod tests;
