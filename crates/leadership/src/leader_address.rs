//! Owns what a leader may say under the election key about itself: where clients reach it. It asks no name server and connects to nothing.

use std::fmt;
use std::str::FromStr;

/// `HOST:PORT`, as a leader writes it under the election key and clients are told it.
///
/// HOST is a name, an IPv4 address, or an IPv6 address in brackets, in visible ASCII; PORT is 1 to 65535, in plain decimal; 256 bytes
/// together. One address has one text: what decodes encodes to the same bytes. It is checked when it is read too, as anybody may
/// have written the key, and what is told to a client travels in headers of bounded size.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LeaderAddress(String);

/// Why bytes are no [`LeaderAddress`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {field} of a leader's address, at byte {offset}: expected {expected}, found {found}")]
pub struct LeaderAddressError {
    /// `length`, `host` or `port`.
    pub field: &'static str,
    /// Where in the bytes it begins to be wrong.
    pub offset: usize,
    /// What may stand there.
    pub expected: &'static str,
    /// What stands there, escaped, in at most a few dozen bytes.
    pub found: String,
}

/// How much of a wrong value is shown.
const SHOWN_BYTES: usize = 32;

impl LeaderAddress {
    /// The longest address, in bytes: a DNS name of full length, a colon and a port fit.
    pub const MAX_BYTES: usize = 260;

    /// The address that `bytes` are.
    ///
    /// # Errors
    /// [`LeaderAddressError`], which names the part and where it is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, LeaderAddressError> {
        if bytes.len() > Self::MAX_BYTES {
            let found = format!("{} bytes", bytes.len());
            return Err(LeaderAddressError { field: "length", offset: 0, expected: "at most 260 bytes", found });
        }
        let at = |field, offset: usize, expected| {
            let rest = bytes.get(offset..).unwrap_or_default();
            let found = rest.get(..SHOWN_BYTES).unwrap_or(rest).escape_ascii();
            LeaderAddressError { field, offset, expected, found: format!("\"{found}\"") }
        };
        let Some(colon) = bytes.iter().rposition(|b| *b == b':') else {
            return Err(at("port", bytes.len(), "a colon and a port"));
        };
        let (host, port) = (bytes.get(..colon).unwrap_or_default(), bytes.get(colon + 1..).unwrap_or_default());
        let (inside, begin, in_brackets) = match host {
            [b'[', inside @ .., b']'] => (inside, 1, true),
            _ => (host, 0, false),
        };
        if inside.is_empty() {
            return Err(at("host", begin, "a name or an address"));
        }
        let allowed = |b: u8| {
            b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_') || (in_brackets && matches!(b, b':' | b'%'))
        };
        if let Some(wrong) = inside.iter().position(|b| !allowed(*b)) {
            return Err(at("host", begin + wrong, "letters, digits, '.', '-' or '_'; an IPv6 address in brackets"));
        }
        let number = std::str::from_utf8(port).ok().filter(|p| p.bytes().all(|b| b.is_ascii_digit()));
        let number = number.filter(|p| !p.starts_with('0')).and_then(|p| p.parse::<u16>().ok());
        match (number, std::str::from_utf8(bytes)) {
            (Some(_), Ok(text)) => Ok(Self(text.to_owned())),
            _ => Err(at("port", colon + 1, "a number from 1 to 65535 without leading zeros")),
        }
    }

    /// The address as it is written and told.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LeaderAddress {
    type Err = LeaderAddressError;

    fn from_str(text: &str) -> Result<Self, LeaderAddressError> {
        Self::decode(text.as_bytes())
    }
}

impl fmt::Display for LeaderAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LeaderAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaderAddress({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_taken_as_they_are() {
        let longest = format!("{}:65535", "h".repeat(LeaderAddress::MAX_BYTES - 6));
        for text in ["h:1", "10.0.0.1:7400", "[::1]:65535", "[fe80::1%eth0]:7400", "a_b-c.example:7400", &longest] {
            let address = LeaderAddress::decode(text.as_bytes()).expect(text);
            assert_eq!((address.as_str(), address.to_string().as_str()), (text, text));
            assert_eq!(text.parse(), Ok(address));
        }
    }

    #[test]
    fn what_is_no_address_is_named_by_part_and_place() {
        let too_long = format!("{}:65535", "h".repeat(LeaderAddress::MAX_BYTES - 5));
        for (bytes, field, offset) in [
            (&b""[..], "port", 0),
            (b"host", "port", 4),
            (b":1", "host", 0),
            (b"[]:1", "host", 1),
            (b"h:", "port", 2),
            (b"h:0", "port", 2),
            (b"h:07", "port", 2),
            (b"h:+7", "port", 2),
            (b"h:65536", "port", 2),
            (b"h:7 ", "port", 2),
            (b"::1:7", "host", 0),
            (b"http://h:1", "host", 4),
            (b"u@h:1", "host", 1),
            (b"h\n:1", "host", 1),
            (b"h\xff:1", "host", 1),
            (b"[h:1", "host", 0),
            (too_long.as_bytes(), "length", 0),
        ] {
            let error = LeaderAddress::decode(bytes).expect_err("no address");
            assert_eq!((error.field, error.offset), (field, offset), "{error}");
            assert!(error.to_string().len() < 300 && !error.to_string().contains('\n'), "{error}");
        }
    }
}
