//! Owns the operations of a disk as an outsider sees them: numbered, with their names.

use std::fmt;
use std::sync::Arc;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpKind {
    /// [`Vfs::create`](crate::vfs::Vfs::create)
    Create,
    /// [`Vfs::open`](crate::vfs::Vfs::open)
    Open,
    /// [`Vfs::rename`](crate::vfs::Vfs::rename)
    Rename,
    /// [`Vfs::unlink`](crate::vfs::Vfs::unlink)
    Unlink,
    /// [`Vfs::list`](crate::vfs::Vfs::list)
    List,
    /// [`Vfs::sync_dir`](crate::vfs::Vfs::sync_dir)
    SyncDir,
    /// [`Vfs::space`](crate::vfs::Vfs::space)
    Space,
    /// [`VfsFile::read_at`](crate::vfs::VfsFile::read_at)
    Read,
    /// [`VfsFile::write_all_at`](crate::vfs::VfsFile::write_all_at)
    Write,
    /// [`VfsFile::sync_data`](crate::vfs::VfsFile::sync_data)
    SyncData,
    /// [`VfsFile::allocate`](crate::vfs::VfsFile::allocate)
    Allocate,
    /// [`VfsFile::len`](crate::vfs::VfsFile::len)
    Len,
    /// [`VfsFile::allocated_bytes`](crate::vfs::VfsFile::allocated_bytes)
    AllocatedBytes,
}

impl OpKind {
    /// Whether it can change what a power loss leaves.
    #[must_use]
    pub fn changes(self) -> bool {
        use OpKind::{Allocate, Create, Rename, SyncData, SyncDir, Unlink, Write};
        matches!(self, Create | Rename | Unlink | SyncDir | Write | SyncData | Allocate)
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The first of a disk is 1.
    pub number: u64,
    /// What it does.
    pub kind: OpKind,
    /// The file's name, of an open file the one it was opened by; empty for the directory.
    pub name: Arc<str>,
    /// The second name of a rename; else empty.
    pub to: Arc<str>,
    /// Where a read or a write begins.
    pub offset: u64,
    /// How many bytes are read, written or allocated.
    pub bytes: u64,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {}", self.number, self.kind, self.name)?;
        if !self.to.is_empty() {
            write!(f, " -> {}", self.to)?;
        }
        if self.bytes > 0 {
            write!(f, " [{}..+{}]", self.offset, self.bytes)?;
        }
        Ok(())
    }
}
