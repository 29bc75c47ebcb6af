//! Owns the form of `latest` and of a snapshot's sequence: decimal ASCII without padding.

use ha_types::Seq;

use super::entry::excerpt;
use crate::{FaultKind, ReplayFault};

/// Reads the value of `key` strictly: digits only, no leading zero, within 64 bits.
pub(crate) fn parse_latest(key: &[u8], value: &[u8]) -> Result<Seq, ReplayFault> {
    let canonical = match value {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let text = std::str::from_utf8(value).ok().filter(|_| canonical);
    text.and_then(|text| text.parse().ok()).map(Seq::new).ok_or_else(|| {
        let expected = "a sequence in decimal digits without padding";
        ReplayFault::new(FaultKind::LegacyLatest, key, expected, format!("\"{}\"", excerpt(value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unpadded_decimal_that_fits_is_a_sequence() {
        for (value, seq) in [("0", 0), ("5", 5), ("10", 10), ("18446744073709551615", u64::MAX)] {
            assert_eq!(parse_latest(b"k", value.as_bytes()), Ok(Seq::new(seq)));
        }
        for value in ["", "00", "05", "+5", "-1", "5\n", " 5", "5.0", "0x5", "18446744073709551616", "five", "\u{665}"]
        {
            let fault = parse_latest(b"/oplog/c/latest", value.as_bytes()).unwrap_err();
            assert_eq!((fault.kind, fault.key.as_str()), (FaultKind::LegacyLatest, "/oplog/c/latest"), "{value:?}");
        }
        let long = parse_latest(b"k", &[b'9'; 5000]).unwrap_err();
        assert!(long.found.len() < 80, "{long}");
    }
}
