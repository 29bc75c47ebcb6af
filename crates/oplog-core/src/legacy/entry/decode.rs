//! Owns reading an entry strictly: exactly the fields of the format, each once and of its type, and every sum checked.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ha_types::{Seq, TenantId};
use serde::de::{DeserializeOwned, Deserializer as _, MapAccess, Visitor};
use serde_json::Deserializer;
use serde_json::value::RawValue;

use super::error::excerpt;
use super::{LegacyEntry, LegacyEntryError, LegacyProblem, OP_TYPES, checksum, prefix_hash};
use crate::LogKeys;

impl LegacyEntry {
    /// Reads the value under `key`, a key below `keys`.
    ///
    /// # Errors
    /// [`LegacyEntryError`] names key, field, expected and found: a key that is none of an entry or another entry's; anything but
    /// one JSON object; a field that is missing, unknown, there twice or of another type; a number that is negative, not whole
    /// or too large; a payload that is not padded standard base64; a wrong checksum; the prefix hash of another key.
    pub fn decode(keys: &LogKeys, key: &[u8], value: &[u8]) -> Result<Self, LegacyEntryError> {
        match keys.legacy_seq(key) {
            Some(seq) => Self::decode_at(key, seq, value),
            None => {
                let at = At { key };
                let found = excerpt(key.rsplit(|b| *b == b'/').next().unwrap_or(key));
                Err(at.error(LegacyProblem::Key, "the key", KEY_RULE, found))
            }
        }
    }

    /// Reads the value under `key`, which is that of `seq`.
    pub(crate) fn decode_at(key: &[u8], seq: Seq, value: &[u8]) -> Result<Self, LegacyEntryError> {
        let at = At { key };
        let fields = at.fields(value)?;
        let found = at.number(&fields, Field::SequenceId, u64::MAX)?;
        if found != seq.get() {
            let (problem, expected) = (LegacyProblem::WrongSequence, format!("{seq}, as the key says"));
            return Err(at.error(problem, Field::SequenceId.name(), &expected, found.to_string()));
        }
        let op_type = at.number(&fields, Field::OpType, u64::from(u8::MAX))?;
        let op_type = u8::try_from(op_type).ok().filter(|op| (1..=Self::MAX_OP_TYPE).contains(op));
        let Some(op_type) = op_type else {
            return Err(at.value(&fields, Field::OpType, OP_TYPES));
        };
        let key = at.text(&fields, Field::ObjectKey)?;
        at.check_prefix_hash(&fields, &key)?;
        let payload = at.text(&fields, Field::Payload)?;
        let Ok(payload) = STANDARD.decode(payload) else {
            let expected = "padded standard base64";
            let found = fields.get(Field::Payload).map_or_else(String::new, |raw| excerpt(raw.get().as_bytes()));
            return Err(at.error(LegacyProblem::Base64, Field::Payload.name(), expected, found));
        };
        let sum = at.number(&fields, Field::Checksum, u64::from(u32::MAX))?;
        if sum != u64::from(checksum(&payload)) {
            let expected = format!("{}, the checksum of the payload", checksum(&payload));
            return Err(at.error(LegacyProblem::Checksum, Field::Checksum.name(), &expected, sum.to_string()));
        }
        Ok(Self {
            seq,
            timestamp_ms: at.number(&fields, Field::TimestampMs, u64::MAX)?,
            op_type,
            tenant: at.tenant(&fields)?,
            key,
            payload: payload.into(),
            key_sequence_id: match fields.get(Field::KeySequenceId) {
                Some(_) => Some(at.number(&fields, Field::KeySequenceId, u64::MAX)?),
                None => None,
            },
        })
    }
}

const KEY_RULE: &str = "a key of this cluster that ends in exactly 20 digits that fit 64 bits";

macro_rules! fields {
    ($($variant:ident = $name:literal,)*) => {
        /// The fields of the format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Field { $($variant,)* }

        impl Field {
            const ALL: &'static [Self] = &[$(Self::$variant,)*];

            const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

fields! {
    Checksum = "checksum",
    KeySequenceId = "key_sequence_id",
    ObjectKey = "object_key",
    OpType = "op_type",
    Payload = "payload",
    PrefixHash = "prefix_hash",
    SequenceId = "sequence_id",
    TenantId = "tenant_id",
    TimestampMs = "timestamp_ms",
}

/// The values of one object, not read yet: at most one of each field.
#[derive(Default)]
struct Fields<'a>(Vec<(Field, &'a RawValue)>);

impl<'a> Fields<'a> {
    fn get(&self, field: Field) -> Option<&'a RawValue> {
        self.0.iter().find(|(f, _)| *f == field).map(|(_, raw)| *raw)
    }
}

/// The first thing wrong with the names of an object's fields.
struct BadName {
    problem: LegacyProblem,
    name: String,
}

struct Collect;

impl<'de> Visitor<'de> for Collect {
    type Value = Result<Fields<'de>, BadName>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one JSON object")
    }

    /// Reads to the end even after a bad name, so that what is no JSON at all is said first.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut fields, mut bad) = (Fields::default(), None);
        while let Some(name) = map.next_key::<String>()? {
            let raw: &RawValue = map.next_value()?;
            let problem = match Field::ALL.iter().find(|field| field.name() == name) {
                None => LegacyProblem::Unknown,
                Some(field) if fields.get(*field).is_some() => LegacyProblem::Duplicate,
                Some(field) => {
                    fields.0.push((*field, raw));
                    continue;
                }
            };
            bad.get_or_insert(BadName { problem, name });
        }
        Ok(bad.map_or(Ok(fields), Err))
    }
}

/// Where a value is, for its errors.
struct At<'k> {
    key: &'k [u8],
}

impl At<'_> {
    #[cold]
    fn error(&self, problem: LegacyProblem, field: &str, expected: &str, found: String) -> LegacyEntryError {
        let (key, field, expected) = (self.key.escape_ascii().to_string(), field.to_owned(), expected.to_owned());
        LegacyEntryError { key, field, problem, expected, found }
    }

    fn value(&self, fields: &Fields<'_>, field: Field, expected: &str) -> LegacyEntryError {
        self.wrong(LegacyProblem::Value, fields, field, expected)
    }

    fn wrong(&self, problem: LegacyProblem, fields: &Fields<'_>, field: Field, expected: &str) -> LegacyEntryError {
        let found = fields.get(field).map_or_else(String::new, |raw| excerpt(raw.get().as_bytes()));
        self.error(problem, field.name(), expected, found)
    }

    fn fields<'a>(&self, value: &'a [u8]) -> Result<Fields<'a>, LegacyEntryError> {
        let mut json = Deserializer::from_slice(value);
        let read = json.deserialize_map(Collect).and_then(|fields| json.end().map(|()| fields));
        match read {
            Ok(Ok(fields)) => Ok(fields),
            Ok(Err(bad)) => {
                let expected = match bad.problem {
                    LegacyProblem::Duplicate => "each field once",
                    _ => "only the fields of the format",
                };
                let name = excerpt(bad.name.as_bytes());
                let field = if name.is_empty() { "a field without a name" } else { &name };
                Err(self.error(bad.problem, field, expected, format!("{name:?} {}", bad.problem.what_is_wrong())))
            }
            Err(error) => {
                // What another type holds stands in the error, however long it is.
                let found = excerpt(error.to_string().as_bytes());
                Err(self.error(LegacyProblem::Json, "the value", "one JSON object", found))
            }
        }
    }

    fn read<T: DeserializeOwned>(
        &self,
        fields: &Fields<'_>,
        field: Field,
        expected: &str,
    ) -> Result<T, LegacyEntryError> {
        let Some(raw) = fields.get(field) else {
            return Err(self.error(LegacyProblem::Missing, field.name(), expected, "no such field".into()));
        };
        serde_json::from_str(raw.get()).map_err(|_| self.wrong(LegacyProblem::Type, fields, field, expected))
    }

    fn number(&self, fields: &Fields<'_>, field: Field, most: u64) -> Result<u64, LegacyEntryError> {
        let expected = format!("a whole number from 0 to {most}");
        match self.read::<u64>(fields, field, &expected)? {
            number if number <= most => Ok(number),
            _ => Err(self.wrong(LegacyProblem::Type, fields, field, &expected)),
        }
    }

    fn text(&self, fields: &Fields<'_>, field: Field) -> Result<String, LegacyEntryError> {
        self.read(fields, field, "a string of Unicode text")
    }

    fn tenant(&self, fields: &Fields<'_>) -> Result<String, LegacyEntryError> {
        if fields.get(Field::TenantId).is_none() {
            return Ok(TenantId::default_tenant().as_str().to_owned());
        }
        let tenant = self.text(fields, Field::TenantId)?;
        match TenantId::check(&tenant) {
            Ok(()) => Ok(tenant),
            Err(_) => Err(self.value(fields, Field::TenantId, TENANT_RULE)),
        }
    }

    fn check_prefix_hash(&self, fields: &Fields<'_>, key: &str) -> Result<(), LegacyEntryError> {
        let hash = self.number(fields, Field::PrefixHash, u64::from(u32::MAX))?;
        if hash == 0 || hash == u64::from(prefix_hash(key)) {
            return Ok(());
        }
        let expected = format!("0 or {}, the hash of object_key", prefix_hash(key));
        Err(self.error(LegacyProblem::PrefixHash, Field::PrefixHash.name(), &expected, hash.to_string()))
    }
}

const TENANT_RULE: &str = "a tenant id: 1 to 128 bytes without control characters and without a leading '_'";

impl LegacyProblem {
    const fn what_is_wrong(self) -> &'static str {
        match self {
            Self::Duplicate => "a second time",
            _ => "as well",
        }
    }
}
