//! Owns maintenance, GC and evictions of a history, and what the store tells of them.

use bucket_store::Event;
use bucket_store::gc::GcStep;
use bucket_store::vfs::sim::Image;

use super::{Broken, HIGH, LOW, SMALL, World};
use crate::disk::{self, Record};
use crate::model::{End, PutId};

impl World<'_> {
    pub(super) fn publish(&mut self) -> Result<bool, Broken> {
        match self.store().publish_pending() {
            Ok(_) => {
                self.model.published();
                Ok(true)
            }
            Err(_) if !self.disk.is_powered() => Ok(false),
            Err(error) => Err(format!("B1: nothing is wrong, and a publish fails: {error:?}")),
        }
    }

    pub(super) fn maintain(&mut self) -> Result<(), Broken> {
        if !self.publish()? {
            return Ok(());
        }
        for _ in 0..100 {
            match self.store().bury_superseded(2) {
                Ok(0) => {
                    self.model.buried();
                    return Ok(());
                }
                Ok(_) => {}
                Err(_) if !self.disk.is_powered() => return Ok(()),
                Err(error) => return Err(format!("B1: nothing is wrong, and a burial fails: {error:?}")),
            }
        }
        Err("V4: burials never end".into())
    }

    /// So many steps, or until there is nothing to do.
    pub(super) fn gc(&mut self, steps: Option<u16>, refuse: u8) -> Result<(), Broken> {
        *self.told.refuse.lock().unwrap() = refuse;
        let mut waits = 0;
        for _ in 0..steps.map_or(4000, usize::from) {
            if !self.disk.is_powered() {
                return Ok(());
            }
            let step = self.store().gc_step();
            self.drain();
            match step {
                GcStep::Again => {}
                GcStep::Wait(pause) => {
                    self.clock.advance(pause);
                    waits += 1;
                    // What is damaged, or not durably dead yet, is tried again for ever, ever less often.
                    let stays = self.open.relaxed || self.model.puts.iter().any(|put| put.damaged);
                    if waits == 60 && stays {
                        self.met("GC waits for what others must do");
                        return Ok(());
                    }
                }
                _ if !self.disk.is_powered() => return Ok(()),
                GcStep::Idle(_) => return self.idle(),
                GcStep::Busy | GcStep::ReadOnly => return Err(format!("V4: GC answers {step:?}")),
            }
        }
        if steps.is_none() && self.disk.is_powered() { Err("V4: GC never ends".into()) } else { Ok(()) }
    }

    pub(super) fn idle(&self) -> Result<(), Broken> {
        let figures = self.store().figures();
        let all_well = self.away.is_empty() && !self.open.relaxed && !self.model.puts.iter().any(|put| put.damaged);
        if self.open.crowded && all_well && figures.physical_bytes as f64 > HIGH * SMALL as f64 {
            return Err(format!("V4: GC is idle above the high watermark: {figures:?}"));
        }
        if figures.gc_candidates > 0 && (figures.physical_bytes as f64) > LOW * figures.capacity_bytes as f64 {
            return Err(format!("V4: GC is idle and has candidates: {figures:?} {:?}", self.store().gc_explain()));
        }
        Ok(())
    }

    /// Takes over what the store told.
    pub(super) fn drain(&mut self) {
        let agreed = std::mem::take(&mut *self.told.agreed.lock().unwrap());
        for (bucket, names) in agreed {
            let puts = names.iter().flat_map(|(key, number)| self.model.evict_agreed(*key, *number)).collect();
            self.say(|| format!("    agreed to the eviction of {bucket}: {names:?}"));
            self.agreed.insert(bucket, puts);
        }
        let events = std::mem::take(&mut *self.told.events.lock().unwrap());
        let mut committed = false;
        for event in events {
            self.say(|| format!("    {event:?}"));
            match event {
                Event::GcCommitted { sources, target, .. } => {
                    committed = true;
                    self.met(if target.is_some() { "GC merged buckets" } else { "GC removed buckets" });
                    for puts in sources.iter().filter_map(|id| self.agreed.remove(id)).collect::<Vec<_>>() {
                        self.evicted(&puts);
                    }
                }
                Event::GcRolledBack { .. } => self.met("GC rolled back"),
                Event::EvictionRefused { .. } => self.met("eviction refused"),
                Event::ObjectTwice { .. } => self.met("the store says that an object is there twice"),
                Event::ObjectDamaged { .. } => self.met("the store says that an object is damaged"),
                _ => {}
            }
        }
        if committed && !self.away.is_empty() {
            self.look_for_collected();
        }
    }

    pub(super) fn evicted(&mut self, puts: &[PutId]) {
        let of = |at: &PutId| (self.model.puts[*at].key, self.model.puts[*at].incarnation);
        let away = |name: (u8, u32), same: bool| {
            self.model.of(name.0).any(|(_, put)| put.is_away() && (put.incarnation == name.1) == same)
        };
        let (twin, other) = (puts.iter().any(|at| away(of(at), true)), puts.iter().any(|at| away(of(at), false)));
        if twin {
            self.met("evicted while its twin is away");
        }
        if other {
            self.met("evicted while another version is away");
        }
        self.met("evicted");
        self.model.evicted(puts);
    }

    /// What can be read of the disk.
    pub(super) fn sound(&self) -> Image {
        let image = self.disk.image();
        let away = self.away.keys().flat_map(|id| [id.data_name(), id.table_name()]);
        away.fold(image, |image, name| image.without(&name))
    }

    /// Whether the record that says that something was deleted is gone while an older one is away.
    pub(super) fn look_for_collected(&mut self) {
        let records = disk::records(&self.sound(), |_| false);
        let collected = |at: PutId| {
            let put = &self.model.puts[at];
            let older = || self.model.of(put.key).any(|(other, it)| other < at && it.is_away());
            let its = |record: &Record| (record.key, record.incarnation) == (put.key, put.incarnation);
            put.end == Some(End::Deleted) && put.incarnation != 0 && older() && !records.iter().any(its)
        };
        if (0..self.model.puts.len()).any(collected) {
            self.met("collected while an older one is away");
        }
    }
}
