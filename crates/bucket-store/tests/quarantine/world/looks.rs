//! Owns what is compared: what a store serves with what the model says, and its figures with what is on the disk.

use std::collections::BTreeSet;

use bucket_store::ReadRequest;

use super::{Broken, World};
use crate::disk::{self, Away, Record, incarnation, key_of, number_of, storage_key};
use crate::model::{End, Served};
use crate::step::KEYS;

impl World<'_> {
    pub(super) fn look_at_records(&mut self, records: &[Record]) {
        let alive: Vec<_> = records.iter().filter(|record| !record.tombstoned && !record.away).collect();
        let twice = |one: &Record, other: &Record| {
            (one.key, one.incarnation, one.bucket < other.bucket) == (other.key, other.incarnation, true)
        };
        if alive.iter().any(|one| one.incarnation != 0 && alive.iter().any(|other| twice(one, other))) {
            self.met("one incarnation in two buckets that can be read");
        }
        // (bucket of the older, bucket of the newer)
        let place = |record: &Record| (record.write_number, record.bucket);
        let pairs: BTreeSet<_> = alive
            .iter()
            .flat_map(|older| alive.iter().map(move |newer| (older, newer)))
            .filter(|(older, newer)| older.key == newer.key && place(older) < place(newer))
            .map(|(older, newer)| (older.bucket, newer.bucket))
            .collect();
        if pairs.iter().any(|(older, newer)| older != newer && pairs.contains(&(*newer, *older))) {
            self.met("tangle of two buckets");
        }
        let puts = |key: u8| self.model.of(key).filter(|(_, put)| put.incarnation == 0);
        let older = |key: u8| puts(key).any(|(_, put)| put.known && put.end == Some(End::Replaced));
        if (0..KEYS).any(|key| older(key) && puts(key).any(|(_, put)| put.is_away())) {
            self.met("incarnation-0 twin away");
        }
    }

    pub(super) fn served(&self) -> Result<Vec<(u8, u32)>, Broken> {
        let (mut served, mut after) = (Vec::new(), None);
        loop {
            let page = self.store().list(after, 3).map_err(|error| format!("B1: {error:?}"))?;
            served.extend(page.objects.iter().map(|object| (key_of(&object.key), number_of(object.incarnation))));
            after = page.next;
            if after.is_none() {
                return Ok(served);
            }
        }
    }

    /// What is served may be, what must be served is, and the figures are right.
    pub(super) fn compare(&mut self) -> Result<(), Broken> {
        let served = self.served()?;
        self.say(|| format!("    serves {served:?}"));
        let mut keys = BTreeSet::new();
        for (key, number) in &served {
            if !keys.insert(*key) {
                return Err(format!("B6: k{key} is listed twice: {served:?}"));
            }
            let judged = self.model.allows(*key, *number, None);
            if judged.map_err(|why| format!("{why}: k{key}i{number} is listed"))? == Served::Older {
                self.met("an older one is served while the newer one is away");
            }
        }
        for key in 0..KEYS {
            if let Some(must) = self.model.must_serve(key).map(|put| put.incarnation)
                && !served.contains(&(key, must))
            {
                return Err(format!("B1: k{key}i{must} must be served: {served:?}"));
            }
        }
        self.store().audit().map_err(|why| format!("B5: {why}"))?;
        let figures = self.store().figures();
        let found = (figures.live_objects, figures.quarantined_buckets, figures.read_only);
        if found != (served.len() as u64, self.store().quarantined().len() as u64, false) {
            return Err(format!("B5: {figures:?}, and {} are served", served.len()));
        }
        if figures.gc_rounds_open == 0 && figures.pending_bytes == 0 {
            // Of a file that cannot be opened nobody can tell how much it takes.
            let all = self.disk.image();
            let closed = self.away.iter().filter(|(_, away)| **away == Away::OpenData);
            let least = closed.fold(all.clone(), |image, (id, _)| image.without(&id.data_name()));
            let bytes = disk::data_bytes(&least)..=disk::data_bytes(&all);
            if !bytes.contains(&figures.physical_bytes) {
                return Err(format!("B5: {bytes:?} bytes are used: {figures:?}"));
            }
        }
        Ok(())
    }

    pub(super) fn read_all(&mut self) -> Result<(), Broken> {
        for (key, number) in self.served()? {
            let name = storage_key(key);
            match self.store().read(&ReadRequest::whole(&name).of(incarnation(number))) {
                Ok(bytes) => {
                    let judged = self.model.allows(key, number, Some(&bytes));
                    judged.map_err(|why| format!("{why}: k{key}i{number} is read"))?;
                    if let Some(must) = self.model.must_serve(key)
                        && *must.value != *bytes
                    {
                        return Err(format!("B1: k{key}i{number} is read, and has other bytes than must be served"));
                    }
                }
                Err(error) => {
                    if !self.model.of(key).any(|(_, put)| put.incarnation == number && put.damaged) {
                        return Err(format!("B1: k{key}i{number} is listed and cannot be read: {error:?}"));
                    }
                }
            }
        }
        self.drain();
        Ok(())
    }
}
