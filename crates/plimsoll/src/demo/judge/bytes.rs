//! Owns reading numbers and pieces off the front of some bytes, never past their end.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(super) const fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (piece, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| format!("{count} bytes are announced and {} are left", self.rest.len()))?;
        self.rest = rest;
        Ok(piece)
    }

    /// The next byte.
    pub(super) fn byte(&mut self) -> Result<u8, String> {
        self.take(1)?.first().copied().ok_or_else(|| "no byte is left".into())
    }

    /// A number in groups of seven bits, least significant first, in the fewest bytes.
    pub(super) fn number(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let group = u64::from(byte & 0x7f);
            if group << shift >> shift != group {
                return Err("a number has more than 64 bits".into());
            }
            value |= group << shift;
            if byte & 0x80 == 0 {
                let shortest = byte != 0 || shift == 0;
                return if shortest { Ok(value) } else { Err("a number is longer than it must be".into()) };
            }
        }
        Err("a number has more than ten bytes".into())
    }

    /// A piece with its length in front.
    pub(super) fn piece(&mut self) -> Result<&'a [u8], String> {
        let length = self.number()?;
        let length = usize::try_from(length).map_err(|_| format!("a length of {length} bytes"))?;
        self.take(length)
    }

    /// A piece that is text.
    pub(super) fn text(&mut self) -> Result<&'a str, String> {
        std::str::from_utf8(self.piece()?).map_err(|e| format!("a text is not UTF-8: {e}"))
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), String> {
        if self.rest.is_empty() { Ok(()) } else { Err(format!("{} bytes follow the end", self.rest.len())) }
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn numbers() {
        for (bytes, value) in [
            (&[0x00][..], 0),
            (&[0x7f], 127),
            (&[0x80, 0x20], 4096),
            (&[0x80, 0x80, 0x04], 65536),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], u64::MAX),
        ] {
            assert_eq!(Bytes::new(bytes).number(), Ok(value));
        }
        for bytes in [
            &[][..],
            &[0x80],
            &[0x80, 0x00],
            &[0xff; 11],
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02],
        ] {
            assert!(Bytes::new(bytes).number().is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn an_announced_length_is_not_believed() {
        assert!(Bytes::new(&[0xff, 0xff, 0xff, 0xff, 0x0f, 1]).piece().is_err());
        assert_eq!(Bytes::new(&[2, b'a', b'b']).text(), Ok("ab"));
        assert!(Bytes::new(&[1, 0xff]).text().is_err());
    }
}
