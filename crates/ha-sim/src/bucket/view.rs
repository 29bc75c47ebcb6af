//! Owns what a store shows when it is open, and whether memory and disk agree. It asks the store through its public calls, and reads
//! the tables with the product's decoders.

use std::collections::{BTreeMap, BTreeSet};

use bucket_store::format::names::{BucketId, NameKind};
use bucket_store::format::table::{RecordLayout, Table};
use bucket_store::vfs::Vfs;
use bucket_store::vfs::sim::Image;
use bucket_store::{Config, ReadRequest, Store};

use super::promise::{Broken, Object};

/// What is live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Each object and the bucket that it is in.
    pub live: BTreeMap<Object, BucketId>,
    /// Buckets that are not served, and why.
    pub quarantined: Vec<(BucketId, String)>,
}

impl View {
    /// Walks all objects and reads each: B1.
    pub fn of(store: &Store, broken: &mut Vec<Broken>) -> Self {
        let (mut view, mut keys, mut after) = (Self::default(), BTreeSet::new(), None);
        loop {
            let page = match store.list(after, 100) {
                Ok(page) => page,
                Err(error) => {
                    broken.push(Broken::new("B1", format!("the list fails: {error}")));
                    return view;
                }
            };
            for info in page.objects {
                let Some(object) = Object::of(&info.key, info.incarnation) else {
                    broken.push(Broken::resurrected("B1", format!("{} was never written", info.key.escape_ascii())));
                    continue;
                };
                if !keys.insert(object.key) {
                    broken.push(Broken::new("B1", format!("k{} is listed twice", object.key)));
                }
                match store.read(&ReadRequest::whole(&info.key).of(info.incarnation)) {
                    Ok(bytes) if bytes == object.value() => {}
                    Ok(_) => broken.push(Broken::lost("B1", format!("{object:?} has other bytes"))),
                    Err(error) => broken.push(Broken::lost("B1", format!("{object:?} cannot be read: {error}"))),
                }
                view.live.insert(object, info.bucket);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        view.quarantined = store.quarantined().map(|(id, reason)| (id, reason.to_owned())).collect();
        view
    }

    /// That no bucket is set apart that nobody has `spoilt`: B1.
    pub fn check_quarantine(&self, spoilt: bool, broken: &mut Vec<Broken>) {
        if let Some((bucket, reason)) = self.quarantined.first().filter(|_| !spoilt) {
            broken.push(Broken::new("B1", format!("bucket {bucket} is in quarantine: {reason}")));
        }
    }
}

/// Whether the directory of a store that is quiet is tidy, and its buckets within the limits: B5, B6, V5.
pub fn check_directory(store: &Store, vfs: &dyn Vfs, image: &Image, broken: &mut Vec<Broken>) {
    let mut live: BTreeMap<_, BucketId> = BTreeMap::new();
    let mut blocks = 0;
    for name in image.names() {
        match NameKind::of(name) {
            NameKind::Data(id) => {
                blocks += vfs.open(name).and_then(|file| file.allocated_bytes()).unwrap_or(0);
                if image.bytes(&id.table_name()).is_none() {
                    broken.push(Broken::new("V5", format!("{name} is left without a table")));
                }
            }
            NameKind::Table(id) => {
                let data = image.bytes(&id.data_name()).map_or(0, |bytes| bytes.len() as u64);
                let bytes = image.bytes(name).unwrap_or_default();
                let Ok(table) = Table::decode(&bytes, id, data) else {
                    // What is set apart was judged before.
                    if store.quarantined().any(|(set_apart, _)| set_apart == id) {
                        continue;
                    }
                    broken.push(Broken::new("B1", format!("{name} does not decode")));
                    continue;
                };
                let Config { bucket_keys, bucket_size_bytes, .. } = *store.config();
                let is_ours = table.layout == RecordLayout::Checksummed;
                if is_ours && (table.slots.len() > bucket_keys || table.data_len > bucket_size_bytes) {
                    let seen = format!("{name} has {} records of {} bytes", table.slots.len(), table.data_len);
                    broken.push(Broken::new("B5", seen));
                }
                for slot in table.slots.iter().filter(|slot| slot.tombstone.is_none()) {
                    // What Mooncake wrote has no incarnation: there the highest bucket counts.
                    let named = Object::of(&slot.key, slot.incarnation).filter(|object| object.version > 0);
                    if let Some(object) = named
                        && let Some(other) = live.insert(object, id)
                    {
                        broken.push(Broken::new("B6", format!("{object:?} is live in {other} and in {id}")));
                    }
                }
            }
            NameKind::GcIntent | NameKind::Temporary | NameKind::Strange => {
                broken.push(Broken::new("V5", format!("{name} is left after recovery")));
            }
            NameKind::Marker | NameKind::IdHighWater | NameKind::Reserve | NameKind::Graves => {}
        }
    }
    let physical = store.figures().physical_bytes;
    if physical != blocks {
        broken.push(Broken::new("B5", format!("{physical} bytes are accounted, {blocks} are used")));
    }
}
