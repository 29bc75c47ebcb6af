//! Owns where records lie in a directory of buckets, as its tables say, and plain files over them.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

use bucket_store::format::names::BucketId;
use bucket_store::format::table::Table;

/// One live record's bytes in its data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) bucket: BucketId,
    /// Where the record begins, and how long it is.
    pub(crate) record: (u64, usize),
    /// The same of its value.
    pub(crate) value: (u64, usize),
}

/// Live records by key, and the tables in id order.
pub(crate) fn places(directory: &Path) -> (HashMap<Vec<u8>, Place>, BTreeMap<BucketId, Table>) {
    let (mut places, mut tables) = (HashMap::new(), BTreeMap::new());
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "meta") {
            continue;
        }
        let id = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()).map(BucketId).expect("a bucket id");
        let data_len = std::fs::metadata(path.with_extension("bucket")).expect("a data file").len();
        let table = Table::decode(&std::fs::read(&path).expect("a table"), id, data_len).expect("a table of ours");
        for slot in table.slots.iter().filter(|slot| slot.tombstone.is_none()) {
            let value = slot.value_offset(table.layout);
            let record_len = (value - slot.offset) as usize + slot.value_len as usize;
            let place =
                Place { bucket: id, record: (slot.offset, record_len), value: (value, slot.value_len as usize) };
            places.insert(slot.key.to_vec(), place);
        }
        tables.insert(id, table);
    }
    (places, tables)
}

/// The data files of a directory, open for reading.
pub(crate) fn data_files(directory: &Path) -> BTreeMap<BucketId, File> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "bucket") {
            let id = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()).map(BucketId).expect("a bucket id");
            files.insert(id, File::open(&path).expect("a data file"));
        }
    }
    files
}

/// Takes the files out of the page cache.
pub(crate) fn make_cold(files: &BTreeMap<BucketId, File>) {
    for file in files.values() {
        file.sync_data().expect("a sync");
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).expect("advice is taken");
    }
}
