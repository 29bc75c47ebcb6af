//! Owns a disk that leaves one step out of what the store asks of it, or does it at the wrong time, and answers as if it had done it.
//! The store itself is the product's, unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bucket_store::crashsafe::temporary_for;
use bucket_store::format::graves::Graves;
use bucket_store::format::intent::{Intents, Round};
use bucket_store::format::names::{BucketId, GC_INTENT, GRAVES, ID_HIGH_WATER, NameKind};
use bucket_store::format::table::{Table, Tombstone};
use bucket_store::vfs::sim::SimDir;
use bucket_store::vfs::{DirEntry, Space, Vfs, VfsFile};

use super::rules::{Change, Failure, File, Order, Rule, Said};

/// The disk.
#[derive(Debug)]
pub struct Weakened {
    dir: Arc<SimDir>,
    rule: Rule,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Debug, Default)]
struct Memory {
    /// What the names' last change was since the last sync of the directory.
    last: Option<Change>,
    synced_once: bool,
    /// Data files of buckets that a PREPARED has named as target.
    targets: BTreeSet<String>,
    /// Buckets that a PREPARED names as target.
    prepared: Option<BucketId>,
    /// What the newest temporary file of the intents says.
    intents: Intents,
    /// The newest temporary file of the graves says something of records.
    graves_have_keys: bool,
    /// Renames that were answered and not done, by when they are.
    late_renames: Vec<(String, String)>,
    /// The targets that committed rounds have named, by their sources.
    targets_of: BTreeMap<Vec<BucketId>, BucketId>,
    /// A sync of a bucket's data has failed, and what is written anew has not been synced yet.
    data_lost: bool,
    /// Syncs that were answered and not done, by the table that they wait for.
    late_syncs: BTreeMap<String, Arc<dyn VfsFile>>,
}

impl Weakened {
    /// `dir` without `rule`.
    #[must_use]
    pub fn new(dir: Arc<SimDir>, rule: Rule) -> Self {
        Self { dir, rule, memory: Arc::default() }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, order: Order) -> bool {
        self.rule == Rule::Order(order)
    }

    fn file(&self, name: &str, file: Arc<dyn VfsFile>) -> Arc<dyn VfsFile> {
        Arc::new(WeakFile { name: name.to_owned(), file, rule: self.rule, memory: Arc::clone(&self.memory) })
    }

    /// What a rename to the intent file says.
    fn note_intents(&self) -> Intents {
        let mut memory = self.memory();
        let intents = memory.intents.clone();
        memory.prepared = intents.rounds.iter().find_map(|round| match round {
            Round::Prepared { target, .. } => Some(*target),
            Round::Committed { .. } => None,
        });
        let target = memory.prepared.map(BucketId::data_name);
        memory.targets.extend(target);
        intents
    }

    fn rename_late(&self, from: &str, to: &str) -> io::Result<()> {
        self.memory().late_renames.push((from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn catch_up(&self) -> io::Result<()> {
        let late = std::mem::take(&mut self.memory().late_renames);
        late.iter().try_for_each(|(from, to)| self.dir.rename(from, to))
    }

    fn unlink_all<'a>(&self, ids: impl Iterator<Item = &'a BucketId>) {
        for id in ids {
            let _ = self.dir.unlink(&id.data_name());
            let _ = self.dir.unlink(&id.table_name());
        }
    }
}

impl Memory {
    /// Lets rounds keep the targets that they once had; a round in which such a target goes is left out.
    fn keep_targets(&mut self, intents: &mut Intents) {
        let mut kept = BTreeSet::new();
        for round in &mut intents.rounds {
            let Round::Committed { sources, target } = round else { continue };
            match target {
                Some(target) => drop(self.targets_of.insert(sources.clone(), *target)),
                None => {
                    *target = self.targets_of.get(sources).copied();
                    kept.extend(*target);
                }
            }
        }
        intents.rounds.retain(|round| !round.sources().iter().any(|source| kept.contains(source)));
    }
}

fn change(name: &str, gone: bool) -> Option<Change> {
    Some(match NameKind::of(name) {
        NameKind::Table(_) | NameKind::Data(_) if gone => Change::BucketGone,
        NameKind::Table(_) => Change::Table,
        NameKind::Data(_) => Change::Renewed,
        NameKind::GcIntent if gone => Change::IntentGone,
        NameKind::GcIntent => Change::Intent,
        NameKind::Graves if !gone => Change::Graves,
        NameKind::IdHighWater => Change::HighWater,
        NameKind::Marker => Change::Marker,
        NameKind::Reserve if gone => Change::ReserveGone,
        _ => return None,
    })
}

impl Vfs for Weakened {
    fn create(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        if self.rule == Rule::Failure(Failure::RemoveAgain)
            && matches!(NameKind::of(name), NameKind::Table(_) | NameKind::GcIntent)
        {
            // Only a repeated removal creates such a name itself.
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = self.dir.create(name)?;
        if matches!(NameKind::of(name), NameKind::Data(_)) {
            self.memory().last = Some(Change::DataCreated);
        }
        Ok(self.file(name, file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        let late = self.memory().late_renames.iter().find(|(_, to)| to == name).map(|(from, _)| from.clone());
        let file = self.dir.open(late.as_deref().unwrap_or(name))?;
        Ok(self.file(name, file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if to == GC_INTENT {
            let intents = self.note_intents();
            let committed = |round: &Round| matches!(round, Round::Committed { .. });
            if self.is(Order::UnlinkBeforeCommitted) {
                self.unlink_all(intents.rounds.iter().filter(|round| committed(round)).flat_map(Round::sources));
            }
            if self.is(Order::TableBeforePrepared) && intents.rounds.iter().any(|round| !committed(round)) {
                self.memory().last = Some(Change::Intent);
                return self.rename_late(from, to);
            }
        }
        if let NameKind::Table(id) = NameKind::of(to) {
            let is_target = self.memory().prepared == Some(id);
            if is_target && self.is(Order::CommittedBeforeTable) {
                self.memory().last = Some(Change::Table);
                return self.rename_late(from, to);
            }
        }
        if to == GRAVES && self.is(Order::CommittedBeforeGraves) && self.memory().graves_have_keys {
            self.memory().last = Some(Change::Graves);
            return self.rename_late(from, to);
        }
        if to == ID_HIGH_WATER && self.is(Order::NumbersBeforeMark) {
            return self.dir.unlink(from);
        }
        self.dir.rename(from, to)?;
        if let Some(change) = change(to, false) {
            self.memory().last = Some(change);
        }
        match NameKind::of(to) {
            NameKind::Table(_) if self.is(Order::TableBeforePrepared) => self.catch_up(),
            NameKind::GcIntent if self.is(Order::CommittedBeforeTable) || self.is(Order::CommittedBeforeGraves) => {
                self.catch_up()
            }
            _ => Ok(()),
        }
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        if self.is(Order::ClearBeforeUnlink) && change(name, true) == Some(Change::BucketGone) {
            let _ = self.dir.unlink(GC_INTENT);
            self.dir.sync_dir()?;
        }
        self.dir.unlink(name)?;
        if let Some(change) = change(name, true) {
            self.memory().last = Some(change);
        }
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.dir.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        let (last, first) = {
            let mut memory = self.memory();
            let first = !std::mem::replace(&mut memory.synced_once, true);
            (memory.last.take(), first)
        };
        if let Rule::DirSync(change) = self.rule {
            let is_it = match change {
                Change::NothingYet => first && last.is_none(),
                other => last == Some(other),
            };
            if is_it {
                return Ok(());
            }
        }
        if self.rule == Rule::Failure(Failure::RenewedSync) && last == Some(Change::Renewed) {
            return Ok(());
        }
        let synced = match self.dir.sync_dir() {
            Err(_) if self.rule == Rule::Failure(Failure::DirSyncAgain) => self.dir.sync_dir(),
            other => other,
        };
        let late = std::mem::take(&mut self.memory().late_syncs);
        if last == Some(Change::Table) {
            late.values().try_for_each(|file| file.sync_data())?;
        } else {
            self.memory().late_syncs = late;
        }
        synced
    }

    fn space(&self) -> io::Result<Space> {
        self.dir.space()
    }
}

#[derive(Debug)]
struct WeakFile {
    name: String,
    file: Arc<dyn VfsFile>,
    rule: Rule,
    memory: Arc<Mutex<Memory>>,
}

impl WeakFile {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn role(&self) -> Option<File> {
        if matches!(NameKind::of(&self.name), NameKind::Data(_)) {
            let is_target = self.memory().targets.contains(&self.name);
            return Some(if is_target { File::TargetData } else { File::Data });
        }
        Some(match NameKind::of(temporary_for(&self.name)?) {
            NameKind::Table(_) => File::Table,
            NameKind::GcIntent => File::Intent,
            NameKind::IdHighWater => File::HighWater,
            NameKind::Marker => File::Marker,
            NameKind::Graves => File::Graves,
            _ => return None,
        })
    }
}

impl VfsFile for WeakFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        if self.role() == Some(File::Intent)
            && let Ok(mut intents) = Intents::decode(buf)
        {
            if self.rule == Rule::Order(Order::TargetBeforeRound) {
                self.memory().keep_targets(&mut intents);
                let bytes = intents.encode().map_err(io::Error::other)?;
                self.memory().intents = intents;
                return self.file.write_all_at(&bytes, offset);
            }
            self.memory().intents = intents;
        }
        if self.role() == Some(File::Graves)
            && let Ok(graves) = Graves::decode(buf)
        {
            self.memory().graves_have_keys = !graves.keys.is_empty();
        }
        let less = if self.rule == Rule::Said(Said::Deleted) { says_less(&self.name, buf) } else { None };
        self.file.write_all_at(less.as_deref().unwrap_or(buf), offset)
    }

    fn write_all_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.file.write_all_vectored_at(bufs, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        let role = self.role();
        if let Rule::DataSync(file) = self.rule
            && role == Some(if file == File::PendingData { File::Data } else { file })
        {
            return Ok(());
        }
        let is_data = matches!(role, Some(File::Data | File::TargetData));
        if role == Some(File::Data) && matches!(self.rule, Rule::Failure(Failure::AnewSync | Failure::PendingAnewSync))
        {
            if std::mem::take(&mut self.memory().data_lost) {
                return Ok(());
            }
            let synced = self.file.sync_data();
            self.memory().data_lost = synced.is_err();
            return synced;
        }
        if self.rule == Rule::Order(Order::TableBeforeData) && is_data {
            self.memory().late_syncs.insert(self.name.clone(), Arc::clone(&self.file));
            return Ok(());
        }
        let synced = match self.file.sync_data() {
            Err(_) if self.rule == Rule::Failure(Failure::DataSyncAgain) => self.file.sync_data(),
            other => other,
        };
        if role == Some(File::TargetData) {
            self.memory().last = Some(Change::TargetCreated);
        }
        synced
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.file.allocated_bytes()
    }
}

/// The file without a word of deletes; `None` where it has none.
fn says_less(name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    match NameKind::of(temporary_for(name)?) {
        NameKind::Table(id) => {
            let mut table = Table::decode(bytes, id, u64::MAX).ok()?;
            for slot in &mut table.slots {
                slot.tombstone = slot.tombstone.map(|_| Tombstone::Replaced);
            }
            table.encode().ok()
        }
        NameKind::Graves => {
            let mut graves = Graves::decode(bytes).ok()?;
            graves.keys.values_mut().for_each(|grave| grave.deleted.clear());
            graves.encode().ok()
        }
        _ => None,
    }
}
