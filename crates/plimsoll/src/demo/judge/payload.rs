//! Owns the judge's own reading of entry payloads (`docs/formats/entry-payloads.md`), as far as the demo makes them.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

use super::bytes::Bytes;
use crate::demo::ledger::Incarnation;

const VERSION: u8 = 1;

/// What an entry did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// An object is there.
    Put { incarnation: Incarnation, size: u64, replicas: Vec<Replica> },
    /// An object is gone.
    Remove { incarnation: Incarnation },
    /// A put was taken back.
    Revoke { incarnation: Incarnation },
    /// Memory came.
    Mount { base: u64, size: u64 },
    /// Memory went.
    Unmount,
    /// Nothing that bears on objects or space.
    Other,
}

/// One replica: `size` bytes from `address` in the segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) segment: String,
    pub(crate) address: u64,
}

impl Change {
    /// Reads the payload of an entry of this op type.
    pub(super) fn parse(op: u8, payload: &[u8]) -> Result<Self, String> {
        let mut bytes = Bytes::new(payload);
        if op == 4 {
            return Ok(Self::Other);
        }
        let version = bytes.byte()?;
        if version != VERSION {
            return Err(format!("its payload has version {version}, known is {VERSION}"));
        }
        let change = match op {
            1 => Self::put(&mut bytes)?,
            2 => Self::Revoke { incarnation: incarnation(&mut bytes)? },
            3 => Self::Remove { incarnation: incarnation(&mut bytes)? },
            5 => {
                let _endpoint = bytes.text()?;
                Self::Mount { base: bytes.number()?, size: bytes.number()? }
            }
            6 => Self::Unmount,
            7 => {
                let _endpoint = bytes.text()?;
                Self::Other
            }
            12 => {
                let _scope = bytes.byte()?;
                for _time in 0..4 {
                    bytes.number()?;
                }
                Self::Other
            }
            other => return Err(format!("its op type is {other}, which the demo does not make")),
        };
        bytes.end()?;
        Ok(change)
    }

    fn put(bytes: &mut Bytes<'_>) -> Result<Self, String> {
        let incarnation = incarnation(bytes)?;
        let _client = bytes.take(16)?;
        let size = bytes.number()?;
        let mut replicas = Vec::new();
        for _ in 0..bytes.number()? {
            replicas.push(Replica { segment: bytes.text()?.to_owned(), address: bytes.number()? });
        }
        Ok(Self::Put { incarnation, size, replicas })
    }
}

fn incarnation(bytes: &mut Bytes<'_>) -> Result<Incarnation, String> {
    Incarnation::from_slice(bytes.take(16)?).ok_or_else(|| "no incarnation".into())
}

#[cfg(test)]
mod tests {
    use super::{Change, Replica};

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    /// The examples of the published format.
    #[test]
    fn the_published_examples_read_as_described() {
        let put =
            hex("01 00000007 0b7d4c22 0000000000000005 0123456789abcdef 0011223344556677 8020 01 05 7365672d61 808004");
        let incarnation = 0x0000_0007_0b7d_4c22_0000_0000_0000_0005_u128.into();
        let replicas = vec![Replica { segment: "seg-a".into(), address: 65536 }];
        assert_eq!(Change::parse(1, &put), Ok(Change::Put { incarnation, size: 4096, replicas }));
        let remove = hex("01 00000007 0b7d4c22 0000000000000005");
        assert_eq!(Change::parse(3, &remove), Ok(Change::Remove { incarnation }));
        let mount = hex("01 0d 31302e302e302e313a39303030 808004 8080808004");
        assert_eq!(Change::parse(5, &mount), Ok(Change::Mount { base: 0x10000, size: 1 << 30 }));
        assert_eq!(Change::parse(6, &hex("01")), Ok(Change::Unmount));
        assert_eq!(Change::parse(7, &hex("01 03 683a31")), Ok(Change::Other));
        assert_eq!(Change::parse(12, &hex("01 00 d00f 8827 b0ea01 b0ea01")), Ok(Change::Other));
    }

    #[test]
    fn what_is_short_long_newer_or_unknown_is_refused() {
        let remove = hex("01 00000007 0b7d4c22 0000000000000005");
        assert!(Change::parse(3, &remove[..16]).is_err());
        assert!(Change::parse(3, &[&remove[..], &[0]].concat()).is_err());
        assert!(Change::parse(3, &[&[2], &remove[1..]].concat()).is_err());
        assert!(Change::parse(9, &[1]).is_err());
    }
}
