//! Owns `.bucket_id_high_water`: the bound below which bucket ids and write numbers may have been used. Design §8.

use super::error::FormatError;
use super::names::BucketId;
use super::reader::Frame;
use super::record::MAX_WRITE_NUMBER;

/// Raised by blocks, durably, before any number of the block is used, so that none is ever used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HighWater {
    /// No bucket id at or above it was ever used. At least 1; 2^63 when all are.
    pub next_bucket: u64,
    /// No write number at or above it was ever used. 2^63 when all are.
    pub next_write_number: u64,
}

const FRAME: Frame = Frame { what: "bucket id high-water file", magic: *b"PLBH", version: 1, known: "version 1" };

impl HighWater {
    /// The bytes of the file.
    ///
    /// # Errors
    /// A bound that [`HighWater::decode`] would refuse.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        self.check()?;
        let mut out = FRAME.begin(16);
        out.extend_from_slice(&self.next_bucket.to_le_bytes());
        out.extend_from_slice(&self.next_write_number.to_le_bytes());
        FRAME.end(out)
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// [`FormatError`] for anything but what [`HighWater::encode`] makes.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut body = FRAME.open(bytes)?;
        let next_bucket = body.u64("next bucket id")?;
        let next_write_number = body.u64("next write number")?;
        body.end()?;
        let read = Self { next_bucket, next_write_number };
        read.check()?;
        Ok(read)
    }

    fn check(&self) -> Result<(), FormatError> {
        let within = |field, at, least, highest: u64, found: u64| {
            if (least..=highest + 1).contains(&found) {
                return Ok(());
            }
            let expected = format!("{least} to {}", highest + 1);
            Err(FormatError::in_field(FRAME.what, field, at, expected, found.to_string()))
        };
        within("next bucket id", 6, 1, BucketId::MAX.0, self.next_bucket)?;
        within("next write number", 14, 0, MAX_WRITE_NUMBER, self.next_write_number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::test_bytes::{hex, refuses_every_cut_and_flip, refuses_more_in_the_body, with_crc};
    use super::HighWater;

    #[test]
    fn golden_bytes_of_version_1() {
        let high = HighWater { next_bucket: 65, next_write_number: 65_537 };
        let bytes = high.encode().unwrap();
        assert_eq!(hex(&bytes), "504c4248010041000000000000000100010000000000cb47fe28");
        assert_eq!(HighWater::decode(&bytes), Ok(high));
        refuses_every_cut_and_flip(&bytes, HighWater::decode);
        refuses_more_in_the_body(&bytes, HighWater::decode);
    }

    #[test]
    fn b15_an_unknown_version_is_told_from_damage() {
        let mut bytes = HighWater { next_bucket: 1, next_write_number: 0 }.encode().unwrap();
        bytes[4] = 2;
        let err = HighWater::decode(&bytes).unwrap_err();
        assert!(err.is_unknown_version());
        assert_eq!((err.field(), err.offset(), err.found().as_str()), ("version", 4, "2"));
    }

    #[test]
    fn a_bound_that_no_directory_can_have_is_refused() {
        for next_bucket in [0, (1 << 63) + 1, u64::MAX] {
            let high = HighWater { next_bucket, next_write_number: 1 };
            assert_eq!(high.encode().unwrap_err().found(), next_bucket.to_string());
            let mut body = b"PLBH\x01\0".to_vec();
            body.extend_from_slice(&next_bucket.to_le_bytes());
            body.extend_from_slice(&1_u64.to_le_bytes());
            assert_eq!(HighWater::decode(&with_crc(body)).unwrap_err().field(), "next bucket id");
        }
        for next_write_number in [(1 << 63) + 1, u64::MAX] {
            let high = HighWater { next_bucket: 1, next_write_number };
            assert_eq!(high.encode().unwrap_err().found(), next_write_number.to_string());
            let mut body = b"PLBH\x01\0\x01\0\0\0\0\0\0\0".to_vec();
            body.extend_from_slice(&next_write_number.to_le_bytes());
            let error = HighWater::decode(&with_crc(body)).unwrap_err();
            assert_eq!((error.field(), error.offset()), ("next write number", 14));
        }
    }

    proptest! {
        #[test]
        fn round_trip(next_bucket in 1..=1_u64 << 63, next_write_number in 0..=1_u64 << 63) {
            let high = HighWater { next_bucket, next_write_number };
            prop_assert_eq!(HighWater::decode(&high.encode().unwrap()), Ok(high));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = HighWater::decode(&bytes);
            let _ = HighWater::decode(&with_crc([&b"PLBH\x01\0"[..], &bytes].concat()));
        }
    }
}
