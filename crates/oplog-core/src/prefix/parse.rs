//! Owns the strict reading of the line. What the numbers mean together is checked by its caller.

use ha_types::{BatchId, Epoch, Owner, Seq};

use super::{DurablePrefix, PrefixError};

pub(super) fn line(bytes: &[u8]) -> Result<DurablePrefix, PrefixError> {
    if bytes.first() == Some(&b'{') {
        return Err(PrefixError::new(
            "line",
            0,
            "a line that starts with schema_version=1",
            "Mooncake's JSON prefix, which this build neither follows nor claims",
        ));
    }
    if bytes.is_empty() {
        return Err(PrefixError::new("line", 0, "a line that starts with schema_version=1", "an empty value"));
    }
    let mut cursor = Cursor { bytes, at: 0 };
    cursor.literal("schema_version", "schema_version=")?;
    let version_at = cursor.at;
    let version = cursor.decimal("schema_version")?;
    if version != DurablePrefix::SCHEMA_VERSION {
        return Err(PrefixError::new("schema_version", version_at, "1, the only one that this build reads", version));
    }
    cursor.literal("epoch", " epoch=")?;
    let epoch = Epoch::new(cursor.decimal("epoch")?);
    cursor.literal("owner", " owner=")?;
    let owner = Owner::new(cursor.hex("owner", 16)?);
    cursor.literal("batch_id", " batch_id=")?;
    let batch_id = BatchId::new(cursor.decimal("batch_id")?);
    cursor.literal("last_seq", " last_seq=")?;
    let last_seq = Seq::new(cursor.decimal("last_seq")?);
    let covered = bytes.get(..cursor.at).unwrap_or_default();
    cursor.literal("checksum", " checksum=")?;
    let checksum_at = cursor.at;
    let found = cursor.hex("checksum", 8)?;
    if let Some(rest) = bytes.get(cursor.at..).filter(|rest| !rest.is_empty()) {
        return Err(PrefixError::new("line", cursor.at, "the end of the value", show(rest)));
    }
    let expected = crate::crc::crc32c(covered);
    if u64::from(expected) != found {
        let expected = format_args!("{expected:08x}, the CRC-32C of the bytes before it");
        return Err(PrefixError::new("checksum", checksum_at, expected, format_args!("{found:08x}")));
    }
    Ok(DurablePrefix { epoch, owner, batch_id, last_seq })
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn literal(&mut self, field: &'static str, literal: &str) -> Result<(), PrefixError> {
        if self.rest().starts_with(literal.as_bytes()) {
            self.at += literal.len();
            return Ok(());
        }
        Err(PrefixError::new(field, self.at, format_args!("{literal:?}"), show(self.rest())))
    }

    fn decimal(&mut self, field: &'static str) -> Result<u64, PrefixError> {
        let digits = self.rest().iter().take_while(|b| b.is_ascii_digit()).count();
        let text = self.rest().get(..digits).unwrap_or_default();
        let fail = |expected: &str, found: &[u8]| PrefixError::new(field, self.at, expected, show(found));
        if text.is_empty() {
            return Err(fail("a decimal number", self.rest()));
        }
        if text.len() > 1 && text.starts_with(b"0") {
            return Err(fail("a decimal number without leading zeros", text));
        }
        let value = text
            .iter()
            .try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit.wrapping_sub(b'0'))));
        let value = value.ok_or_else(|| fail("a number below 2^64", text))?;
        if value == u64::MAX {
            return Err(fail("a number that leaves room for the next one", text));
        }
        self.at += digits;
        Ok(value)
    }

    fn hex(&mut self, field: &'static str, digits: usize) -> Result<u64, PrefixError> {
        let fail = |found: &[u8]| {
            PrefixError::new(field, self.at, format_args!("{digits} lower-case hex digits"), show(found))
        };
        let text = self.rest().get(..digits).ok_or_else(|| fail(self.rest()))?;
        let mut value = 0_u64;
        for byte in text {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => return Err(fail(text)),
            };
            value = (value << 4) | u64::from(digit);
        }
        self.at += digits;
        Ok(value)
    }
}

/// Printable and short, whatever the bytes are.
fn show(bytes: &[u8]) -> String {
    const MOST: usize = 32;
    if bytes.is_empty() {
        return "the end of the value".into();
    }
    let more = if bytes.len() > MOST { "..." } else { "" };
    format!("\"{}\"{more}", bytes.get(..MOST).unwrap_or(bytes).escape_ascii())
}
