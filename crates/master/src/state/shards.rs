//! Owns the map of objects and running puts, cut into shards, each under its own lock. A section under a shard's lock is a
//! closure: nothing can be awaited in it.

use std::hash::{BuildHasher, Hasher};

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::Mutex;

use crate::locks;
use crate::state::{Arena, Object, RunningPut, TenantIx};

/// Enough that a table of a shard never grows by much of the whole, at once or in waiting time.
const SHARDS: usize = 256;

/// Where a key lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    shard: u32,
    hash: u32,
}

impl Place {
    /// What the tables see: they place by the lowest bits and tell apart by the highest seven.
    fn table_hash(self) -> u64 {
        table_hash(self.hash)
    }
}

fn table_hash(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// One object of the table. Its hash stands beside it, so that growing the table touches no object.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    at: u32,
}

/// A part of the map.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    table: HashTable<Slot>,
    objects: Arena<Object>,
    puts: HashTable<Box<RunningPut>>,
}

/// The whole map.
#[derive(Debug)]
pub(crate) struct Shards {
    shards: Box<[Mutex<Shard>]>,
    hasher: DefaultHashBuilder,
}

impl Default for Shards {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hasher: DefaultHashBuilder::default() }
    }
}

impl Shards {
    pub(crate) fn place(&self, tenant: TenantIx, key: &[u8]) -> Place {
        // Tenant first, of fixed width: no two pairs give the same bytes (M6).
        let mut state = self.hasher.build_hasher();
        state.write_u32(tenant.get());
        state.write(key);
        let hash = state.finish();
        Place { shard: (hash >> 40) as u32 % SHARDS as u32, hash: hash as u32 }
    }

    /// One critical section.
    pub(crate) fn with<R>(&self, place: Place, section: impl FnOnce(&mut Shard) -> R) -> R {
        self.with_shard(place.shard as usize, section)
    }

    /// The same, by number.
    pub(crate) fn with_shard<R>(&self, shard: usize, section: impl FnOnce(&mut Shard) -> R) -> R {
        let _held = locks::hold_shard();
        section(&mut self.shards[shard].lock())
    }

    /// The shard itself, where nobody else can reach it.
    pub(crate) fn get_mut(&mut self, place: Place) -> &mut Shard {
        self.shards[place.shard as usize].get_mut()
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Shard> {
        self.shards.iter_mut().map(Mutex::get_mut)
    }

    pub(crate) const fn count(&self) -> usize {
        SHARDS
    }
}

impl Shard {
    pub(crate) fn object(&self, place: Place, tenant: TenantIx, key: &[u8]) -> Option<&Object> {
        Some(self.objects.get(self.find(place, |o| o.is(tenant, key))?.at))
    }

    pub(crate) fn object_mut(&mut self, place: Place, tenant: TenantIx, key: &[u8]) -> Option<&mut Object> {
        let slot = self.find(place, |o| o.is(tenant, key))?;
        Some(self.objects.get_mut(slot.at))
    }

    fn find(&self, place: Place, which: impl Fn(&Object) -> bool) -> Option<Slot> {
        let same = |slot: &Slot| slot.hash == place.hash && which(self.objects.get(slot.at));
        self.table.find(place.table_hash(), same).copied()
    }

    /// Puts the object under its key, in place of what is there.
    pub(crate) fn put_object(&mut self, place: Place, object: Object) {
        let Self { table, objects, .. } = self;
        let same = |slot: &Slot| slot.hash == place.hash && objects.get(slot.at).is(object.tenant, &object.key);
        match table.entry(place.table_hash(), same, |slot| table_hash(slot.hash)) {
            Entry::Occupied(there) => *objects.get_mut(there.get().at) = object,
            Entry::Vacant(free) => {
                free.insert(Slot { hash: place.hash, at: objects.add(object) });
            }
        }
    }

    /// Takes the object out if `which` says so.
    pub(crate) fn take_object_if(&mut self, place: Place, which: impl Fn(&Object) -> bool) -> Option<Object> {
        let Self { table, objects, .. } = self;
        let same = |slot: &Slot| slot.hash == place.hash && which(objects.get(slot.at));
        let (slot, _) = table.find_entry(place.table_hash(), same).ok()?.remove();
        Some(objects.remove(slot.at))
    }

    pub(crate) fn count(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.iter()
    }

    pub(crate) fn retain_objects(&mut self, mut keep: impl FnMut(&mut Object) -> bool) {
        let Self { table, objects, .. } = self;
        table.retain(|slot| {
            let kept = keep(objects.get_mut(slot.at));
            if !kept {
                drop(objects.remove(slot.at));
            }
            kept
        });
    }

    pub(crate) fn put(&self, place: Place, tenant: TenantIx, key: &[u8]) -> Option<&RunningPut> {
        self.puts.find(place.table_hash(), |p| p.is(tenant, key)).map(|p| &**p)
    }

    /// Adds a put under a key that has none.
    pub(crate) fn add_put(&mut self, put: Box<RunningPut>) {
        self.puts.insert_unique(put.place.table_hash(), put, |p| p.place.table_hash());
    }

    /// Takes the put out if `which` says so.
    pub(crate) fn take_put_if(&mut self, place: Place, which: impl Fn(&RunningPut) -> bool) -> Option<Box<RunningPut>> {
        Some(self.puts.find_entry(place.table_hash(), |p| which(p)).ok()?.remove().0)
    }
}

#[cfg(test)]
mod tests {
    use ha_types::{ObjectIncarnation, Seq, TenantId};

    use super::*;
    use crate::ClientId;
    use crate::state::{Replica, Replicas, SegmentIx, ServingPart, Tenants};

    fn object(tenant: TenantIx, key: &[u8], size: u64) -> Object {
        Object {
            key: key.into(),
            tenant,
            incarnation: ObjectIncarnation::LEGACY,
            client: ClientId::new(1),
            size,
            replicas: Replicas::One(Replica { segment: SegmentIx::default(), address: 0 }),
            seq: Seq::ZERO,
            removed: false,
            serving: ServingPart::default(),
        }
    }

    /// Invariant M6: even where all hashes collide.
    #[test]
    fn m6_tenants_and_keys_of_one_hash_are_distinct() {
        let mut tenants = Tenants::default();
        let mut tenant = |name: &str| tenants.intern(&TenantId::new(name).unwrap()).unwrap();
        let (a, b) = (tenant("a"), tenant("b"));
        let place = Place { shard: 0, hash: 7 };
        let mut shard = Shard::default();
        let all = [(a, &b"k"[..]), (b, b"k"), (a, b"k2"), (b, b"k2"), (a, b"k\0")];
        for (size, (tenant, key)) in all.iter().enumerate() {
            shard.put_object(place, object(*tenant, key, size as u64));
        }
        for (size, (tenant, key)) in all.iter().enumerate() {
            assert_eq!(shard.object(place, *tenant, key).unwrap().size, size as u64);
        }
        shard.put_object(place, object(b, b"k", 100));
        assert_eq!(shard.count(), all.len());
        assert!(shard.take_object_if(place, |o| o.is(b, b"k2")).is_some_and(|o| o.size == 3));
        assert!(shard.take_object_if(place, |o| o.is(b, b"k2")).is_none());
        shard.retain_objects(|o| o.tenant == a);
        let left: Vec<u64> = shard.objects().map(|o| o.size).collect();
        assert_eq!(left, [0, 2, 4]);
        assert!(shard.object(place, b, b"k").is_none());
    }
}
