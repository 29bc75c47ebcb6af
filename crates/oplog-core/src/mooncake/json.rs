//! Owns cutting compact JSON into its parts, each with its place, without giving any of them a meaning.
//!
//! The parts stay text until their type is known, so that nested input costs no stack: skipping a value is a loop.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON value as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) text: &'a str,
    /// Where it begins, in bytes from the start of the whole.
    pub(super) at: usize,
}

/// What is wrong with a text: where, what had to be there, what is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) expected: String,
    pub(super) found: String,
}

impl Wrong {
    #[cold]
    pub(super) fn new(at: usize, expected: impl ToString, found: impl ToString) -> Self {
        Self { at, expected: expected.to_string(), found: found.to_string() }
    }
}

impl<'a> Part<'a> {
    /// The whole of `bytes`.
    pub(super) fn whole(bytes: &'a [u8]) -> Result<Self, Wrong> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self { text, at: 0 }),
            Err(error) => Err(Wrong::new(error.valid_up_to(), "UTF-8", "another byte")),
        }
    }

    /// Where the text of this part ends.
    pub(super) fn end(&self) -> usize {
        self.at + self.text.len()
    }

    fn of(self, raw: &'a RawValue) -> Self {
        let text = raw.get();
        Self { text, at: self.at + text.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr()) }
    }

    /// The elements of a compact array of at most `most`; how many there are otherwise is all that is learnt.
    pub(super) fn elements(self, most: usize, what: &str) -> Result<Vec<Self>, Wrong> {
        let (parts, count) = self.read(Collect { most }, what)?;
        if count > most {
            return Err(Wrong::new(self.at, format_args!("at most {most} elements"), count));
        }
        let parts: Vec<Self> = parts.into_iter().map(|raw| self.of(raw)).collect();
        // One byte before each element and one behind the last: anything more is white space.
        let mut next = self.at + 1;
        for part in &parts {
            if part.at != next {
                return Err(Wrong::new(next, "compact JSON", "white space"));
            }
            next = part.end() + 1;
        }
        if next.max(self.at + 2) != self.end() {
            return Err(Wrong::new(next.saturating_sub(1), "compact JSON", "white space"));
        }
        Ok(parts)
    }

    /// The members of an object of at most `most`.
    pub(super) fn members(self, most: usize, what: &str) -> Result<Vec<(Cow<'a, str>, Self)>, Wrong> {
        let (members, count) = self.read(CollectMembers { most }, what)?;
        if count > most {
            return Err(Wrong::new(self.at, format_args!("at most {most} fields"), count));
        }
        Ok(members.into_iter().map(|(name, raw)| (name, self.of(raw))).collect())
    }

    fn read<S: DeserializeSeed<'a>>(self, seed: S, what: &str) -> Result<S::Value, Wrong> {
        let mut json = serde_json::Deserializer::from_str(self.text);
        seed.deserialize(&mut json).and_then(|value| json.end().map(|()| value)).map_err(|error| {
            let lines = self.text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len);
            let at = lines.sum::<usize>() + error.column().saturating_sub(1);
            // JSON of another type is wrong from its first byte on.
            let at = if error.is_data() { 0 } else { at.min(self.text.len()) };
            // What another type holds stands in the error, however long it is.
            Wrong::new(self.at + at, what, shortened(&error.to_string()))
        })
    }

    /// An unsigned number of at most `most`: digits, no sign, fraction, exponent or leading zero.
    pub(super) fn number(self, most: u64) -> Result<u64, Wrong> {
        let digits = !self.text.is_empty() && self.text.bytes().all(|b| b.is_ascii_digit());
        let value = digits.then(|| self.text.parse::<u64>().ok()).flatten();
        value
            .filter(|value| *value <= most)
            .ok_or_else(|| Wrong::new(self.at, format_args!("a whole number from 0 to {most}"), self.show()))
    }

    /// A string with its escapes resolved.
    pub(super) fn string(self) -> Result<Cow<'a, str>, Wrong> {
        if !self.text.starts_with('"') {
            return Err(Wrong::new(self.at, "a string", self.show()));
        }
        self.read(Text, "a string of whole characters")
    }

    /// Short, whatever it is.
    pub(super) fn show(self) -> String {
        shortened(self.text)
    }
}

/// The beginning of `text`, escaped.
fn shortened(text: &str) -> String {
    const MOST: usize = 48;
    match text.char_indices().nth(MOST) {
        None => text.escape_default().to_string(),
        Some((cut, _)) => format!("{}...", text.get(..cut).unwrap_or_default().escape_default()),
    }
}

struct Collect {
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Collect {
    type Value = (Vec<&'de RawValue>, usize);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Collect {
    type Value = (Vec<&'de RawValue>, usize);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while parts.len() < self.most {
            let Some(raw) = seq.next_element::<&RawValue>()? else { break };
            parts.push(raw);
        }
        let mut count = parts.len();
        while seq.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok((parts, count))
    }
}

struct CollectMembers {
    most: usize,
}

impl<'de> DeserializeSeed<'de> for CollectMembers {
    type Value = (Vec<(Cow<'de, str>, &'de RawValue)>, usize);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for CollectMembers {
    type Value = (Vec<(Cow<'de, str>, &'de RawValue)>, usize);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut members, mut count) = (Vec::new(), 0);
        while let Some(name) = map.next_key_seed(Text)? {
            count += 1;
            if count > self.most {
                map.next_value::<IgnoredAny>()?;
            } else {
                members.push((name, map.next_value()?));
            }
        }
        Ok((members, count))
    }
}

/// A string, borrowed where it has no escape.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}
