//! Owns one change that is not durable yet, and what it does to an image that has it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::content::{Content, Page, UNIT};

/// A file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Inode(pub(super) u64);

pub(super) type Names = BTreeMap<Arc<str>, Inode>;

/// The smallest thing that survives a power loss, or does not, whatever happens to the others.
#[derive(Clone)]
pub(super) enum Change {
    /// One unit of a file as it was after a write. Where it lies past the end it makes the file longer, as a file system that
    /// allocates late does.
    Unit { inode: Inode, unit: u64, page: Arc<Page>, end: u64 },
    /// The length after a write, without the bytes: what is not there reads as zeros.
    Length { inode: Inode, len: u64 },
    /// One change of the directory: each name and what has it afterwards.
    Names(Vec<(Arc<str>, Option<Inode>)>),
}

impl Change {
    /// The changes that a write of `[offset, end)` is made of; `content` is the file after it, `before` its length before.
    pub(super) fn of_write(inode: Inode, content: &Content, offset: u64, end: u64, before: u64) -> Vec<Self> {
        let mut changes: Vec<_> = (offset / UNIT..end.div_ceil(UNIT))
            .map(|unit| {
                let end = ((unit + 1) * UNIT).min(content.len());
                Self::Unit { inode, unit, page: content.page_of_unit(unit), end }
            })
            .collect();
        if end > before {
            changes.push(Self::Length { inode, len: end });
        }
        changes
    }

    pub(super) fn inode(&self) -> Option<Inode> {
        match self {
            Self::Unit { inode, .. } | Self::Length { inode, .. } => Some(*inode),
            Self::Names(_) => None,
        }
    }

    pub(super) fn apply_to_content(&self, content: &mut Content) {
        match self {
            Self::Unit { unit, page, end, .. } => content.write_unit(*unit, page, *end),
            Self::Length { len, .. } => content.reach(*len),
            Self::Names(_) => {}
        }
    }

    pub(super) fn apply_to_names(&self, names: &mut Names) {
        let Self::Names(effects) = self else { return };
        for (name, inode) in effects {
            match inode {
                Some(inode) => {
                    // No file ever has two names, whichever of the earlier changes were lost.
                    names.retain(|_, other| other != inode);
                    names.insert(Arc::clone(name), *inode);
                }
                None => {
                    names.remove(name);
                }
            }
        }
    }
}
