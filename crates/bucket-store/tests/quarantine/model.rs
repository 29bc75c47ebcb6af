//! Owns what the specification promises of each key, while buckets go away and come back. It knows the store's answers and what lies on
//! the disk, and nothing of how the store works.

use std::sync::Arc;

use crate::disk::Record;

/// Which of all writes, in their order: the specification's "newer".
pub(crate) type PutId = usize;

/// How far a write has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ack {
    /// No answer came.
    Begun,
    /// Answered, and a power loss may take it.
    Served,
    /// Answered, and for good.
    Durable,
}

/// Why what was written is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A delete was answered for good.
    Deleted,
    /// Its eviction was agreed to and committed.
    Evicted,
    /// A newer one is there, and this one was durably tombstoned.
    Replaced,
    /// It never became durable.
    Lost,
}

/// One write of one incarnation of one key.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    pub(crate) key: u8,
    /// 0 is what Mooncake wrote.
    pub(crate) incarnation: u32,
    pub(crate) value: Arc<[u8]>,
    /// What tells its record from those of other writes of the same incarnation, once it was seen.
    pub(crate) write_number: Option<u64>,
    pub(crate) ack: Ack,
    pub(crate) end: Option<End>,
    /// Its delete was asked for, and not answered for good.
    pub(crate) delete_asked: bool,
    /// Its eviction was agreed to, and may not have come.
    pub(crate) evict_agreed: bool,
    /// In this life its record, dead or alive, is in a bucket that can be read.
    pub(crate) known: bool,
    /// In this life its record is alive, can be read and verifies.
    pub(crate) readable: bool,
    /// Its record does not verify.
    pub(crate) damaged: bool,
    /// In this life a delete has hidden it.
    hidden: bool,
    /// It was deleted without having been read, by the name that it shares with another write.
    ended_away: bool,
}

impl Put {
    pub(crate) fn is(&self, key: u8, incarnation: u32) -> bool {
        (self.key, self.incarnation) == (key, incarnation)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.end.is_none()
    }

    /// All there is of it is in buckets that cannot be read.
    pub(crate) fn is_away(&self) -> bool {
        self.is_alive() && !self.known
    }

    fn matches(&self, record: &Record) -> bool {
        self.is(record.key, record.incarnation)
            && if self.incarnation == 0 {
                record.value.as_deref() == Some(&*self.value)
            } else {
                self.write_number == Some(record.write_number)
            }
    }
}

/// Every write there ever was, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) puts: Vec<Put>,
}

/// Whether what is served is the newest that was ever durable, or an older one whose newer one is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    Newest,
    Older,
}

impl Model {
    /// A write was answered, or began without an answer.
    pub(crate) fn put(&mut self, key: u8, incarnation: u32, value: Arc<[u8]>, ack: Ack) -> PutId {
        // What was deleted before may be taken again by who does not know that, and go again when it is known (B2).
        let was_deleted = |put: &Put| put.is(key, incarnation) && put.end == Some(End::Deleted);
        let delete_asked = self.puts.iter().any(was_deleted);
        self.puts.push(Put {
            key,
            incarnation,
            value,
            write_number: (incarnation == 0).then_some(0),
            ack,
            end: None,
            delete_asked,
            evict_agreed: false,
            known: true,
            readable: true,
            damaged: false,
            hidden: false,
            ended_away: false,
        });
        self.puts.len() - 1
    }

    pub(crate) fn of(&self, key: u8) -> impl DoubleEndedIterator<Item = (PutId, &Put)> {
        self.puts.iter().enumerate().filter(move |(_, put)| put.key == key)
    }

    fn alive_mut(&mut self, key: u8, incarnation: u32) -> impl Iterator<Item = &mut Put> {
        self.puts.iter_mut().filter(move |put| put.is(key, incarnation) && put.is_alive())
    }

    /// Everything that was served is durable now.
    pub(crate) fn published(&mut self) {
        for put in self.puts.iter_mut().filter(|put| put.ack == Ack::Served) {
            put.ack = Ack::Durable;
        }
    }

    /// Everything that a newer one has replaced, both known, is tombstoned durably.
    pub(crate) fn buried(&mut self) {
        let replaced: Vec<_> = (0..self.puts.len())
            .filter(|at| {
                let put = &self.puts[*at];
                let by = |newer: &Put| {
                    newer.key == put.key
                        && newer.incarnation != put.incarnation
                        && newer.is_alive()
                        && newer.known
                        && newer.ack == Ack::Durable
                };
                // What is older than a tombstone is dead by that, and its own may wait until GC needs it.
                let covered =
                    |newer: &Put| newer.key == put.key && matches!(newer.end, Some(End::Replaced | End::Deleted));
                let newer = || self.puts[at + 1..].iter();
                put.is_alive() && put.known && !put.damaged && newer().any(by) && !newer().any(covered)
            })
            .collect();
        replaced.into_iter().for_each(|at| self.puts[at].end = Some(End::Replaced));
    }

    /// A delete was answered for good. What was never durable may be absent without having been deleted.
    pub(crate) fn deleted(&mut self, key: u8, incarnation: u32, as_stale: bool) {
        // What Mooncake wrote is stale as soon as there is anything newer, and stays where it is until that is tombstoned.
        let is_newer = |(_, put): (PutId, &Put)| put.incarnation != 0 && put.is_alive() && put.known;
        if as_stale && incarnation == 0 && self.of(key).any(is_newer) {
            return self.alive_mut(key, incarnation).for_each(|put| put.delete_asked = true);
        }
        for put in self.alive_mut(key, incarnation) {
            put.ended_away = !put.known;
            put.end = Some(if as_stale && put.ack != Ack::Durable { End::Lost } else { End::Deleted });
        }
    }

    /// A delete was not answered for good.
    pub(crate) fn delete_asked(&mut self, key: u8, incarnation: u32, is_hidden: bool) {
        for put in self.alive_mut(key, incarnation) {
            put.delete_asked = true;
            put.hidden |= is_hidden && put.known;
        }
    }

    /// Gives what may go.
    pub(crate) fn evict_agreed(&mut self, key: u8, incarnation: u32) -> Vec<PutId> {
        self.alive_mut(key, incarnation).for_each(|put| put.evict_agreed = true);
        let newest_known =
            self.of(key).filter(|(_, put)| put.is(key, incarnation) && put.known).map(|(at, _)| at).max();
        let goes = |(at, put): &(PutId, &Put)| {
            // What Mooncake wrote has no name of its own: of it only what is known goes, and what is older than that.
            put.is(key, incarnation) && put.is_alive() && (incarnation != 0 || Some(*at) <= newest_known)
        };
        self.of(key).filter(goes).map(|(at, _)| at).collect()
    }

    pub(crate) fn evicted(&mut self, puts: &[PutId]) {
        for at in puts {
            let end = &mut self.puts[*at].end;
            *end = end.or(Some(End::Evicted));
        }
    }

    /// A bit of this record was turned over.
    pub(crate) fn damage(&mut self, record: &Record) {
        for put in self.puts.iter_mut().filter(|put| put.matches(record)) {
            (put.damaged, put.readable) = (true, false);
        }
    }

    /// A store has opened this.
    ///
    /// # Errors
    /// What was durable and is nowhere.
    pub(crate) fn opened(&mut self, records: &[Record]) -> Result<(), String> {
        self.recognize(records);
        // The newest first: an older one may be gone only if a newer one is not lost.
        for at in (0..self.puts.len()).rev() {
            let put = &self.puts[at];
            let found: Vec<_> = records.iter().filter(|record| put.matches(record)).collect();
            let alive = |record: &&&Record| !record.tombstoned;
            let known = found.iter().any(|record| !record.away);
            let end = match put.end {
                None if !found.iter().any(|record| !record.tombstoned) => Some(self.end_of(at, !found.is_empty())?),
                end => end,
            };
            let verifies = |record: &&&Record| record.value.is_some();
            let readable = found.iter().filter(alive).filter(verifies).any(|record| !record.away);
            let damaged = found.iter().filter(alive).any(|record| record.value.is_none());
            let put = &mut self.puts[at];
            if put.end.is_none() && end.is_none() {
                put.ack = Ack::Durable;
            }
            (put.end, put.known, put.readable, put.damaged, put.hidden) = (end, known, readable, damaged, false);
        }
        Ok(())
    }

    /// Finds out which records are those of writes whose write numbers are not known yet. The latest write has the highest.
    pub(crate) fn recognize(&mut self, records: &[Record]) {
        for at in (0..self.puts.len()).rev() {
            let put = &self.puts[at];
            if put.write_number.is_some() || put.end == Some(End::Lost) {
                continue;
            }
            let (key, incarnation) = (put.key, put.incarnation);
            let taken =
                |number: u64| self.of(key).any(|(_, it)| it.is(key, incarnation) && it.write_number == Some(number));
            let numbers = records.iter().filter(|record| (record.key, record.incarnation) == (key, incarnation));
            self.puts[at].write_number = numbers.map(|record| record.write_number).filter(|it| !taken(*it)).max();
        }
    }

    fn end_of(&self, at: PutId, was_found: bool) -> Result<End, String> {
        let put = &self.puts[at];
        let newer = |(other, it): (PutId, &Put)| other > at && it.end != Some(End::Lost);
        if put.ack != Ack::Durable && !was_found {
            Ok(End::Lost)
        } else if self.of(put.key).any(newer) {
            Ok(End::Replaced)
        } else if put.delete_asked {
            Ok(End::Deleted)
        } else if put.evict_agreed {
            Ok(End::Evicted)
        } else {
            Err(format!("B1: k{}i{} was durable and its record is nowhere", put.key, put.incarnation))
        }
    }

    /// Whether this may be served. `bytes` as far as they were read.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn allows(&self, key: u8, incarnation: u32, bytes: Option<&[u8]>) -> Result<Served, String> {
        let is_it =
            |(_, put): &(PutId, &Put)| put.is(key, incarnation) && bytes.is_none_or(|bytes| bytes == &*put.value);
        // Of several reasons the newest one's.
        let mut judged: Vec<_> = self.of(key).rev().filter(is_it).map(|(at, _)| self.may_serve(at)).collect();
        judged.sort_by_key(|it| match it {
            Ok(Served::Newest) => 0,
            Ok(Served::Older) => 1,
            Err(_) => 2,
        });
        judged.into_iter().next().unwrap_or_else(|| Err("B1: it was never written".into()))
    }

    fn may_serve(&self, at: PutId) -> Result<Served, String> {
        let put = &self.puts[at];
        match put.end {
            Some(End::Deleted) => return Err("B2: its delete was answered for good".into()),
            Some(End::Evicted) => return Err("B1: its eviction was committed".into()),
            Some(End::Replaced) => return Err("B1: it was replaced and tombstoned".into()),
            Some(End::Lost) => return Err("B1: it was lost before".into()),
            None if put.hidden => return Err("a delete has hidden it in this life".into()),
            None => {}
        }
        let mut served = Served::Newest;
        for (other, newer) in self.of(put.key).skip_while(|(other, _)| *other <= at) {
            let name = format!("i{} (write {other}, this is write {at})", newer.incarnation);
            match newer.end {
                _ if newer.incarnation == put.incarnation && put.incarnation != 0 => {}
                Some(End::Lost) => {}
                // Whatever has replaced it stands for it.
                Some(End::Replaced) => served = Served::Older,
                Some(End::Deleted) if newer.ended_away => served = Served::Older,
                Some(end) => return Err(format!("B2: it is older than {name}, which was {end:?}")),
                None if newer.known => return Err(format!("B1: it is older than {name}, which can be read")),
                None => served = Served::Older,
            }
        }
        Ok(served)
    }

    /// What must be served of a key.
    pub(crate) fn must_serve(&self, key: u8) -> Option<&Put> {
        let (_, put) = self.of(key).rfind(|(_, put)| put.end != Some(End::Lost))?;
        let counts = put.is_alive() && put.ack > Ack::Begun && !put.delete_asked && !put.evict_agreed;
        (counts && put.readable && !put.damaged && !put.hidden).then_some(put)
    }
}
