//! Owns an example: a disk of one's own under the store, here one that counts what another one does.
//! Run it with `cargo run -p bucket-store --example own_disk`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bucket_store::format::marker::Marker;
use bucket_store::vfs::{Access, DirEntry, DiskDir, Space, Vfs, VfsFile};
use bucket_store::{DeleteRequest, Store, WriteObject};
use ha_types::{ClusterId, ObjectIncarnation, SegmentId, SystemClock};

#[derive(Debug, Default)]
struct Counters {
    written_bytes: AtomicU64,
    syncs: AtomicU64,
}

/// Whoever implements `Vfs` keeps what its documentation says of power losses; this one leaves that to what is below it.
#[derive(Debug)]
struct Counting(DiskDir, Arc<Counters>);

#[derive(Debug)]
struct CountingFile(Arc<dyn VfsFile>, Arc<Counters>);

impl Counting {
    fn counted(&self, file: Arc<dyn VfsFile>) -> Arc<dyn VfsFile> {
        Arc::new(CountingFile(file, Arc::clone(&self.1)))
    }
}

impl Vfs for Counting {
    fn create(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        self.0.create(name).map(|file| self.counted(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        self.0.open(name).map(|file| self.counted(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        self.0.unlink(name)
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.0.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.1.syncs.fetch_add(1, Relaxed);
        self.0.sync_dir()
    }

    fn space(&self) -> io::Result<Space> {
        self.0.space()
    }
}

impl VfsFile for CountingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.1.written_bytes.fetch_add(buf.len() as u64, Relaxed);
        self.0.write_all_at(buf, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.1.syncs.fetch_add(1, Relaxed);
        self.0.sync_data()
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

fn main() -> anyhow::Result<()> {
    let path = tempfile::tempdir()?;
    let counters = Arc::new(Counters::default());
    let disk = Counting(DiskDir::open(path.path(), Access::Store)?, Arc::clone(&counters));
    let identity = Marker { segment: SegmentId::new("ssd-1")?, cluster: ClusterId::new("demo")? };
    let store = Store::builder(identity, Arc::new(SystemClock::new())).open(Arc::new(disk))?;

    let keys: Vec<_> = (1..=100_u64).map(|n| format!("demo\0{n}").into_bytes()).collect();
    let incarnation = |n: usize| ObjectIncarnation::without_log(1, n as u64 + 1).expect("counters begin at 1");
    let object = |(n, key)| WriteObject { key, incarnation: incarnation(n), value: &[1; 10_000], placement: None };
    let objects: Vec<_> = keys.iter().map(Vec::as_slice).enumerate().map(object).collect();
    let requests: Vec<_> =
        objects.iter().map(|it| DeleteRequest { key: it.key, incarnation: it.incarnation }).collect();

    let say = |what: &str| {
        let (bytes, syncs) = (counters.written_bytes.swap(0, Relaxed), counters.syncs.swap(0, Relaxed));
        println!("{what}: {bytes} bytes written, {syncs} syncs");
    };
    say("opening an empty directory");
    store.write(&objects)?;
    say("writing 100 objects of 10,000 bytes");
    store.delete(&requests)?;
    say("deleting them, one table for all");
    Ok(())
}
