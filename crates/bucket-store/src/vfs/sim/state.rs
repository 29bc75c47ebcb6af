//! Owns what is on the disk, durably and in the system's cache, and what each operation does to both. It knows no fault.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use super::change::{Change, Inode, Names};
use super::content::{BLOCK, Content};
use super::crash::CrashPoint;
use super::image::Image;

struct FileState {
    durable: Content,
    volatile: Content,
    handles: usize,
}

/// A change that is not durable.
#[derive(Clone)]
pub(super) struct Pending {
    pub(super) change: Change,
    /// A sync of it failed and forgot it: no later sync makes it durable, yet it may have reached the disk.
    forgotten: bool,
}

/// The whole disk.
pub(super) struct State {
    files: BTreeMap<Inode, FileState>,
    durable: Names,
    volatile: Names,
    pending: Vec<Pending>,
    next_inode: u64,
    capacity: u64,
    frees_late: bool,
}

impl State {
    pub(super) fn of(image: &Image, capacity: u64) -> Self {
        let mut state = Self {
            files: BTreeMap::new(),
            durable: Names::new(),
            volatile: Names::new(),
            pending: Vec::new(),
            next_inode: 0,
            capacity,
            frees_late: false,
        };
        for (name, content) in image.contents() {
            let inode = state.new_inode(content.clone());
            state.durable.insert(Arc::clone(name), inode);
            state.volatile.insert(Arc::clone(name), inode);
        }
        state
    }

    /// The disk of a crash point, with nobody who has a file open.
    pub(super) fn at(names: &Names, contents: &BTreeMap<Inode, Content>, changes: &[Pending], capacity: u64) -> Self {
        let file = |(inode, durable): (&Inode, &Content)| {
            let mut volatile = durable.clone();
            let of_file = changes.iter().filter(|pending| pending.change.inode() == Some(*inode));
            of_file.for_each(|pending| pending.change.apply_to_content(&mut volatile));
            (*inode, FileState { durable: durable.clone(), volatile, handles: 0 })
        };
        let mut volatile = names.clone();
        changes.iter().for_each(|pending| pending.change.apply_to_names(&mut volatile));
        Self {
            files: contents.iter().map(file).collect(),
            durable: names.clone(),
            volatile,
            pending: changes.to_vec(),
            next_inode: contents.keys().last().map_or(0, |last| last.0 + 1),
            capacity,
            frees_late: false,
        }
    }

    fn new_inode(&mut self, content: Content) -> Inode {
        let inode = Inode(self.next_inode);
        self.next_inode += 1;
        self.files.insert(inode, FileState { durable: content.clone(), volatile: content, handles: 0 });
        inode
    }

    fn push(&mut self, change: Change) {
        self.pending.push(Pending { change, forgotten: false });
    }

    pub(super) fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    pub(super) fn free_late(&mut self) {
        self.frees_late = true;
    }

    pub(super) fn lookup(&self, name: &str) -> io::Result<Inode> {
        self.volatile.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn create(&mut self, name: &str) -> io::Result<Inode> {
        if self.volatile.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = self.new_inode(Content::default());
        let name: Arc<str> = name.into();
        self.volatile.insert(Arc::clone(&name), inode);
        self.push(Change::Names(vec![(name, Some(inode))]));
        Ok(inode)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let inode = self.lookup(from)?;
        if from == to {
            return Ok(());
        }
        let change = Change::Names(vec![(to.into(), Some(inode)), (from.into(), None)]);
        change.apply_to_names(&mut self.volatile);
        self.push(change);
        Ok(())
    }

    pub(super) fn unlink(&mut self, name: &str) -> io::Result<()> {
        self.lookup(name)?;
        let change = Change::Names(vec![(name.into(), None)]);
        change.apply_to_names(&mut self.volatile);
        self.push(change);
        Ok(())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.volatile.keys()
    }

    pub(super) fn sync_dir(&mut self) {
        let all = std::mem::take(&mut self.pending);
        for pending in all {
            match &pending.change {
                Change::Names(effects) if !pending.forgotten => {
                    pending.change.apply_to_names(&mut self.durable);
                    // A change of these names that was forgotten earlier is overwritten by this one.
                    let settled: Vec<_> = effects.iter().map(|(name, _)| Arc::clone(name)).collect();
                    for earlier in &mut self.pending {
                        if let Change::Names(effects) = &mut earlier.change {
                            effects.retain(|(name, _)| !settled.contains(name));
                        }
                    }
                }
                _ => self.pending.push(pending),
            }
        }
        self.pending.retain(|pending| !matches!(&pending.change, Change::Names(effects) if effects.is_empty()));
        self.forget_unreachable();
    }

    pub(super) fn forget_names(&mut self) {
        for pending in self.pending.iter_mut().filter(|p| matches!(p.change, Change::Names(_))) {
            pending.forgotten = true;
        }
    }

    pub(super) fn read(&self, inode: Inode, buf: &mut [u8], offset: u64) -> usize {
        self.files[&inode].volatile.read(buf, offset)
    }

    /// Writes as much of `bytes` as there is room for; whether that was all of it.
    pub(super) fn write(&mut self, inode: Inode, bytes: &[u8], offset: u64) -> io::Result<()> {
        let fits = self.fitting(inode, offset, bytes.len() as u64);
        let file = self.file(inode);
        let before = file.volatile.len();
        if fits > 0 {
            file.volatile.write(offset, &bytes[..fits as usize]);
            let content = file.volatile.clone();
            for change in Change::of_write(inode, &content, offset, offset + fits, before) {
                self.push(change);
            }
        }
        if fits == bytes.len() as u64 { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }

    pub(super) fn allocate(&mut self, inode: Inode, len: u64) -> io::Result<()> {
        if self.fitting(inode, 0, len) < len {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = self.file(inode);
        let before = file.volatile.len();
        file.volatile.allocate(len);
        if len > before {
            self.push(Change::Length { inode, len });
        }
        Ok(())
    }

    /// How many of `len` bytes at `offset` there are blocks for.
    fn fitting(&self, inode: Inode, offset: u64, len: u64) -> u64 {
        let content = &self.files[&inode].volatile;
        let mut free = self.free_bytes() / BLOCK;
        if content.missing_blocks(offset, offset + len) <= free {
            return len;
        }
        let mut at = offset;
        while at < offset + len {
            let next = (at / BLOCK + 1) * BLOCK;
            let missing = content.missing_blocks(at, next.min(offset + len));
            if missing > free {
                break;
            }
            free -= missing;
            at = next;
        }
        at.min(offset + len) - offset
    }

    pub(super) fn sync_data(&mut self, inode: Inode) {
        let Some(file) = self.files.get_mut(&inode) else { return };
        let (synced, mut left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|pending| !pending.forgotten && pending.change.inode() == Some(inode));
        let mut units = BTreeSet::new();
        for Pending { change, .. } in synced {
            change.apply_to_content(&mut file.durable);
            if let Change::Unit { unit, .. } = change {
                units.insert(unit);
            }
        }
        // What was forgotten of these units is overwritten.
        left.retain(|pending| match &pending.change {
            Change::Unit { inode: of, unit, .. } => *of != inode || !units.contains(unit),
            _ => true,
        });
        self.pending = left;
        if !self.pending.iter().any(|pending| pending.change.inode() == Some(inode)) {
            // The same bytes, and the blocks that were allocated besides.
            file.durable = file.volatile.clone();
        }
    }

    pub(super) fn forget_data(&mut self, inode: Inode) {
        for pending in self.pending.iter_mut().filter(|p| p.change.inode() == Some(inode)) {
            pending.forgotten = true;
        }
    }

    pub(super) fn len(&self, inode: Inode) -> u64 {
        self.files[&inode].volatile.len()
    }

    pub(super) fn allocated_bytes(&self, inode: Inode) -> u64 {
        self.files[&inode].volatile.allocated_bytes()
    }

    /// Blocks of all files that have a name or an open handle; where they are freed late, also of those that have one durably.
    pub(super) fn used_bytes(&self) -> u64 {
        let durable = self.frees_late.then_some(&self.durable);
        let named =
            |inode| self.volatile.values().chain(durable.into_iter().flat_map(|it| it.values())).any(|it| *it == inode);
        self.files
            .iter()
            .filter(|(inode, file)| file.handles > 0 || named(**inode))
            .map(|(_, file)| file.volatile.allocated_bytes())
            .sum()
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.capacity.saturating_sub(self.used_bytes())
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(super) fn hold(&mut self, inode: Inode) {
        self.file(inode).handles += 1;
    }

    pub(super) fn release(&mut self, inode: Inode) {
        self.file(inode).handles -= 1;
        self.forget_unreachable();
    }

    /// Turns one bit over where it lies, whether or not it is durable.
    pub(super) fn flip(&mut self, name: &str, offset: u64, bit: u8) -> io::Result<()> {
        let inode = self.lookup(name)?;
        let file = self.file(inode);
        for content in [&mut file.durable, &mut file.volatile] {
            let mut byte = [0];
            if content.read(&mut byte, offset) == 1 {
                content.write(offset, &[byte[0] ^ (1 << bit)]);
            }
        }
        Ok(())
    }

    fn file(&mut self, inode: Inode) -> &mut FileState {
        self.files.get_mut(&inode).expect("a file lives as long as a name or a handle of it")
    }

    /// Drops files that no crash state can show and no handle can reach.
    fn forget_unreachable(&mut self) {
        let keep: Vec<_> =
            self.files.iter().filter(|(i, file)| file.handles > 0 || self.may_survive(**i)).map(|(i, _)| *i).collect();
        self.files.retain(|inode, _| keep.contains(inode));
        self.pending.retain(|pending| pending.change.inode().is_none_or(|inode| keep.contains(&inode)));
    }

    fn may_survive(&self, inode: Inode) -> bool {
        let by_change = |pending: &Pending| matches!(&pending.change, Change::Names(effects) if effects.iter().any(|(_, bound)| *bound == Some(inode)));
        self.durable.values().chain(self.volatile.values()).any(|named| *named == inode)
            || self.pending.iter().any(by_change)
    }

    /// Everything that a power loss now may leave.
    pub(super) fn crash_point(&self) -> CrashPoint {
        let files = self.files.iter().filter(|(inode, _)| self.may_survive(**inode));
        let contents: BTreeMap<_, _> = files.map(|(inode, file)| (*inode, file.durable.clone())).collect();
        let reachable = |pending: &&Pending| pending.change.inode().is_none_or(|inode| contents.contains_key(&inode));
        let changes = self.pending.iter().filter(reachable).cloned().collect();
        CrashPoint::new(self.durable.clone(), contents, changes)
    }

    /// What an orderly end leaves: everything, as if all had been synced.
    pub(super) fn image(&self) -> Image {
        Image::new(
            self.volatile.iter().map(|(name, inode)| (Arc::clone(name), self.files[inode].volatile.clone())).collect(),
        )
    }
}
