//! Owns bucket directories for tests, written file by file without a store, and what is asked about them. It tests nothing itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bucket_store::format::intent::Round;
use bucket_store::format::names::BucketId;
use bucket_store::format::test_kit::{TestRecord, put_bucket, put_identity, put_intents, put_mooncake_bucket};
use bucket_store::vfs::Vfs;
use bucket_store::vfs::sim::SimDisk;

use crate::kit::{Ran, run};

/// A bucket directory.
pub(crate) struct Buckets {
    pub(crate) temp: tempfile::TempDir,
}

impl Buckets {
    pub(crate) fn empty() -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("buckets")).unwrap();
        Self { temp }
    }

    /// Bucket 1: `a` superseded, `b` deleted. Bucket 2: `a` and `c` of the default tenant live. Bucket 3: half dead, and a key of another
    /// tenant.
    pub(crate) fn usual() -> Self {
        let place = Self::empty();
        place.writes(put_identity);
        place.put(1, &[TestRecord::live(b"default\0a", 1, 100), TestRecord::dead(b"default\0b", 2, 200)]);
        place.put(2, &[TestRecord::live(b"default\0a", 3, 300), TestRecord::live(b"default\0c/1", 4, 70_000)]);
        place.put(3, &[TestRecord::live(b"other\0c\xff", 5, 50_000), TestRecord::dead(b"default\0c/2", 6, 50_000)]);
        place
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.temp.path().join("buckets")
    }

    /// Writes files without a lock on the directory: a child that another test starts meanwhile would inherit it for a moment.
    pub(crate) fn writes(&self, write: impl FnOnce(&dyn Vfs) -> std::io::Result<()>) {
        let dir = SimDisk::new().mount().unwrap();
        write(&dir).unwrap();
        for entry in dir.list().unwrap() {
            let file = dir.open(&entry.name).unwrap();
            let mut bytes = vec![0; file.len().unwrap().try_into().unwrap()];
            assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
            std::fs::write(self.path().join(&entry.name), bytes).unwrap();
        }
    }

    pub(crate) fn put(&self, id: u64, records: &[TestRecord]) {
        self.writes(|dir| put_bucket(dir, id, records));
    }

    /// Buckets 3 and 7 of Mooncake's, and no marker: `a` is in both.
    pub(crate) fn mooncakes() -> Self {
        let place = Self::empty();
        place.writes(|dir| put_mooncake_bucket(dir, 3, &[(b"t\0a", b"old"), (b"t\0b", b"value")]));
        place.writes(|dir| put_mooncake_bucket(dir, 7, &[(b"t\0a", b"newer")]));
        place
    }

    pub(crate) fn intents(&self, rounds: &[Round]) {
        self.writes(|dir| put_intents(dir, rounds));
    }

    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(self.path().join(name)).unwrap();
        change(&mut bytes);
        std::fs::write(self.path().join(name), bytes).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.path().join(name)).unwrap();
    }

    /// Every name, and the bytes of what is a file.
    pub(crate) fn snapshot(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        let entries = std::fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap());
        entries.map(|e| (e.file_name().to_string_lossy().into_owned(), std::fs::read(e.path()).ok())).collect()
    }

    /// Runs a command that must change nothing.
    pub(crate) fn looks(&self, what: &str, more: &[&str]) -> Ran {
        let before = self.snapshot();
        let ran = self.does(what, more);
        assert_eq!(self.snapshot(), before, "{what} {more:?} changes nothing");
        ran
    }

    pub(crate) fn does(&self, what: &str, more: &[&str]) -> Ran {
        let path = self.path().display().to_string();
        run(&[&["bucket", what, &path], more].concat())
    }

    /// `kind file field` of each fault, and that text and JSON agree on them.
    pub(crate) fn faults(&self) -> Vec<String> {
        let ran = self.looks("fsck", &["--json"]);
        let report = ran.json();
        let listed = report["faults"]["listed"].as_array().unwrap();
        assert_eq!(ran.code, i32::from(!listed.is_empty()), "{report}");
        let text = self.looks("fsck", &[]);
        assert_eq!((text.code, text.out.matches("FAULT ").count()), (ran.code, listed.len()), "{text:?}");
        let field = |fault: &serde_json::Value, name: &str| fault[name].as_str().unwrap().to_owned();
        for fault in listed {
            for name in ["expected", "found", "remedy"] {
                assert!(!field(fault, name).is_empty(), "{name}: {fault}");
                assert!(text.out.contains(&field(fault, name)), "{name}: {fault}");
            }
        }
        listed.iter().map(|f| [field(f, "kind"), field(f, "file"), field(f, "field")].join(" ")).collect()
    }
}

pub(crate) fn ids(ids: &[u64]) -> Vec<BucketId> {
    ids.iter().copied().map(BucketId).collect()
}

pub(crate) fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
}
