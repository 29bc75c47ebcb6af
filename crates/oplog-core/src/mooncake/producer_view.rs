//! Owns Mooncake's producer view: the number of the primary that may write, which every one of its transactions compares.

/// The number. A take-over raises it, so that writers of Mooncake's that still hold the old one are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProducerView(u64);

/// Why bytes are no producer view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("producer view: expected a decimal number from 1 to 2^63 - 1 without sign or leading zeros, found {found}")]
pub struct ProducerViewError {
    /// What is there.
    pub found: String,
}

impl ProducerView {
    /// The first one: what a take-over writes where there was none.
    pub const FIRST: Self = Self(1);

    /// Reads the canonical decimal.
    ///
    /// # Errors
    /// [`ProducerViewError`] shows what is there.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProducerViewError> {
        const MOST_SHOWN: usize = 32;
        let digits = bytes.iter().all(u8::is_ascii_digit) && bytes.first().is_some_and(|first| *first != b'0');
        let value =
            if digits { std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<i64>().ok()) } else { None };
        let value = value.and_then(|value| u64::try_from(value).ok());
        value.map(Self).ok_or_else(|| {
            let found = format!("\"{}\"", bytes.get(..MOST_SHOWN).unwrap_or(bytes).escape_ascii());
            ProducerViewError { found }
        })
    }

    /// The next one; `None` at the end of the numbers.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).filter(|next| i64::try_from(*next).is_ok()).map(Self)
    }

    /// The canonical decimal.
    #[must_use]
    pub fn encode(self) -> String {
        self.0.to_string()
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}
