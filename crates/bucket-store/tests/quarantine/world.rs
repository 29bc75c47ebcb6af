//! Owns a history as it happens: a disk, a store on it, and the model beside them, compared after every step.

mod calls;
mod looks;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bucket_store::format::marker::Marker;
use bucket_store::format::names::{BucketId, GRAVES, MARKER, NameKind};
use bucket_store::format::test_kit;
use bucket_store::gc::{EvictedObject, Evictor};
use bucket_store::vfs::sim::{CrashStates, Image, SimDisk};
use bucket_store::{Adoption, Config, Durability, Event, Observer, Store, StoreError};
use ha_types::{Clock, ClusterId, ManualClock, SegmentId};

use crate::disk::{self, Away, Copies, key_of, number_of, storage_key, value};
use crate::model::{Ack, Model, PutId};
use crate::step::{Begin, Death, History, Open, Step};

/// How often something happened.
pub(crate) type Reached = BTreeMap<&'static str, u64>;

/// Something that must not be, in words. The first word is what is broken.
type Broken = String;

const LOW: f64 = 0.5;
const HIGH: f64 = 0.7;
const SMALL: u64 = 14 * 4096;

/// A bucket, and the objects that go with it.
type Agreed = (BucketId, Vec<(u8, u32)>);

/// What the store told, and what it was told about evictions.
#[derive(Debug, Default)]
struct Told {
    refuse: Mutex<u8>,
    agreed: Mutex<Vec<Agreed>>,
    refused: Mutex<u64>,
    events: Mutex<Vec<Event>>,
}

impl Evictor for Told {
    fn evict(&self, bucket: BucketId, objects: &[EvictedObject]) -> Result<(), String> {
        let mut refuse = self.refuse.lock().unwrap();
        if *refuse > 0 {
            *refuse -= 1;
            *self.refused.lock().unwrap() += 1;
            return Err("not now".into());
        }
        let names = objects.iter().map(|object| (key_of(&object.key), number_of(object.incarnation)));
        self.agreed.lock().unwrap().push((bucket, names.collect()));
        Ok(())
    }
}

impl Observer for Told {
    fn event(&self, event: &Event) {
        self.events.lock().unwrap().push(event.clone());
    }
}

pub(crate) struct World<'r> {
    disk: SimDisk,
    copies: Copies,
    away: BTreeMap<BucketId, Away>,
    /// Away in the life before.
    was_away: BTreeSet<BucketId>,
    /// Buckets that were away since all could be read.
    not_compared: BTreeSet<BucketId>,
    clock: Arc<ManualClock>,
    told: Arc<Told>,
    store: Option<Store>,
    /// The files of what is in quarantine, as they were when the store was opened.
    untouched: BTreeMap<String, Option<Vec<u8>>>,
    open: Open,
    model: Model,
    agreed: BTreeMap<BucketId, Vec<PutId>>,
    next_incarnation: u32,
    reached: &'r mut Reached,
    /// Says what happens, for a person.
    tell: bool,
}

fn identity() -> Marker {
    Marker { segment: SegmentId::new("ssd-1").unwrap(), cluster: ClusterId::new("c1").unwrap() }
}

fn config(open: &Open) -> Config {
    Config {
        capacity_bytes: if open.crowded { SMALL } else { 64 << 20 },
        high_watermark: HIGH,
        low_watermark: LOW,
        normal_dead_ratio: open.eager.then_some(0.2),
        gc_copy_share: 1.0,
        copy_buffer_bytes: 4096,
        bucket_size_bytes: 32 << 10,
        bucket_keys: 4,
        durability: if open.relaxed { Durability::Relaxed } else { Durability::Sync },
        ..Config::default()
    }
}

/// Runs a history to its end, then heals everything, deletes everything, and lets GC take it.
pub(crate) fn run(history: &History, reached: &mut Reached, tell: bool) -> Result<(), Broken> {
    let mut world = World::new(history.begin, reached, tell);
    world.begin(world.disk.image(), &history.first)?;
    for step in &history.steps {
        world.say(|| format!("{step:?}"));
        world.step(step)?;
    }
    world.end()
}

impl<'r> World<'r> {
    fn new(begin: Begin, reached: &'r mut Reached, tell: bool) -> Self {
        let (disk, mut model) = (SimDisk::new(), Model::default());
        if begin == Begin::Mooncake {
            let dir = disk.mount().unwrap();
            for (id, keys) in [(3, [0, 1].as_slice()), (5, &[1, 2]), (8, &[0, 2, 3])] {
                let put = |key: &u8| {
                    let bytes = value(u64::from(*key) << 8 | id, 4000 + 500 * usize::from(*key));
                    model.put(*key, 0, Arc::clone(&bytes), Ack::Durable);
                    (storage_key(*key), bytes)
                };
                let made: Vec<_> = keys.iter().map(put).collect();
                let records: Vec<_> = made.iter().map(|(key, bytes)| (&**key, &**bytes)).collect();
                test_kit::put_mooncake_bucket(&dir, id, &records).unwrap();
            }
        }
        Self {
            disk,
            copies: Copies::default(),
            away: BTreeMap::new(),
            was_away: BTreeSet::new(),
            not_compared: BTreeSet::new(),
            clock: Arc::new(ManualClock::new()),
            told: Arc::new(Told::default()),
            store: None,
            untouched: BTreeMap::new(),
            open: Open::default(),
            model,
            agreed: BTreeMap::new(),
            next_incarnation: 1,
            reached,
            tell,
        }
    }

    fn say(&self, text: impl FnOnce() -> String) {
        if self.tell {
            println!("{}", text());
        }
    }

    fn met(&mut self, situation: &'static str) {
        self.say(|| format!("    [{situation}]"));
        *self.reached.entry(situation).or_default() += 1;
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    // A life.

    /// Opens what is on this image, or what is left of it if the power goes meanwhile.
    fn begin(&mut self, mut image: Image, open: &Open) -> Result<(), Broken> {
        let mut cut = open.cut;
        loop {
            image = self.copies.heal(image);
            let ids = disk::buckets(&image);
            self.choose(&ids, open);
            let spoilt = self
                .away
                .iter()
                .fold(image.clone(), |image, (id, away)| self.copies.spoil(image, *id, *away, open.pick));
            if self.disk.image() != spoilt {
                self.disk = SimDisk::of(&spoilt);
            }
            self.disk.mend();
            self.away.iter().for_each(|(id, away)| away.inject(&self.disk, *id));
            if let Some(ops) = cut.take() {
                self.disk.power_off_at(self.disk.operations() + 1 + u64::from(ops));
            }
            match self.open_store(open) {
                Ok(store) if self.disk.is_powered() => {
                    self.store = Some(store);
                    break;
                }
                _ if !self.disk.is_powered() => {
                    self.met("the power went while a store was opened");
                    image = self.after(Death::Power(open.pick));
                }
                Ok(_) => unreachable!(),
                Err(error) => {
                    let named = disk::in_rounds(&image);
                    let in_round = self.away.keys().any(|id| named.contains(id));
                    let adopts = error.code() == "ADOPTS_UNREADABLE" && image.bytes(MARKER).is_none();
                    if self.away.is_empty() || !(in_round || adopts) {
                        return Err(format!("B3: the store does not open: {error}"));
                    }
                    if self.disk.image() != spoilt {
                        return Err(format!("B3: the open was refused and has changed something: {error}"));
                    }
                    self.met(if adopts {
                        "adoption refused: a bucket is away"
                    } else {
                        "open refused: a bucket of an unfinished round is away"
                    });
                    // Whoever runs it mends it.
                    image = spoilt;
                    self.was_away.extend(std::mem::take(&mut self.away).into_keys());
                    return self.begin(image, &Open { away: Vec::new(), keep: false, cut: None, ..open.clone() });
                }
            }
        }
        // The power loss that did not come does not come later.
        self.disk.power_off_at(u64::MAX);
        self.open = open.clone();
        self.opened(&image)
    }

    fn choose(&mut self, ids: &[BucketId], open: &Open) {
        let kept = std::mem::take(&mut self.away);
        let mut away = if open.keep { kept } else { BTreeMap::new() };
        for (pick, how) in open.away.iter().filter(|_| !ids.is_empty()) {
            away.insert(ids[usize::from(*pick) % ids.len()], *how);
        }
        away.retain(|id, _| ids.contains(id));
        self.away = away;
    }

    fn open_store(&self, open: &Open) -> Result<Store, StoreError> {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let builder = Store::builder(identity(), clock).config(config(open)).adoption(Adoption::OneWay);
        let builder = builder.observer(self.told.clone());
        let builder = if open.crowded { builder.evictor(self.told.clone()) } else { builder };
        builder.open(Arc::new(self.disk.mount().unwrap()))
    }

    /// `image` is what was there when the store was opened, with nothing away.
    fn opened(&mut self, image: &Image) -> Result<(), Broken> {
        let now = self.disk.image();
        let quarantined: BTreeSet<_> = self.store().quarantined().map(|(id, _)| id).collect();
        let reasons: Vec<_> = self.store().quarantined().map(|(id, reason)| format!("{id}: {reason}")).collect();
        self.say(|| format!("    away {:?}, in quarantine {reasons:?}", self.away));
        if image.bytes(GRAVES).is_none() {
            self.not_compared.clear();
        }
        for id in quarantined.iter().filter(|id| !self.away.contains_key(id)).copied().collect::<Vec<_>>() {
            if self.away.is_empty() || !self.not_compared.contains(&id) {
                return Err(format!("B1: bucket {id} is sound, and in quarantine: {reasons:?}"));
            }
            // It was away before, and what covers its records may be in one that is away now.
            self.met("still away: another bucket is");
            self.away.insert(id, Away::OpenTable);
        }
        self.not_compared.extend(self.away.keys());
        for (id, away) in self.away.clone() {
            if quarantined.contains(&id) {
                self.met(away.situation());
            } else if now.bytes(&id.table_name()).is_some() {
                return Err(format!("B1: bucket {id} is served although {away:?}"));
            }
        }
        let healed = |id: &&BucketId| !self.away.contains_key(id) && now.bytes(&id.table_name()).is_some();
        if self.was_away.iter().any(|id| healed(&id)) {
            self.met("healed open");
        }
        self.was_away = self.away.keys().copied().collect();
        let files = quarantined.iter().flat_map(|id| [id.table_name(), id.data_name()]);
        self.untouched = files.map(|name| (name.clone(), now.bytes(&name))).collect();
        let records = disk::records(image, |id| self.away.contains_key(&id));
        self.agreed.clear();
        self.told.events.lock().unwrap().clear();
        self.model.opened(&records)?;
        self.look_at_records(&records);
        self.compare()
    }

    /// Ends the life of the store, and gives what is left.
    fn after(&mut self, death: Death) -> Image {
        self.store = None;
        self.drain();
        if !self.away.is_empty() && death != Death::Close {
            self.met("crash with something in quarantine");
        }
        let point = self.disk.crash_point();
        let image = match death {
            Death::Close if self.disk.is_powered() => return self.disk.image(),
            Death::Close | Death::Process => {
                self.disk = point.restart();
                return self.disk.image();
            }
            Death::Power(pick) => {
                let states = CrashStates { exhaustive_up_to: 8, samples: 24, ..CrashStates::default() };
                let many = point.images(states).count();
                point.images(states).nth(pick as usize % many).unwrap()
            }
        };
        self.disk = SimDisk::of(&image);
        image
    }

    fn finish(&mut self, death: Death) -> Result<Image, Broken> {
        let now = self.disk.image();
        for (name, bytes) in &self.untouched {
            if now.bytes(name) != *bytes {
                return Err(format!("design §8: {name} was changed in quarantine"));
            }
        }
        Ok(self.after(death))
    }

    fn step(&mut self, step: &Step) -> Result<(), Broken> {
        match step {
            Step::End { death, open } => {
                let image = self.finish(*death)?;
                return self.begin(image, open);
            }
            Step::Cut { ops, then, death, open } => {
                self.disk.power_off_at(self.disk.operations() + 1 + u64::from(*ops));
                self.act(then)?;
                if !self.disk.is_powered() {
                    self.met("the power went in the middle of a step");
                }
                let image = self.finish(*death)?;
                return self.begin(image, open);
            }
            step => self.act(step)?,
        }
        self.compare()
    }

    fn act(&mut self, step: &Step) -> Result<(), Broken> {
        match step {
            Step::Write { keys, large, hint } => self.write_new(keys, *large, *hint),
            Step::Rewrite(pick) => self.rewrite(*pick, |_| false),
            Step::RewriteAway(pick) => self.rewrite(*pick, |put| put.is_away()),
            Step::RewriteDamaged(pick) => self.rewrite(*pick, |put| put.is_alive() && put.damaged),
            Step::Delete(keys) => {
                let served = self.served()?;
                let names: Vec<_> = served.into_iter().filter(|(key, _)| keys.contains(key)).collect();
                self.delete(&names)
            }
            Step::DeleteAny(pick) => self.delete_any(*pick, |_| false),
            Step::DeleteAway(pick) => self.delete_any(*pick, |put| put.is_away()),
            Step::Gc { steps, refuse } => self.gc(Some(*steps), *refuse),
            Step::GcIdle => self.gc(None, 0),
            Step::Publish => self.publish().map(|_| ()),
            Step::Maintain => self.maintain(),
            Step::Damage(pick) => {
                self.damage(*pick);
                Ok(())
            }
            Step::Look => self.read_all(),
            Step::End { .. } | Step::Cut { .. } => unreachable!("they are no acts"),
        }
    }

    /// Everything can be read again; everything is deleted; everything goes.
    fn end(mut self) -> Result<(), Broken> {
        let well = Open { eager: true, ..Open::default() };
        self.say(|| "everything is healed".into());
        let image = self.finish(Death::Close)?;
        self.begin(image, &well)?;
        self.read_all()?;
        self.gc(None, 0)?;
        self.compare()?;
        let image = self.finish(Death::Power(u32::MAX))?;
        self.begin(image, &well)?;
        self.read_all()?;
        self.say(|| "everything is deleted".into());
        let names: BTreeSet<_> = self.model.puts.iter().map(|put| (put.key, put.incarnation)).collect();
        // Of what Mooncake wrote, only what is served can be named.
        let (first, last): (Vec<_>, Vec<_>) = names.into_iter().partition(|(_, number)| *number != 0);
        self.delete_for_good(&first)?;
        self.delete_for_good(&last)?;
        self.maintain()?;
        self.gc(None, 0)?;
        self.compare()?;
        let (image, figures) = (self.disk.image(), self.store().figures());
        let left: Vec<_> = image
            .names()
            .filter(|name| {
                matches!(
                    NameKind::of(name),
                    NameKind::Data(_) | NameKind::Table(_) | NameKind::GcIntent | NameKind::Temporary
                )
            })
            .collect();
        if !left.is_empty() || figures.physical_bytes != 0 {
            return Err(format!("V5: all is deleted, and {left:?} are left: {figures:?}"));
        }
        let image = self.finish(Death::Close)?;
        self.begin(image, &well)
    }

    fn delete_for_good(&mut self, names: &[(u8, u32)]) -> Result<(), Broken> {
        for (key, number) in names {
            for attempt in 0.. {
                self.delete(&[(*key, *number)])?;
                if self.model.of(*key).all(|(_, put)| put.incarnation != *number || !put.is_alive()) {
                    break;
                }
                if attempt == 5 {
                    return Err(format!("V3: k{key}i{number} cannot be deleted"));
                }
                self.gc(Some(50), 0)?;
            }
        }
        Ok(())
    }
}
