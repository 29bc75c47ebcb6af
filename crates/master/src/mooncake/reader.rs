//! Owns reading plain values one after the other, none beyond the end.

use super::error::StructPackError;

/// What is left of a payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    /// Which payload it is, for errors.
    pub(super) payload: &'static str,
    pub(super) rest: &'a [u8],
    /// Where `rest` begins.
    pub(super) at: usize,
    /// How many bytes the length of a string or vector has.
    pub(super) length_width: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(payload: &'static str, bytes: &'a [u8]) -> Self {
        Self { payload, rest: bytes, at: 0, length_width: 1 }
    }

    #[cold]
    pub(super) fn fault(
        &self,
        field: &'static str,
        at: usize,
        expected: impl std::fmt::Display,
        found: impl std::fmt::Display,
    ) -> StructPackError {
        StructPackError::new(self.payload, field, at, expected, found)
    }

    pub(super) fn bytes(&mut self, field: &'static str, len: u64) -> Result<&'a [u8], StructPackError> {
        let cut = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let Some((taken, rest)) = cut else {
            let found = format_args!("{} before the end", self.rest.len());
            return Err(self.fault(field, self.at, format_args!("{len} bytes"), found));
        };
        self.rest = rest;
        self.at += taken.len();
        Ok(taken)
    }

    /// An unsigned number of `width` bytes, little endian.
    fn number(&mut self, field: &'static str, width: usize) -> Result<u64, StructPackError> {
        let bytes = self.bytes(field, width as u64)?;
        Ok(bytes.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, StructPackError> {
        self.number(field, 1).map(|value| value as u8)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, StructPackError> {
        self.number(field, 4).map(|value| value as u32)
    }

    pub(super) fn i32(&mut self, field: &'static str) -> Result<i32, StructPackError> {
        self.u32(field).map(u32::cast_signed)
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, StructPackError> {
        self.number(field, 8)
    }

    /// A number of as many bytes as the metainfo says.
    pub(super) fn wide(&mut self, field: &'static str, width: usize) -> Result<u64, StructPackError> {
        self.number(field, width)
    }

    pub(super) fn bool(&mut self, field: &'static str) -> Result<bool, StructPackError> {
        let at = self.at;
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.fault(field, at, "0 or 1", other)),
        }
    }

    /// The length of a vector whose elements have at least `least` bytes each.
    pub(super) fn count(&mut self, field: &'static str, least: usize) -> Result<usize, StructPackError> {
        let at = self.at;
        let count = self.number(field, self.length_width)?;
        let most = self.rest.len() / least.max(1);
        usize::try_from(count).ok().filter(|count| *count <= most).ok_or_else(|| {
            let expected = format_args!("at most {most} elements, as many as the bytes left can hold");
            self.fault(field, at, expected, count)
        })
    }

    pub(super) fn string(&mut self, field: &'static str) -> Result<String, StructPackError> {
        let at = self.at;
        let len = self.number(field, self.length_width)?;
        let bytes = self.bytes(field, len)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => {
                const SHOWN: usize = 48;
                let (shown, more) = bytes.get(..SHOWN).map_or((bytes, ""), |shown| (shown, "..."));
                Err(self.fault(field, at, "UTF-8", format_args!("\"{}{more}\"", shown.escape_ascii())))
            }
        }
    }

    /// A field that older writers do not have: absent at the end of the input, else preceded by whether it has a value.
    pub(super) fn compatible<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Self, &'static str) -> Result<T, StructPackError>,
    ) -> Result<Option<T>, StructPackError> {
        if self.rest.is_empty() || !self.bool(field)? {
            return Ok(None);
        }
        read(self, field).map(Some)
    }

    pub(super) fn end(&self) -> Result<(), StructPackError> {
        match self.rest.len() {
            0 => Ok(()),
            more => Err(self.fault("end", self.at, "the end of the payload", format_args!("{more} more bytes"))),
        }
    }
}
