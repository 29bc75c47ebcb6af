//! Owns how encodings of a batch record are told apart: by their first byte.

/// How a batch record is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Ours: `PLB1` and a binary body. It names its epoch and the record before it.
    Plb1,
    /// Mooncake's: a JSON array. It reads as epoch 0 and names no record before it.
    MooncakeJson,
}

impl Encoding {
    /// What a record that begins like this one is, if it is one at all.
    #[must_use]
    pub fn of(record: &[u8]) -> Self {
        match record.first() {
            Some(b'[') => Self::MooncakeJson,
            _ => Self::Plb1,
        }
    }

    /// A short name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plb1 => "plb1",
            Self::MooncakeJson => "mooncake",
        }
    }
}
