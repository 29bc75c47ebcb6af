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

use super::{DirEntry, OpenFiles, Space, Vfs, VfsFile};
use crate::crashsafe::{temporary_for, temporary_name};
use crate::error::too_many_files;
use crate::sync::Mutex;

/// A directory that keeps the books. Syncs of it run one at a time, and one that finds everything durable does nothing: whoever waited
/// for another's sync that began after its own change needs none of its own.
///
/// After a failed sync it leaves an empty temporary file for each name that was lost. If this process ends and another opens the
/// directory while the system's cache still shows the lost names, [`lost_names`] tells it which ones to put in place anew.
/// A process that is killed after the failed sync and before it has left that file leaves nothing to tell by: two faults within one step, and
/// what would tell it beforehand costs every sync a create and an unlink.
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

/// The number in the temporary name that tells of a loss: no publish uses it, nor the one below, which a note has while it is put in place anew.
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

/// The names that a process which has ended has lost: those that only the cache may have. It has left its notes among these names.
pub(crate) fn lost_names<S: AsRef<str>>(names: &[S]) -> Vec<String> {
    let lost = |note: &str| {
        let name = temporary_for(note)?;
        let notes = [EVIDENCE, EVIDENCE - 1].map(|number| temporary_name(name, number));
        notes.iter().any(|it| it == note).then(|| name.to_owned())
    };
    let mut lost: Vec<_> = names.iter().filter_map(|name| lost(name.as_ref())).collect();
    lost.sort_unstable();
    lost.dedup();
    lost
}

/// Puts the note of a lost name in place anew, so that the next sync of the directory vouches for it: another sync that failed may have lost the
/// note itself.
pub(crate) fn note_anew(vfs: &dyn Vfs, name: &str) -> io::Result<()> {
    let [note, aside] = [EVIDENCE, EVIDENCE - 1].map(|number| temporary_name(name, number));
    match vfs.rename(&note, &aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        renamed => renamed?,
    }
    vfs.rename(&aside, &note)
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
        match &result {
            Ok(()) => {
                names.synced = true;
                return result;
            }
            // Without a descriptor nothing was synced, and so nothing was lost: it all waits for the next sync.
            Err(error) if too_many_files(error) => {
                names.waiting.extend(lost);
                return result;
            }
            Err(_) => {}
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

    fn open_files(&self) -> Option<OpenFiles> {
        self.inner.open_files()
    }
}

#[cfg(test)]
mod tests;
