//! Owns the name of an object as the ledger and the judge write it: 16 bytes, shown as 32 hex digits.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of one object for all time, opaque to the demo.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Incarnation([u8; 16]);

impl Incarnation {
    /// `None` for any other number of bytes.
    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The bytes.
    pub(crate) const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl From<u128> for Incarnation {
    fn from(number: u128) -> Self {
        Self(number.to_be_bytes())
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Incarnation {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Incarnation {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let number = (text.len() == 32).then(|| u128::from_str_radix(&text, 16).ok()).flatten();
        number.map(Self::from).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no incarnation")))
    }
}
