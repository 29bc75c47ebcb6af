//! Owns the one CRC-32C of the crate: carry-less multiplication where the processor has it, so that verifying costs little beside reading.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C (Castagnoli) of `bytes`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The CRC-32C of what had `crc`, followed by `bytes`.
pub(crate) fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::{crc32c, crc32c_append};

    #[test]
    fn it_is_castagnolis_in_one_piece_and_in_two() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let bytes: Vec<u8> = (0..5000_u32).map(|n| ((n * n) >> 3) as u8).collect();
        for len in [0, 1, 7, 8, 63, 64, 255, 256, 1000, 4096, 5000] {
            let expected = ::crc32c::crc32c(&bytes[..len]);
            assert_eq!(crc32c(&bytes[..len]), expected, "{len} bytes");
            for at in [0, 1, len / 3, len / 2, len] {
                let (first, second) = bytes[..len].split_at(at.min(len));
                assert_eq!(crc32c_append(crc32c(first), second), expected, "{at} of {len} bytes");
            }
        }
    }
}
