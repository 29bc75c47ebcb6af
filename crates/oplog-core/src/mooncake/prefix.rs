//! Owns Mooncake's durable prefix: a JSON object that starts with `{`, where ours starts with `schema_version`.

use ha_types::{BatchId, Epoch, Owner, Seq};

use super::json::{Part, Wrong};
use crate::{DurablePrefix, PrefixError};

/// The decoded prefix of a log that Mooncake writes. It reads as epoch 0 (design §3.4): nobody of ours has claimed that log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MooncakePrefix {
    /// The last durable batch; zero before the first.
    pub batch_id: BatchId,
    /// The last durable entry.
    pub last_seq: Seq,
    /// Under which producer view it was written, where the writer said so.
    pub producer_view_version: Option<u64>,
}

/// The only schema version there is.
const SCHEMA_VERSION: u64 = 1;

/// More fields than any version has.
const MOST_FIELDS: usize = 8;

impl MooncakePrefix {
    /// Reads the object: each field at most once, none that is not known, each a whole number.
    ///
    /// # Errors
    /// [`PrefixError`] names the field, its offset, what had to be there and what is.
    pub fn decode(bytes: &[u8]) -> Result<Self, PrefixError> {
        let line = |wrong: Wrong| PrefixError::new("object", wrong.at, wrong.expected, wrong.found);
        let whole = Part::whole(bytes).map_err(line)?;
        if whole.text.len() > DurablePrefix::MAX_BYTES {
            let expected = format_args!("at most {} bytes", DurablePrefix::MAX_BYTES);
            return Err(PrefixError::new("object", 0, expected, whole.text.len()));
        }
        let members = whole.members(MOST_FIELDS, "an object of batch_id, last_seq and schema_version").map_err(line)?;
        let mut fields = Fields::default();
        for (name, value) in members {
            fields.take(&name, value)?;
        }
        fields.prefix(whole.end())
    }

    /// The same boundary as ours would say it.
    #[must_use]
    pub fn boundary(&self) -> DurablePrefix {
        DurablePrefix { epoch: Epoch::ZERO, owner: Owner::NOBODY, batch_id: self.batch_id, last_seq: self.last_seq }
    }
}

/// Value and place of each field, once it was met.
#[derive(Default)]
struct Fields {
    batch_id: Option<(u64, usize)>,
    last_seq: Option<(u64, usize)>,
    producer_view_version: Option<(u64, usize)>,
    schema_version: Option<(u64, usize)>,
}

impl Fields {
    fn take(&mut self, name: &str, value: Part<'_>) -> Result<(), PrefixError> {
        // Room for the next one: as in our own prefix, no number is at the end of the numbers.
        const MOST: u64 = u64::MAX - 1;
        let (field, slot, most) = match name {
            "batch_id" => ("batch_id", &mut self.batch_id, MOST),
            "last_seq" => ("last_seq", &mut self.last_seq, MOST),
            "producer_view_version" => {
                ("producer_view_version", &mut self.producer_view_version, i64::MAX.unsigned_abs())
            }
            "schema_version" => ("schema_version", &mut self.schema_version, MOST),
            other => {
                let found = format_args!("{:?}", other.chars().take(48).collect::<String>());
                return Err(PrefixError::new("object", value.at, "fields that this build knows", found));
            }
        };
        if slot.is_some() {
            return Err(PrefixError::new(field, value.at, "each field once", "a second one"));
        }
        let number = value.number(most).map_err(|w| PrefixError::new(field, w.at, w.expected, w.found))?;
        *slot = Some((number, value.at));
        Ok(())
    }

    fn prefix(self, end: usize) -> Result<MooncakePrefix, PrefixError> {
        let missing = |field| PrefixError::new(field, end, "the field", "the end of the object");
        let (version, version_at) = self.schema_version.ok_or_else(|| missing("schema_version"))?;
        if version != SCHEMA_VERSION {
            let expected = "1, the only one that this build reads";
            return Err(PrefixError::new("schema_version", version_at, expected, version));
        }
        let (batch_id, _) = self.batch_id.ok_or_else(|| missing("batch_id"))?;
        let (last_seq, last_seq_at) = self.last_seq.ok_or_else(|| missing("last_seq"))?;
        if last_seq < batch_id {
            let expected = format_args!("at least {batch_id}, one entry for each batch");
            return Err(PrefixError::new("last_seq", last_seq_at, expected, last_seq));
        }
        if let Some((0, at)) = self.producer_view_version {
            return Err(PrefixError::new("producer_view_version", at, "a number above 0", 0));
        }
        Ok(MooncakePrefix {
            batch_id: BatchId::new(batch_id),
            last_seq: Seq::new(last_seq),
            producer_view_version: self.producer_view_version.map(|(version, _)| version),
        })
    }
}
