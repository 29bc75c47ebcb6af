//! Owns `.mooncake_local_disk_segment_id`: whose directory this is. RFC *bucket deletion* §1.

use ha_types::{ClusterId, SegmentId};

use crate::crc::crc32c;

use super::error::FormatError;

/// The identity of one bucket directory, for all time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The storage that tasks are routed to.
    pub segment: SegmentId,
    /// The cluster that writes to it.
    pub cluster: ClusterId,
}

const WHAT: &str = "bucket directory marker";
const MAX_BYTES: usize = 1024;

impl Marker {
    /// How every marker of ours begins, whatever its version.
    pub(crate) const HEAD: &str = "plimsoll-local-disk ";

    /// The bytes of the file: four lines of text.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut text = format!("{}1\nsegment {}\ncluster {}\n", Self::HEAD, self.segment, self.cluster);
        let crc = crc32c(text.as_bytes());
        text.push_str(&format!("crc32c {crc:08x}\n"));
        text.into_bytes()
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// [`FormatError`] for anything but what [`Marker::encode`] makes.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes.len() > MAX_BYTES {
            let (expected, found) = (MAX_BYTES as u64, bytes.len() as u64);
            return Err(FormatError::Length { what: WHAT, field: "the file", offset: 0, expected, found });
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|e| FormatError::in_field(WHAT, "the text", e.valid_up_to() as u64, "UTF-8", "other bytes"))?;
        let mut lines = Lines { left: text, at: 0 };
        let (_, version) = lines.next("version", Self::HEAD)?;
        if version != "1" {
            return Err(bad_version(version));
        }
        let (segment_at, segment) = lines.next("segment", "segment ")?;
        let (cluster_at, cluster) = lines.next("cluster", "cluster ")?;
        let signed = lines.at;
        let (crc_at, crc) = lines.next("crc32c", "crc32c ")?;
        if !lines.left.is_empty() {
            return Err(FormatError::in_field(WHAT, "end of the file", lines.at as u64, "nothing", shown(lines.left)));
        }
        check_crc(crc, crc_at, crc32c(&bytes[..signed]))?;
        let segment = SegmentId::new(segment)
            .map_err(|e| FormatError::in_field(WHAT, "segment", segment_at, "a segment id", e.to_string()))?;
        let cluster = ClusterId::new(cluster)
            .map_err(|e| FormatError::in_field(WHAT, "cluster", cluster_at, "a cluster id", e.to_string()))?;
        Ok(Self { segment, cluster })
    }
}

fn bad_version(found: &str) -> FormatError {
    match found.parse::<u64>() {
        Ok(number) if number.to_string() == found => FormatError::UnknownVersion {
            what: WHAT,
            field: "version",
            offset: Marker::HEAD.len() as u64,
            known: "version 1",
            found: number,
        },
        _ => FormatError::in_field(WHAT, "version", Marker::HEAD.len() as u64, "a number", shown(found)),
    }
}

fn check_crc(text: &str, offset: u64, found: u32) -> Result<(), FormatError> {
    let digits = text.len() == 8 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match u32::from_str_radix(text, 16) {
        Ok(expected) if digits && expected == found => Ok(()),
        Ok(expected) if digits => Err(FormatError::Checksum { what: WHAT, field: "crc32c", offset, expected, found }),
        _ => Err(FormatError::in_field(WHAT, "crc32c", offset, "8 lower-case hex digits", shown(text))),
    }
}

fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(64).collect::<String>())
}

struct Lines<'a> {
    left: &'a str,
    at: usize,
}

impl<'a> Lines<'a> {
    /// What follows `head` in the next line, and where that begins.
    fn next(&mut self, field: &'static str, head: &str) -> Result<(u64, &'a str), FormatError> {
        let at = self.at as u64;
        let Some((line, left)) = self.left.split_once('\n') else {
            return Err(FormatError::in_field(WHAT, field, at, format!("a line \"{head}..\""), shown(self.left)));
        };
        let Some(value) = line.strip_prefix(head) else {
            return Err(FormatError::in_field(WHAT, field, at, format!("a line \"{head}..\""), shown(line)));
        };
        self.left = left;
        self.at += line.len() + 1;
        Ok((at + head.len() as u64, value))
    }
}

#[cfg(test)]
mod tests {
    use ha_types::{ClusterId, SegmentId};
    use proptest::prelude::*;

    use super::super::error::FormatError;
    use super::super::test_bytes::refuses_every_cut_and_flip;
    use super::Marker;

    fn marker(segment: &str, cluster: &str) -> Marker {
        Marker { segment: SegmentId::new(segment).unwrap(), cluster: ClusterId::new(cluster).unwrap() }
    }

    fn with_crc(text: &str) -> Vec<u8> {
        format!("{text}crc32c {:08x}\n", ::crc32c::crc32c(text.as_bytes())).into_bytes()
    }

    #[test]
    fn golden_bytes_of_version_1() {
        let made = marker("ssd-7 at rack 3", "c1");
        let bytes = made.encode();
        let golden = "plimsoll-local-disk 1\nsegment ssd-7 at rack 3\ncluster c1\ncrc32c c9fbfdfc\n";
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), golden);
        assert_eq!(Marker::decode(&bytes), Ok(made));
        refuses_every_cut_and_flip(&bytes, Marker::decode);
    }

    #[test]
    fn each_fault_names_its_line() {
        let cases: [(Vec<u8>, &str, u64); 9] = [
            (b"".to_vec(), "version", 0),
            (b"3f2c9a6e-segment\n".to_vec(), "version", 0),
            (with_crc("plimsoll-local-disk one\nsegment s\ncluster c\n"), "version", 20),
            (with_crc("plimsoll-local-disk 1\ncluster c\nsegment s\n"), "segment", 22),
            (with_crc("plimsoll-local-disk 1\nsegment s\ncluster a b\n"), "cluster", 40),
            (with_crc("plimsoll-local-disk 1\nsegment \ncluster c\n"), "segment", 30),
            (b"plimsoll-local-disk 1\nsegment s\ncluster c\ncrc32c 1234567X\n".to_vec(), "crc32c", 49),
            (b"plimsoll-local-disk 1\nsegment s\ncluster c\n\xff".to_vec(), "the text", 42),
            ([&marker("s", "c").encode()[..], b"x"].concat(), "end of the file", 58),
        ];
        for (bytes, field, offset) in cases {
            let err = Marker::decode(&bytes).unwrap_err();
            assert_eq!((err.field(), err.offset()), (field, offset), "{err}");
            assert!(!err.is_unknown_version());
        }
        assert!(matches!(Marker::decode(&[b'x'; 2000]), Err(FormatError::Length { found: 2000, .. })));
    }

    #[test]
    fn b15_an_unknown_version_is_told_from_damage() {
        let err = Marker::decode(b"plimsoll-local-disk 2\nanything").unwrap_err();
        assert!(err.is_unknown_version(), "{err}");
        assert_eq!((err.offset(), err.found().as_str()), (20, "2"));
    }

    proptest! {
        #[test]
        fn round_trip(segment in "[^\\p{Cc}]{1,40}", cluster in "[A-Za-z0-9_.-]{1,40}") {
            let made = marker(&segment, &cluster);
            prop_assert_eq!(Marker::decode(&made.encode()), Ok(made));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), text in "(plimsoll-local-disk |segment |1|\n|.){0,20}") {
            let _ = Marker::decode(&bytes);
            let _ = Marker::decode(text.as_bytes());
            let _ = Marker::decode(&with_crc(&format!("plimsoll-local-disk 1\n{text}")));
        }
    }
}
