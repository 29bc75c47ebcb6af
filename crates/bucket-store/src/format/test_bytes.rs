//! Owns what the tests of all formats share. Nothing here is in the product.

use std::fmt::Debug;

use super::error::FormatError;

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a hex text; blanks are skipped.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// The bytes and their CRC-32C.
pub(crate) fn with_crc(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = ::crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Every shorter file, every file one byte longer and every file with one flipped bit is refused.
pub(crate) fn refuses_every_cut_and_flip<T: Debug>(bytes: &[u8], decode: impl Fn(&[u8]) -> Result<T, FormatError>) {
    for len in 0..bytes.len() {
        let made = decode(&bytes[..len]);
        assert!(made.is_err(), "the first {len} of {} bytes decode: {made:?}", bytes.len());
    }
    for more in [0, 1, 0xff] {
        assert!(decode(&[bytes, &[more]].concat()).is_err(), "one byte more, {more}, decodes");
    }
    let mut bytes = bytes.to_vec();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let made = decode(&bytes);
        assert!(made.is_err(), "with bit {bit} flipped it decodes: {made:?}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

/// A file that goes on after its last field is refused, rightly signed or not.
pub(crate) fn refuses_more_in_the_body<T: Debug>(bytes: &[u8], decode: impl Fn(&[u8]) -> Result<T, FormatError>) {
    let body = &bytes[..bytes.len() - 4];
    let err = decode(&with_crc([body, &[0, 0]].concat())).unwrap_err();
    assert_eq!(
        (err.field(), err.offset(), err.found().as_str()),
        ("end of the body", body.len() as u64, "2 bytes more")
    );
}
