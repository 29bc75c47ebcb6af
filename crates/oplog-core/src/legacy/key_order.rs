//! Owns the doubt about a reading in which the sequence of one key does not rise, and the second reading of that key's entries (RFC hot
//! standby §5). It applies nothing, and it never puts entries into another order: that state nobody has ever served.

use bytes::Bytes;
use ha_types::Seq;

use super::{KeySequences, LegacyEntry, LegacyLog};
use crate::{FaultKind, LogError, LogKeys, ReplayFault};

/// One operation on a key, as a reading showed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyStep {
    /// The entry.
    pub seq: Seq,
    /// Its `key_sequence_id`.
    pub id: u64,
}

/// Two entries of one key whose `key_sequence_id` does not rise, in one reading: a doubt about that reading before it is a fault of
/// the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDisorder {
    /// The tenant of the key.
    pub tenant: String,
    /// The key.
    pub key: String,
    /// The first entry of the key that is remembered: from there its entries are read again.
    pub first: Seq,
    /// The entry before.
    pub before: KeyStep,
    /// The entry that is not above it; it was not applied.
    pub at: KeyStep,
}

impl KeyDisorder {
    /// As a fault of the log, once it is believed: it names key, both entries and both ids.
    #[must_use]
    pub fn fault(&self, keys: &LogKeys) -> ReplayFault {
        let Self { tenant, key, before, at, .. } = self;
        let expected = format!(
            "key_sequence_id: above {} for tenant {tenant:?}, key \"{}\", as entry {} has it",
            before.id,
            key.escape_debug(),
            before.seq
        );
        let found = format!("{} in entry {}", at.id, at.seq);
        ReplayFault::new(FaultKind::LegacyKeySequence, &keys.legacy_entry(at.seq), expected, found).at(at.seq)
    }
}

/// What the entries of one key show when they are read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyReading {
    /// They rise up to the entry in doubt, which is there.
    InOrder,
    /// They do not.
    OutOfOrder(KeyDisorder),
    /// The entry in doubt is not there.
    Absent,
    /// One of the entries up to it cannot be decoded.
    Undecodable(ReplayFault),
}

impl LegacyLog {
    /// Reads the entries of the key in doubt again, from its first to the one in doubt, in pages of at most `page_bytes`.
    ///
    /// # Errors
    /// [`LogError::Store`]: nothing was read again.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn read_key(&self, doubt: &KeyDisorder, page_bytes: usize) -> Result<KeyReading, LogError> {
        let before = Seq::new(doubt.first.get().saturating_sub(1));
        let mut scan = self.scan(before, doubt.at.seq, page_bytes);
        let mut counts = KeySequences::default();
        let mut there = false;
        loop {
            let page = scan.next_page().await?;
            if page.is_empty() {
                return Ok(if there { KeyReading::InOrder } else { KeyReading::Absent });
            }
            for (seq, value) in &page {
                if let Some(end) = read_one(self.keys(), doubt, &mut counts, *seq, value) {
                    return Ok(end);
                }
                there |= *seq == doubt.at.seq;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// What ends the second reading at this entry, if anything does.
fn read_one(
    keys: &LogKeys,
    doubt: &KeyDisorder,
    counts: &mut KeySequences,
    seq: Seq,
    value: &Bytes,
) -> Option<KeyReading> {
    let entry = match LegacyEntry::decode_at(&keys.legacy_entry(seq), seq, value) {
        Ok(entry) => entry,
        Err(error) => return Some(KeyReading::Undecodable(ReplayFault::from(error).at(seq))),
    };
    if entry.tenant != doubt.tenant || entry.key != doubt.key {
        return None;
    }
    if let Some(disorder) = counts.disorder(&entry) {
        return Some(KeyReading::OutOfOrder(disorder));
    }
    // No time passes in one reading, so that nothing is forgotten.
    counts.record(&entry, ha_types::MonoTime::ZERO);
    None
}
