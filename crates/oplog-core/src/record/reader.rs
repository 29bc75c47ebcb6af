//! Owns the walk over a record's bytes: every length is checked against what is left before anything is taken.

use super::error::{RecordError, RecordErrorKind};

#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    end: usize,
}

impl<'a> Reader<'a> {
    /// Over `body`, which begins at `offset` of its record.
    pub(super) fn new(body: &'a [u8], offset: usize) -> Self {
        Self { rest: body, end: offset + body.len() }
    }

    /// Where it stands, from the start of the record.
    pub(super) fn offset(&self) -> usize {
        self.end - self.rest.len()
    }

    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// A canonical varint of at most `max`, or what is wrong with it.
    #[inline]
    pub(super) fn number(&mut self, field: &'static str, max: u64) -> Result<u64, RecordError> {
        match varint(self.rest) {
            Some((value, rest)) if value <= max => {
                self.rest = rest;
                Ok(value)
            }
            _ => Err(self.number_fault(field, max)),
        }
    }

    #[cold]
    fn number_fault(&self, field: &'static str, max: u64) -> RecordError {
        let fault = |kind, found: &str| {
            RecordError::new(
                kind,
                field,
                self.offset(),
                format_args!("a varint in its shortest form, at most {max}"),
                found,
            )
        };
        match long_varint(self.rest) {
            Ok((value, _)) => fault(RecordErrorKind::Malformed, &value.to_string()),
            Err(Bad::TooBig) => fault(RecordErrorKind::Malformed, "one above 2^64"),
            Err(Bad::NotShortest) => fault(RecordErrorKind::Malformed, "one with a zero at its end"),
            Err(Bad::End) => fault(RecordErrorKind::Truncated, "the end of the record"),
        }
    }

    /// `len` bytes, or that they are not there.
    pub(super) fn field(&mut self, field: &'static str, len: u64) -> Result<&'a [u8], RecordError> {
        let (taken, rest) = take(self.rest, len).ok_or_else(|| self.short(field, len))?;
        self.rest = rest;
        Ok(taken)
    }

    #[cold]
    pub(super) fn short(&self, field: &'static str, len: u64) -> RecordError {
        let found = format_args!("{} before the end of the record", self.left());
        RecordError::new(RecordErrorKind::Truncated, field, self.offset(), format_args!("{len} bytes"), found)
    }
}

/// The first `len` bytes and the rest.
#[inline(always)]
pub(super) fn take(bytes: &[u8], len: u64) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(usize::try_from(len).ok()?)
}

/// A canonical varint and the rest.
#[inline(always)]
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    match bytes {
        [first, rest @ ..] if *first < 0x80 => Some((u64::from(*first), rest)),
        [first, second, rest @ ..] if *second < 0x80 && *second != 0 => {
            Some((u64::from(*first & 0x7f) | (u64::from(*second) << 7), rest))
        }
        _ => long_varint(bytes).ok(),
    }
}

fn long_varint(bytes: &[u8]) -> Result<(u64, &[u8]), Bad> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        if index == 9 && *byte > 1 {
            return Err(Bad::TooBig);
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            if *byte == 0 && index > 0 {
                return Err(Bad::NotShortest);
            }
            return Ok((value, bytes.get(index + 1..).unwrap_or_default()));
        }
    }
    Err(Bad::End)
}

enum Bad {
    End,
    TooBig,
    NotShortest,
}
