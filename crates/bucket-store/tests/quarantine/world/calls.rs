//! Owns the writes and deletes of a history, and what their answers promise.

use std::sync::Arc;

use bucket_store::{DeleteOutcome, DeleteRequest, StoreError, WriteObject, WriteOutcome};

use super::{Broken, World};
use crate::disk::{self, Record, incarnation, number_of, storage_key, value};
use crate::model::{Ack, Put, PutId};

/// Key, incarnation, value.
type Made = (u8, u32, Arc<[u8]>);

impl World<'_> {
    pub(super) fn write_new(&mut self, keys: &[u8], large: bool, hint: Option<u64>) -> Result<(), Broken> {
        let made: Vec<_> = keys
            .iter()
            .map(|key| {
                let number = self.next_incarnation;
                self.next_incarnation += 1;
                let len = if large { 3500 + (usize::from(*key) * 700) } else { 100 + usize::from(*key) };
                (*key, number, value(number.into(), len))
            })
            .collect();
        self.write(&made, hint)
    }

    pub(super) fn rewrite(&mut self, pick: u8, wanted: impl Fn(&Put) -> bool) -> Result<(), Broken> {
        let ours = || self.model.puts.iter().filter(|put| put.incarnation != 0);
        let mut puts: Vec<_> = ours().filter(|put| wanted(put)).collect();
        if puts.is_empty() {
            puts = ours().collect();
        }
        if puts.is_empty() {
            return Ok(());
        }
        // The latest ones more often.
        let at = puts.len() - 1 - usize::from(pick) * usize::from(pick) / 256 * puts.len() / 256;
        let put = (puts[at].key, puts[at].incarnation, Arc::clone(&puts[at].value));
        self.write(&[put], None)
    }

    pub(super) fn write(&mut self, made: &[Made], hint: Option<u64>) -> Result<(), Broken> {
        let keys: Vec<_> = made.iter().map(|(key, ..)| storage_key(*key)).collect();
        let objects: Vec<_> = made
            .iter()
            .zip(&keys)
            .map(|((_, number, value), key)| WriteObject {
                key,
                incarnation: incarnation(*number),
                value,
                placement: hint,
            })
            .collect();
        let ack = if self.open.relaxed { Ack::Served } else { Ack::Durable };
        let gone = self.tombstoned(made);
        let result = self.store().write(&objects);
        self.say(|| format!("    {:?} {result:?}", made.iter().map(|it| (it.0, it.1)).collect::<Vec<_>>()));
        match result {
            Ok(_) if !gone.is_empty() => {
                let (key, number) = gone[0];
                Err(format!("B2: k{key}i{number} is tombstoned in a table that can be read, and is taken again"))
            }
            Ok(outcomes) => {
                for ((key, number, bytes), outcome) in made.iter().zip(outcomes) {
                    if outcome == WriteOutcome::Stored {
                        self.stored(*key, *number, Arc::clone(bytes), ack);
                    } else {
                        self.already_stored(*key, *number)?;
                    }
                }
                Ok(())
            }
            Err(_) if !self.disk.is_powered() => {
                for (key, number, bytes) in made {
                    self.model.put(*key, *number, Arc::clone(bytes), Ack::Begun);
                }
                Ok(())
            }
            Err(error) => self.write_refused(made, &error),
        }
    }

    /// Those of these whose tombstone can be read.
    fn tombstoned(&self, made: &[Made]) -> Vec<(u8, u32)> {
        let names = made.iter().map(|(key, number, _)| (*key, *number));
        let old: Vec<_> = names.filter(|name| self.model.of(name.0).any(|(_, put)| put.is(name.0, name.1))).collect();
        if old.is_empty() {
            return old;
        }
        let records = disk::records(&self.sound(), |_| false);
        let is_gone = |(key, number): &(u8, u32)| {
            let of = |record: &&Record| (record.key, record.incarnation) == (*key, *number);
            // One that is there as well counts, whatever became of its twin.
            let alive = records.iter().filter(of).any(|record| !record.tombstoned);
            !alive && records.iter().any(|record| of(&record))
        };
        old.into_iter().filter(is_gone).collect()
    }

    pub(super) fn stored(&mut self, key: u8, number: u32, bytes: Arc<[u8]>, ack: Ack) {
        let (mut older, mut twin, mut damaged) = (false, false, false);
        for (_, put) in self.model.of(key) {
            let same = put.incarnation == number;
            older |= put.is_away() && !same;
            twin |= put.is_away() && same;
            damaged |= put.is_alive() && put.damaged && same;
        }
        for (it, situation) in [
            (older, "replaced while away"),
            (twin, "twin of the same incarnation away"),
            (damaged, "written again after damage"),
        ] {
            if it {
                self.met(situation);
            }
        }
        self.model.put(key, number, bytes, ack);
    }

    pub(super) fn already_stored(&mut self, key: u8, number: u32) -> Result<(), Broken> {
        let found = self.store().find(&storage_key(key)).map(|found| number_of(found.incarnation));
        if found != Some(number) {
            return Err(format!("B1: k{key}i{number} is said to be stored already, and {found:?} is served"));
        }
        Ok(())
    }

    pub(super) fn write_refused(&mut self, made: &[Made], error: &StoreError) -> Result<(), Broken> {
        let may = match error.code() {
            "BUSY" | "NO_SPACE" | "RESERVE_MISSING" => true,
            "IN_QUARANTINE" => !self.away.is_empty(),
            // Whatever was asked for before, or is older than something.
            "TOMBSTONED" | "SUPERSEDED" => made.iter().any(|(key, number, _)| {
                let mut puts = self.model.of(*key).skip_while(|(_, put)| put.incarnation != *number);
                puts.next().is_some_and(|(_, put)| {
                    put.delete_asked || put.evict_agreed || put.end.is_some() || puts.next().is_some()
                })
            }),
            _ => false,
        };
        if may {
            self.met("write refused");
            return Ok(());
        }
        Err(format!("B1: a write is refused for no reason: {error:?}"))
    }

    pub(super) fn delete_any(&mut self, pick: u8, wanted: impl Fn(&Put) -> bool) -> Result<(), Broken> {
        let mut puts: Vec<_> = self.model.puts.iter().filter(|put| wanted(put)).collect();
        if puts.is_empty() {
            puts = self.model.puts.iter().collect();
        }
        if puts.is_empty() {
            return Ok(());
        }
        let at = puts.len() - 1 - usize::from(pick) * puts.len() / 256;
        let name = (puts[at].key, puts[at].incarnation);
        self.delete(&[name])
    }

    pub(super) fn delete(&mut self, names: &[(u8, u32)]) -> Result<(), Broken> {
        let keys: Vec<_> = names.iter().map(|(key, _)| storage_key(*key)).collect();
        let requests: Vec<_> = names
            .iter()
            .zip(&keys)
            .map(|((_, number), key)| DeleteRequest { key, incarnation: incarnation(*number) })
            .collect();
        let outcomes = self.store().delete(&requests).map_err(|error| format!("V3: {error:?}"))?;
        self.say(|| format!("    {names:?} {outcomes:?}"));
        for ((key, number), outcome) in names.iter().zip(outcomes) {
            self.answered(*key, *number, &outcome)?;
        }
        Ok(())
    }

    pub(super) fn answered(&mut self, key: u8, number: u32, outcome: &DeleteOutcome) -> Result<(), Broken> {
        match outcome {
            DeleteOutcome::Invalid(error) => return Err(format!("D4: k{key}i{number}: {error}")),
            DeleteOutcome::Retryable(error) => {
                let may = match error.code() {
                    "IN_QUARANTINE" => !self.away.is_empty(),
                    "BUSY" | "TABLE_BUSY" => true,
                    _ => !self.disk.is_powered(),
                };
                if !may {
                    return Err(format!("V3: k{key}i{number} cannot be deleted: {error:?}"));
                }
                if error.code() == "IN_QUARANTINE" {
                    self.met("delete answered InQuarantine");
                }
                let found = self.store().find(&storage_key(key)).map(|found| number_of(found.incarnation));
                self.model.delete_asked(key, number, found != Some(number));
                return Ok(());
            }
            DeleteOutcome::StaleVersion if self.model.must_serve(key).is_some_and(|put| put.is(key, number)) => {
                return Err(format!("D4: k{key}i{number} is live, and said to be stale"));
            }
            DeleteOutcome::Removed | DeleteOutcome::AlreadyRemoved | DeleteOutcome::StaleVersion => {}
        }
        let newest =
            self.model.of(key).filter(|(_, put)| put.is(key, number) && put.is_alive()).map(|(at, _)| at).max();
        if let Some(newest) = newest {
            let away = |(_, put): (PutId, &Put)| put.is_away();
            if self.model.of(key).take_while(|(at, _)| *at < newest).any(away) {
                self.met("deleted while an older one is away");
            }
            if self.model.of(key).filter(|(_, put)| put.is(key, number)).any(away) {
                self.met("deleted while away");
            }
            if self.model.of(key).skip_while(|(at, _)| *at <= newest).any(away) {
                self.met("deleted while a newer one is away");
            }
        }
        self.model.deleted(key, number, matches!(outcome, DeleteOutcome::StaleVersion));
        Ok(())
    }

    pub(super) fn damage(&mut self, pick: u8) {
        if !self.disk.is_powered() {
            return;
        }
        let image = self.disk.image();
        let named = disk::in_rounds(&image);
        let image = self.away.keys().fold(image, |image, id| image.without(&id.table_name()));
        let records = disk::records(&image, |_| false);
        let may = |record: &&Record| {
            record.incarnation != 0
                && !record.tombstoned
                && record.value.is_some()
                && record.value_at.is_some()
                && !named.contains(&record.bucket)
        };
        let candidates: Vec<_> = records.iter().filter(may).collect();
        if candidates.is_empty() {
            return;
        }
        let record = candidates[usize::from(pick) % candidates.len()];
        let at = record.value_at.unwrap() + u64::from(pick) % 50;
        self.say(|| format!("    k{}i{} in {}", record.key, record.incarnation, record.bucket));
        self.disk.flip_bit(&record.bucket.data_name(), at, 2).unwrap();
        // What is not known yet by its write number is so now.
        self.model.recognize(&records);
        self.model.damage(record);
        self.met("a bit of a record turned over");
    }
}
