//! Owns the walk over the bytes of one small file: every step checks what is left, and an error knows where it is. It must not know any file.

use crate::crc::crc32c;

use super::MAX_FILE_BYTES;
use super::error::FormatError;

/// The frame of a binary file: magic, version, body, CRC-32C of all before it.
pub(crate) struct Frame {
    pub(crate) what: &'static str,
    pub(crate) magic: [u8; 4],
    pub(crate) version: u16,
    pub(crate) known: &'static str,
}

impl Frame {
    /// Bytes before the body.
    pub(crate) const HEAD_BYTES: usize = 6;
    /// Bytes of the frame around the body.
    pub(crate) const BYTES: usize = Self::HEAD_BYTES + 4;

    /// Begins a file of this kind.
    pub(crate) fn begin(&self, body_bytes: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(body_bytes + Self::BYTES);
        out.extend_from_slice(&self.magic);
        out.extend_from_slice(&self.version.to_le_bytes());
        out
    }

    /// Ends it with its checksum.
    pub(crate) fn end(&self, mut out: Vec<u8>) -> Result<Vec<u8>, FormatError> {
        self.check_len(out.len() + 4)?;
        out.extend_from_slice(&crc32c(&out).to_le_bytes());
        Ok(out)
    }

    /// Checks the length that a file of this kind has or would have.
    pub(crate) fn check_len(&self, len: usize) -> Result<(), FormatError> {
        let (expected, found) = (MAX_FILE_BYTES, len as u64);
        if found > expected {
            return Err(FormatError::Length { what: self.what, field: "the file", offset: 0, expected, found });
        }
        Ok(())
    }

    /// Checks the frame and gives the body. The version comes before the checksum: an unknown one may have another frame.
    pub(crate) fn open<'a>(&self, bytes: &'a [u8]) -> Result<Reader<'a>, FormatError> {
        self.open_since(self.version, bytes).map(|(_, body)| body)
    }

    /// The same for a file that may be of any version from `oldest` to the one that is written, and which one it is.
    pub(crate) fn open_since<'a>(&self, oldest: u16, bytes: &'a [u8]) -> Result<(u16, Reader<'a>), FormatError> {
        self.check_len(bytes.len())?;
        let mut head = Reader { what: self.what, left: bytes, at: 0 };
        let magic: [u8; 4] = head.array("magic")?;
        if magic != self.magic {
            let show = |m: [u8; 4]| format!("\"{}\"", m.escape_ascii());
            return Err(FormatError::in_field(self.what, "magic", 0, show(self.magic), show(magic)));
        }
        let version = head.u16("version")?;
        if !(oldest..=self.version).contains(&version) {
            let (what, known, found) = (self.what, self.known, u64::from(version));
            return Err(FormatError::UnknownVersion { what, field: "version", offset: 4, known, found });
        }
        let Some((body, stored)) = head.left.split_last_chunk::<4>() else {
            return Err(head.too_short("crc", 4));
        };
        let offset = (Self::HEAD_BYTES + body.len()) as u64;
        let (expected, found) = (u32::from_le_bytes(*stored), crc32c(&bytes[..Self::HEAD_BYTES + body.len()]));
        if expected != found {
            return Err(FormatError::Checksum { what: self.what, field: "crc", offset, expected, found });
        }
        Ok((version, Reader { what: self.what, left: body, at: head.at }))
    }
}

/// What is left of the body, and where that is in the file.
pub(crate) struct Reader<'a> {
    pub(crate) what: &'static str,
    left: &'a [u8],
    at: u64,
}

impl<'a> Reader<'a> {
    /// Where the next field begins.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.left.len()
    }

    pub(crate) fn bytes(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], FormatError> {
        let (taken, left) = self.left.split_at_checked(len).ok_or_else(|| self.too_short(field, len as u64))?;
        self.left = left;
        self.at += len as u64;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], FormatError> {
        let (taken, left) = self.left.split_first_chunk::<N>().ok_or_else(|| self.too_short(field, N as u64))?;
        self.left = left;
        self.at += N as u64;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, FormatError> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, FormatError> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, FormatError> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, FormatError> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// Nothing may follow.
    pub(crate) fn end(&self) -> Result<(), FormatError> {
        if self.left.is_empty() {
            return Ok(());
        }
        let found = format!("{} bytes more", self.left.len());
        Err(FormatError::in_field(self.what, "end of the body", self.at, "nothing", found))
    }

    pub(crate) fn too_short(&self, field: &'static str, expected: u64) -> FormatError {
        let (what, offset, found) = (self.what, self.at, self.left.len() as u64);
        FormatError::Length { what, field, offset, expected, found }
    }
}
