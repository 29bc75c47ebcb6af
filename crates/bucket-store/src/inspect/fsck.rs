//! Owns the judgement of a directory: every small file, every record, and what joins them. It changes nothing and stops at no fault.

use ha_types::{ClusterId, SegmentId};

use super::contents::{BucketContents, Contents};
use super::fault::{Fault, FaultKind, Faults};
use super::look::{BucketLook, Look, MarkerLook, Standing, Unreadable};
use super::verify::{Trouble, Verifier};
use crate::format::high_water::HighWater;
use crate::format::names::{GC_INTENT, GRAVES, ID_HIGH_WATER, LOST_AND_FOUND, MARKER};
use crate::format::table::{self, RecordLayout};
use crate::recovery::decide;
use crate::vfs::{EntryKind, Vfs};

/// What is asked of [`fsck`].
#[derive(Clone, Debug)]
pub struct FsckOptions {
    /// Keep at most so many faults; all are counted.
    pub max_faults: usize,
    /// Do not read the data files.
    pub tables_only: bool,
    /// The segment that the directory must be of.
    pub segment: Option<SegmentId>,
    /// The cluster that it must be of.
    pub cluster: Option<ClusterId>,
}

impl Default for FsckOptions {
    fn default() -> Self {
        Self { max_faults: 1000, tables_only: false, segment: None, cluster: None }
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsckProgress {
    /// Bytes of records that were read.
    pub bytes: u64,
    /// Bytes of records that there are.
    pub expected_bytes: u64,
    /// Faults so far.
    pub faults: u64,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct FsckReport {
    /// Buckets that were looked at.
    pub buckets: u64,
    /// Records in their tables.
    pub records: u64,
    /// Records that were read and have all their checksums.
    pub verified_records: u64,
    /// Records of Mooncake's that were read: they have no checksum, and only their keys were compared.
    pub unverifiable_records: u64,
    /// Bytes of records that were read.
    pub read_bytes: u64,
    /// What is wrong.
    pub faults: Faults,
    /// What is no fault and worth knowing, for people.
    pub notes: Vec<String>,
}

impl FsckReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.faults.total() == 0
    }
}

/// Judges what [`look`](super::look()) saw, and reads every record of every bucket that has a table. `progress` is told after each record.
pub fn fsck(vfs: &dyn Vfs, look: &Look, options: &FsckOptions, progress: &mut dyn FnMut(FsckProgress)) -> FsckReport {
    let contents = look.contents();
    let mut check = Check::small_files(look, &contents, options);
    if !options.tables_only {
        check.records(vfs, &contents, progress);
    }
    check.report
}

/// What is wrong with the small files and with what joins them.
pub(super) fn judged(look: &Look) -> Vec<Fault> {
    let options = FsckOptions { max_faults: usize::MAX, ..FsckOptions::default() };
    Check::small_files(look, &look.contents(), &options).report.faults.listed().to_vec()
}

struct Check<'a> {
    look: &'a Look,
    report: FsckReport,
}

impl<'a> Check<'a> {
    fn small_files(look: &'a Look, contents: &Contents, options: &FsckOptions) -> Self {
        let buckets = look.buckets.len() as u64;
        let report = FsckReport { buckets, faults: Faults::keeping(options.max_faults), ..FsckReport::default() };
        let mut check = Self { look, report };
        check.names();
        check.marker(options);
        check.high_water();
        check.intents();
        check.graves();
        for bucket in &contents.buckets {
            check.files(bucket);
        }
        check.twice(contents);
        check
    }

    fn fault(&mut self, fault: Fault) {
        self.report.faults.add(fault);
    }

    fn note(&mut self, note: String) {
        self.report.notes.push(note);
    }

    fn names(&mut self) {
        for entry in &self.look.strange {
            let (kind, found) = match entry.kind {
                EntryKind::Directory if entry.name == LOST_AND_FOUND => continue,
                EntryKind::Directory => (FaultKind::NotAFile, "a directory"),
                EntryKind::Other => (FaultKind::NotAFile, "a link, another special file, or a name that is no text"),
                EntryKind::File => (FaultKind::StrangeName, "another name"),
            };
            let expected = "a regular file that this program or Mooncake writes";
            self.report.faults.add(Fault::new(kind, &entry.name, "the name", expected, found));
        }
        if !self.look.temporaries.is_empty() {
            let count = self.look.temporaries.len();
            self.note(format!("{count} temporary files of an interrupted change; the next open removes them"));
        }
    }

    fn marker(&mut self, options: &FsckOptions) {
        let ours = |bucket: &BucketLook| match &bucket.table {
            Some(Ok(table)) => table.layout == RecordLayout::Checksummed,
            Some(Err(_)) if bucket.short.is_some() => bucket.short == Some(RecordLayout::Checksummed),
            Some(Err(Unreadable::Bytes(error))) => error.what() == table::WHAT,
            _ => false,
        };
        let has_ours = self.look.high_water.is_some()
            || self.look.intents.is_some()
            || self.look.graves.is_some()
            || self.look.buckets.values().any(ours);
        match &self.look.marker {
            MarkerLook::Absent if self.look.is_unused() => {
                self.note("the directory is empty: nothing was ever stored".into())
            }
            MarkerLook::Absent if !has_ours => {
                self.note("a directory of Mooncake's that was not adopted: plimsoll bucket adopt".into());
            }
            MarkerLook::Absent => {
                let expected = "to be there, since the directory holds buckets";
                self.fault(Fault::new(FaultKind::MarkerMissing, MARKER, "the file", expected, "no such file"));
            }
            MarkerLook::Mooncakes(segment) => {
                self.note(format!("the marker is Mooncake's, of segment {segment}; the directory was not adopted: plimsoll bucket adopt"));
                self.whose(options, segment, None);
            }
            MarkerLook::Ours(marker) => self.whose(options, &marker.segment, Some(&marker.cluster)),
            MarkerLook::Unreadable(error) => {
                self.fault(Fault::of_needed(FaultKind::MarkerDamaged, MARKER, error));
            }
        }
    }

    fn whose(&mut self, options: &FsckOptions, segment: &SegmentId, cluster: Option<&ClusterId>) {
        let other =
            |field, expected: &str, found: &str| Fault::new(FaultKind::MarkerOfAnother, MARKER, field, expected, found);
        if let Some(expected) = options.segment.as_ref().filter(|expected| *expected != segment) {
            self.fault(other("segment", expected.as_str(), segment.as_str()));
        }
        if let (Some(expected), Some(found)) = (&options.cluster, cluster)
            && expected != found
        {
            self.fault(other("cluster", expected.as_str(), found.as_str()));
        }
    }

    fn high_water(&mut self) {
        let needed = needed_high_water(self.look);
        let high_water = match &self.look.high_water {
            Some(Ok(high_water)) => *high_water,
            Some(Err(error)) => {
                return self.fault(Fault::of_needed(FaultKind::HighWaterDamaged, ID_HIGH_WATER, error));
            }
            None => {
                let given_out = |bucket: &BucketLook| matches!(&bucket.table, Some(Ok(table)) if table.layout == RecordLayout::Checksummed);
                if self.look.buckets.values().any(given_out) {
                    let expected = "to be there, since numbers were given out";
                    self.fault(Fault::new(
                        FaultKind::HighWaterMissing,
                        ID_HIGH_WATER,
                        "the file",
                        expected,
                        "no such file",
                    ));
                }
                return;
            }
        };
        let fields = [
            ("next bucket id", 6, needed.next_bucket, high_water.next_bucket),
            ("next write number", 14, needed.next_write_number, high_water.next_write_number),
        ];
        for (field, offset, needed, found) in fields {
            if found < needed {
                let expected = format!("{needed} or more");
                let fault = Fault::new(FaultKind::HighWaterBelow, ID_HIGH_WATER, field, expected, found.to_string());
                self.fault(Fault { offset: Some(offset), ..fault });
            }
        }
    }

    fn intents(&mut self) {
        match &self.look.intents {
            None => {}
            Some(Err(error)) => self.fault(Fault::of_needed(FaultKind::IntentDamaged, GC_INTENT, error)),
            Some(Ok(intents)) => {
                let refused = self.look.survey().and_then(|survey| decide(&survey).err());
                match refused {
                    Some(error) => self.fault(Fault::of_refusal(&error)),
                    None if intents.rounds.is_empty() => {}
                    None => {
                        let rounds = intents.rounds.len();
                        self.note(format!(
                            "{rounds} rounds of GC wait to be ended; the next open does: plimsoll bucket explain"
                        ));
                    }
                }
            }
        }
    }

    fn graves(&mut self) {
        match &self.look.graves {
            None => {}
            Some(Err(error)) => self.fault(Fault::of_needed(FaultKind::GravesDamaged, GRAVES, error)),
            Some(Ok(graves)) => {
                let (keys, away) = (graves.keys.len(), graves.away.len());
                self.note(format!(
                    "{away} buckets could not be read, and {keys} keys are kept in mind that must not come back with them; \
                     GC ends that when all can be read"
                ));
            }
        }
    }

    fn files(&mut self, bucket: &BucketContents) {
        self.report.records += bucket.records.len() as u64;
        let (id, look) = (bucket.id, &self.look.buckets[&bucket.id]);
        let data = look.data.as_ref().and_then(|data| data.as_ref().err());
        let data = data.map(|error| Fault::of_data(&id.data_name(), error));
        if matches!(bucket.standing, Standing::Retired | Standing::Uncommitted) {
            // It goes, so damage is no matter; what keeps an open from even looking at it is one.
            let table = look.table.as_ref().and_then(|table| table.as_ref().err());
            let table = table.map(|error| Fault::of_table(&id.table_name(), error));
            data.into_iter().chain(table).filter(Fault::refuses).for_each(|fault| self.fault(fault));
            return;
        }
        data.into_iter().for_each(|fault| self.fault(fault));
        match (&look.data, &look.table) {
            (Some(Ok(data)), Some(Err(Unreadable::Bytes(error)))) if look.short.is_some() => {
                let fault = Fault::of_bytes(FaultKind::DataShort, id.table_name(), 0, error);
                self.fault(Fault {
                    expected: format!("at most the {} bytes of {}", data.len, id.data_name()),
                    ..fault
                });
            }
            (_, Some(Err(error))) => self.fault(Fault::of_table(&id.table_name(), error)),
            (Some(_), None) => {
                let expected = format!("to be there beside {}", id.data_name());
                // Only what is ours may be removed because a crash is known to leave it.
                let ours = matches!(self.look.marker, MarkerLook::Ours(_));
                let kind = if ours { FaultKind::OrphanData } else { FaultKind::UnknownData };
                self.fault(Fault::new(kind, id.table_name(), "the file", expected, "no such file"));
            }
            (None, Some(Ok(_))) => {
                let expected = format!("to be there beside {}", id.table_name());
                self.fault(Fault::new(FaultKind::DataMissing, id.data_name(), "the file", expected, "no such file"));
            }
            (Some(Ok(data)), Some(Ok(table))) if data.len > table.data_len => {
                let more = data.len - table.data_len;
                self.note(format!("{} has {more} bytes behind its last record", id.data_name()));
            }
            _ => {}
        }
    }

    fn twice(&mut self, contents: &Contents) {
        for (older, newer) in &contents.twice {
            let expected = "one live record of the object in all buckets";
            let found = format!("another one in bucket {} at byte {}", newer.bucket, newer.offset);
            let fault = Fault::new(FaultKind::LiveTwice, older.bucket.table_name(), "a live record", expected, found);
            self.fault(Fault { key: Some(older.key.clone()), ..fault });
        }
    }

    fn records(&mut self, vfs: &dyn Vfs, contents: &Contents, progress: &mut dyn FnMut(FsckProgress)) {
        let readable = |bucket: &BucketContents| !matches!(bucket.standing, Standing::Retired | Standing::Uncommitted);
        let buckets: Vec<_> = contents.buckets.iter().filter(|bucket| readable(bucket)).collect();
        let expected_bytes = buckets.iter().flat_map(|bucket| &bucket.records).map(|record| record.record_len).sum();
        let mut verifier = Verifier::new();
        for bucket in buckets {
            let look = &self.look.buckets[&bucket.id];
            let (Some(Ok(table)), Some(Ok(_))) = (&look.table, &look.data) else { continue };
            let name = bucket.id.data_name();
            let file = match vfs.open(&name) {
                Ok(file) => file,
                Err(error) => {
                    self.fault(Fault::of_disk(&name, &error.to_string()));
                    continue;
                }
            };
            for slot in &table.slots {
                let trouble = verifier.verify(&*file, table.layout, slot);
                self.report.read_bytes += slot.record_len(table.layout);
                match (trouble, table.layout) {
                    (Ok(()), RecordLayout::Checksummed) => self.report.verified_records += 1,
                    (Ok(()), RecordLayout::MooncakeRaw) => self.report.unverifiable_records += 1,
                    (Err(Trouble::Bytes(error)), _) => {
                        let fault = Fault::of_bytes(FaultKind::RecordDamaged, &name, slot.offset, &error);
                        // A record has no version: whatever is wrong with it is damage.
                        self.fault(Fault { kind: FaultKind::RecordDamaged, key: Some(slot.key.clone()), ..fault });
                    }
                    (Err(Trouble::Disk(error)), _) => {
                        let fault = Fault::of_disk(&name, &error.to_string());
                        self.fault(Fault { offset: Some(slot.offset), key: Some(slot.key.clone()), ..fault });
                    }
                }
                let (bytes, faults) = (self.report.read_bytes, self.report.faults.total());
                progress(FsckProgress { bytes, expected_bytes, faults });
            }
        }
    }
}

/// The first numbers above everything that the directory names.
pub(super) fn needed_high_water(look: &Look) -> HighWater {
    let rounds = look.intents.iter().flatten().flat_map(|intents| &intents.rounds);
    let named = rounds.flat_map(|round| round.sources().iter().copied().chain(round.target()));
    let graves = || look.graves.iter().flatten();
    let buried = graves().flat_map(|graves| graves.keys.values()).map(|grave| grave.replaced);
    let named =
        named.chain(graves().flat_map(|graves| &graves.away).copied()).chain(buried.clone().map(|it| it.bucket));
    let last_bucket = named.chain(look.buckets.keys().copied()).max().map_or(0, |id| id.0);
    let tables = look.buckets.values().filter_map(|bucket| bucket.table.as_ref()?.as_ref().ok());
    let numbers = tables.flat_map(|table| &table.slots).map(|slot| slot.write_number);
    let last_write = numbers.chain(buried.map(|it| it.write_number)).max().filter(|last| *last > 0);
    let next_write_number = last_write.map_or(0, |last| last.saturating_add(1));
    HighWater { next_bucket: last_bucket + 1, next_write_number }
}
