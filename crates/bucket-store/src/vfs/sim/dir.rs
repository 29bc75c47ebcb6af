//! Owns the simulated disk as the store sees it: a directory and its files. It decides nothing: state and faults do.

use std::fmt;
use std::io::{self, IoSlice};
use std::sync::Arc;

use super::change::Inode;
use super::disk::Shared;
use super::fault::{EMFILE, Fault, errno};
use super::op::{Op, OpKind};
use super::state::State;
use crate::vfs::{DirEntry, EntryKind, Space, Vfs, VfsFile, check_name};

/// The simulated disk, mounted. There is one at a time; dropping it unmounts the disk and changes nothing on it.
pub struct SimDir {
    shared: Arc<Shared>,
    life: u64,
}

impl SimDir {
    pub(super) fn new(shared: Arc<Shared>, life: u64) -> Self {
        Self { shared, life }
    }

    fn run<T>(&self, op: Op, does: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.shared.run(self.life, op, |state, fault| match fault {
            Some(Fault::Errno(number) | Fault::Short { errno: number, .. }) => Err(errno(number)),
            _ => does(state),
        })
    }

    fn file(&self, inode: Inode, name: &str, writable: bool) -> Arc<dyn VfsFile> {
        Arc::new(SimFile { shared: Arc::clone(&self.shared), life: self.life, inode, name: name.into(), writable })
    }
}

impl Drop for SimDir {
    fn drop(&mut self) {
        self.shared.unmount(self.life);
    }
}

impl fmt::Debug for SimDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDir").field("life", &self.life).finish()
    }
}

fn op(kind: OpKind, name: &str) -> Op {
    Op { number: 0, kind, name: name.into(), to: "".into(), offset: 0, bytes: 0 }
}

impl Vfs for SimDir {
    fn create(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        check_name(name)?;
        let inode = self.run(op(OpKind::Create, name), |state| {
            let inode = state.create(name)?;
            state.hold(inode);
            Ok(inode)
        })?;
        Ok(self.file(inode, name, true))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        check_name(name)?;
        let inode = self.run(op(OpKind::Open, name), |state| {
            let inode = state.lookup(name)?;
            state.hold(inode);
            Ok(inode)
        })?;
        Ok(self.file(inode, name, false))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        self.run(Op { to: to.into(), ..op(OpKind::Rename, from) }, |state| state.rename(from, to))
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        self.run(op(OpKind::Unlink, name), |state| state.unlink(name))
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.run(op(OpKind::List, ""), |state| {
            let entry = |name: &Arc<str>| DirEntry { name: name.to_string(), kind: EntryKind::File };
            Ok(state.names().map(entry).collect())
        })
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.shared.run(self.life, op(OpKind::SyncDir, ""), |state, fault| match fault {
            None => {
                state.sync_dir();
                Ok(())
            }
            // There was no descriptor to sync it through.
            Some(Fault::Errno(EMFILE)) => Err(errno(EMFILE)),
            Some(Fault::Errno(number) | Fault::Short { errno: number, .. }) => {
                state.forget_names();
                Err(errno(number))
            }
            Some(Fault::Lie | Fault::Slow(_)) => Ok(()),
        })
    }

    fn space(&self) -> io::Result<Space> {
        self.run(op(OpKind::Space, ""), |state| {
            Ok(Space { free_bytes: state.free_bytes(), total_bytes: state.capacity() })
        })
    }
}

struct SimFile {
    shared: Arc<Shared>,
    life: u64,
    inode: Inode,
    name: Arc<str>,
    writable: bool,
}

impl SimFile {
    fn op(&self, kind: OpKind, offset: u64, bytes: u64) -> Op {
        Op { number: 0, kind, name: Arc::clone(&self.name), to: "".into(), offset, bytes }
    }

    fn run<T>(&self, op: Op, does: impl FnOnce(&mut State, Option<Fault>) -> io::Result<T>) -> io::Result<T> {
        self.shared.run(self.life, op, does)
    }

    fn checked(&self, offset: u64, len: u64) -> io::Result<()> {
        if !self.writable {
            return Err(errno(EBADF));
        }
        // What no file system holds must not be tried in memory either.
        if offset.checked_add(len).is_none_or(|end| end > MOST) { Err(errno(EFBIG)) } else { Ok(()) }
    }
}

const EBADF: i32 = 9;
const EFBIG: i32 = 27;
const MOST: u64 = 1 << 40;

impl VfsFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.run(self.op(OpKind::Read, offset, buf.len() as u64), |state, fault| match fault {
            Some(Fault::Errno(number) | Fault::Short { errno: number, .. }) => Err(errno(number)),
            _ => Ok(state.read(self.inode, buf, offset)),
        })
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.checked(offset, buf.len() as u64)?;
        self.run(self.op(OpKind::Write, offset, buf.len() as u64), |state, fault| match fault {
            Some(Fault::Errno(number)) => Err(errno(number)),
            Some(Fault::Short { written, errno: number }) => {
                let written = buf.len().min(written as usize);
                state.write(self.inode, &buf[..written], offset)?;
                Err(errno(number))
            }
            Some(Fault::Lie | Fault::Slow(_)) | None => state.write(self.inode, buf, offset),
        })
    }

    fn write_all_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let whole: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        self.write_all_at(&whole, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.run(self.op(OpKind::SyncData, 0, 0), |state, fault| match fault {
            None => {
                state.sync_data(self.inode);
                Ok(())
            }
            Some(Fault::Errno(number) | Fault::Short { errno: number, .. }) => {
                state.forget_data(self.inode);
                Err(errno(number))
            }
            Some(Fault::Lie | Fault::Slow(_)) => Ok(()),
        })
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.checked(0, len)?;
        self.run(self.op(OpKind::Allocate, 0, len), |state, fault| match fault {
            Some(Fault::Errno(number) | Fault::Short { errno: number, .. }) => Err(errno(number)),
            _ => state.allocate(self.inode, len),
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.run(self.op(OpKind::Len, 0, 0), |state, fault| match fault {
            Some(Fault::Errno(number)) => Err(errno(number)),
            _ => Ok(state.len(self.inode)),
        })
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.run(self.op(OpKind::AllocatedBytes, 0, 0), |state, fault| match fault {
            Some(Fault::Errno(number)) => Err(errno(number)),
            _ => Ok(state.allocated_bytes(self.inode)),
        })
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.shared.release(self.inode);
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFile").field("name", &self.name).finish()
    }
}
