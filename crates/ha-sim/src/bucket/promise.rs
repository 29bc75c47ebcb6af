//! Owns what the store has promised so far, from the outside: what was asked of it and what it answered. It shares nothing with
//! the store, and it reads nothing of the store's files.

use std::collections::BTreeMap;
use std::fmt;

use ha_types::ObjectIncarnation;

use super::view::View;

/// A version of a key. Version 0 is what Mooncake wrote.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// The key's number.
    pub key: u8,
    /// The version's number, rising per key.
    pub version: u8,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k{}v{}", self.key, self.version)
    }
}

impl Object {
    /// The storage key.
    #[must_use]
    pub fn storage_key(self) -> Vec<u8> {
        format!("t\0k{}", self.key).into_bytes()
    }

    /// The incarnation: one of its own, or none where Mooncake wrote it.
    #[must_use]
    pub fn incarnation(self) -> ObjectIncarnation {
        if self.version == 0 {
            return ObjectIncarnation::LEGACY;
        }
        let mut bytes = [0; 16];
        (bytes[3], bytes[14], bytes[15]) = (1, self.key, self.version);
        ObjectIncarnation::from_bytes(bytes)
    }

    /// The bytes: different for every object, and so many that one of two or three in a bucket gives a block back.
    #[must_use]
    pub fn value(self) -> Vec<u8> {
        let (key, version) = (usize::from(self.key), usize::from(self.version));
        let len = 2750 + (key * 37 + version * 11) % 120;
        (0..len).map(|at| (at * 7 + key * 31 + version * 101 + at / 251) as u8).collect()
    }

    /// The object that these name; `None` if no workload writes it.
    #[must_use]
    pub fn of(storage_key: &[u8], incarnation: ObjectIncarnation) -> Option<Self> {
        let key = std::str::from_utf8(storage_key).ok()?.strip_prefix("t\0k")?.parse().ok()?;
        let version = if incarnation == ObjectIncarnation::LEGACY { 0 } else { incarnation.to_bytes()[15] };
        let object = Self { key, version };
        (object.incarnation() == incarnation).then_some(object)
    }
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Stage {
    #[default]
    No,
    /// It was called: it may have happened.
    Begun,
    /// It was answered: it has happened for good.
    Done,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Version {
    put: Stage,
    delete: Stage,
    /// Whoever embeds the store agreed that it may go.
    given_up: bool,
}

/// Everything that was promised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Promises {
    /// By key, each with its versions in the order of their writes.
    keys: BTreeMap<u8, BTreeMap<u8, Version>>,
    /// The highest bucket id that was ever on disk.
    pub highest_bucket: u64,
}

/// An invariant that does not hold, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Broken {
    /// Its name, as in the list of invariants.
    pub invariant: &'static str,
    /// What was seen.
    pub seen: String,
    /// What it means for an object, if it is about one.
    pub harm: Harm,
}

/// What became of an object that should not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// It was durable, and is not there or not what was written.
    Lost,
    /// It was gone, or was never written, and is there.
    Resurrected,
    /// Neither.
    None,
}

impl Broken {
    /// That `invariant` does not hold.
    pub fn new(invariant: &'static str, seen: impl Into<String>) -> Self {
        Self { invariant, seen: seen.into(), harm: Harm::None }
    }

    /// That `invariant` does not hold: an object is lost.
    pub fn lost(invariant: &'static str, seen: impl Into<String>) -> Self {
        Self { harm: Harm::Lost, ..Self::new(invariant, seen) }
    }

    /// That `invariant` does not hold: an object is there that must not be.
    pub fn resurrected(invariant: &'static str, seen: impl Into<String>) -> Self {
        Self { harm: Harm::Resurrected, ..Self::new(invariant, seen) }
    }
}

impl Promises {
    fn version(&mut self, object: Object) -> &mut Version {
        self.keys.entry(object.key).or_default().entry(object.version).or_default()
    }

    /// A write was called.
    pub fn put_begun(&mut self, object: Object) {
        let version = self.version(object);
        if version.put == Stage::No {
            version.put = Stage::Begun;
        }
    }

    /// A write was answered as durable.
    pub fn put_done(&mut self, object: Object) {
        self.version(object).put = Stage::Done;
    }

    /// A delete was called.
    pub fn delete_begun(&mut self, object: Object) {
        let version = self.version(object);
        if version.delete == Stage::No {
            version.delete = Stage::Begun;
        }
    }

    /// A delete was answered for good.
    pub fn delete_done(&mut self, object: Object) {
        self.version(object).delete = Stage::Done;
    }

    /// It was agreed that the object may go.
    pub fn given_up(&mut self, object: Object) {
        self.version(object).given_up = true;
    }

    /// Every version that was ever written, or may have been.
    pub fn objects(&self) -> impl Iterator<Item = Object> + '_ {
        let objects = |(key, versions): (&u8, &BTreeMap<u8, Version>)| {
            let key = *key;
            versions.keys().map(move |version| Object { key, version: *version }).collect::<Vec<_>>()
        };
        self.keys.iter().flat_map(objects)
    }

    /// Whether a delete of it was called and not answered for good.
    #[must_use]
    pub fn is_being_deleted(&self, object: Object) -> bool {
        self.keys.get(&object.key).and_then(|it| it.get(&object.version)).is_some_and(|it| it.delete == Stage::Begun)
    }

    /// Whether a delete of it was answered for good.
    #[must_use]
    pub fn is_deleted(&self, object: Object) -> bool {
        self.keys.get(&object.key).and_then(|it| it.get(&object.version)).is_some_and(|it| it.delete == Stage::Done)
    }

    /// Whether a write of a later version of the key was called and not answered.
    #[must_use]
    pub fn has_unanswered_successor(&self, object: Object) -> bool {
        let later = self.keys.get(&object.key).into_iter().flat_map(|it| it.range(object.version + 1..));
        later.into_iter().any(|(_, it)| it.put == Stage::Begun)
    }

    /// Whether its write was called and not answered.
    #[must_use]
    pub fn is_unanswered(&self, object: Object) -> bool {
        self.keys.get(&object.key).and_then(|it| it.get(&object.version)).is_some_and(|it| it.put == Stage::Begun)
    }

    /// Checks what a store shows: B1, B2, D3, D4, D5, as far as one look can.
    #[must_use]
    pub fn check(&self, view: &View) -> Vec<Broken> {
        let mut broken = Vec::new();
        for object in view.live.keys() {
            let known = self.keys.get(&object.key).and_then(|versions| versions.get(&object.version));
            match known {
                Some(Version { put: Stage::No, .. }) | None => {
                    broken.push(Broken::resurrected("B1", format!("{object:?} was never written")));
                }
                Some(Version { delete: Stage::Done, .. }) => {
                    broken.push(Broken::resurrected("B2", format!("{object:?} was deleted and is back")));
                }
                Some(_) => {}
            }
            if let Some(later) = self.durable_after(*object) {
                let seen = format!("{object:?} is back although {later:?} was durable");
                broken.push(Broken::resurrected("B1", seen));
            }
        }
        for (key, versions) in &self.keys {
            let Some((last_durable, _)) = versions.iter().rfind(|(_, version)| version.put == Stage::Done) else {
                continue;
            };
            let may_be_gone = versions.range(last_durable..).any(|(_, it)| it.delete != Stage::No || it.given_up);
            if !may_be_gone && !view.live.keys().any(|object| object.key == *key) {
                let object = Object { key: *key, version: *last_durable };
                broken.push(Broken::lost("B1", format!("{object:?} was durable and is lost")));
            }
        }
        broken
    }

    /// A later version of the key whose write was answered.
    fn durable_after(&self, object: Object) -> Option<Object> {
        let later = self.keys.get(&object.key)?.range(object.version + 1..);
        let mut durable = later.filter(|(_, version)| version.put == Stage::Done);
        durable.next().map(|(version, _)| Object { version: *version, ..object })
    }
}
