//! Owns a simulated directory in which another task may run before and after every operation.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bucket_store::vfs::sim::SimDir;
use bucket_store::vfs::{DirEntry, Space, Vfs, VfsFile};

fn switch() {
    shuttle::thread::sleep(Duration::ZERO);
}

fn step<T>(operation: impl FnOnce() -> T) -> T {
    switch();
    let result = operation();
    switch();
    result
}

#[derive(Debug)]
pub(crate) struct SteppedDir(pub(crate) SimDir);

#[derive(Debug)]
struct SteppedFile(Arc<dyn VfsFile>);

impl SteppedFile {
    fn of(file: Arc<dyn VfsFile>) -> Arc<dyn VfsFile> {
        Arc::new(Self(file))
    }
}

impl Vfs for SteppedDir {
    fn create(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        step(|| self.0.create(name)).map(SteppedFile::of)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        step(|| self.0.open(name)).map(SteppedFile::of)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        step(|| self.0.rename(from, to))
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        step(|| self.0.unlink(name))
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.0.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        step(|| self.0.sync_dir())
    }

    fn space(&self) -> io::Result<Space> {
        self.0.space()
    }
}

impl VfsFile for SteppedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        step(|| self.0.read_at(buf, offset))
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(buf, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        step(|| self.0.sync_data())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.0.allocated_bytes()
    }
}
