//! Owns the one CRC-32C of the crate, for the prefix and the batch record.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C (Castagnoli) of `bytes`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// A CRC-32C that began with the bytes `A` and `B` and is taken over what follows piece by piece.
pub(crate) struct RunningCrc<const A: u8, const B: u8>(Digest);

impl<const A: u8, const B: u8> RunningCrc<A, B> {
    /// Before what follows.
    #[inline]
    pub(crate) fn new() -> Self {
        let state = const { step(step(!0, A), B) };
        Self(Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(state)))
    }

    /// Takes the next piece.
    #[inline]
    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The CRC of all.
    #[inline]
    pub(crate) fn finish(&self) -> u32 {
        self.0.finalize() as u32
    }
}

/// CRC-32C of the bytes `A` and `B` followed by `bytes`, which need not lie beside each other.
#[inline]
pub(crate) fn crc32c_after<const A: u8, const B: u8>(bytes: &[u8]) -> u32 {
    let mut crc = RunningCrc::<A, B>::new();
    crc.update(bytes);
    crc.finish()
}

/// The state after one more byte, bit by bit.
const fn step(state: u32, byte: u8) -> u32 {
    let mut state = state ^ byte as u32;
    let mut bit = 0;
    while bit < 8 {
        state = if state & 1 == 1 { (state >> 1) ^ 0x82f6_3b78 } else { state >> 1 };
        bit += 1;
    }
    state
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{RunningCrc, crc32c, crc32c_after};

    #[test]
    fn the_check_value_is_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_after::<b'1', b'2'>(b"3456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    proptest! {
        #[test]
        fn another_implementation_agrees_at_every_length_and_alignment(bytes in proptest::collection::vec(any::<u8>(), 0..3000), from in 0_usize..70) {
            let bytes = bytes.get(from..).unwrap_or(&bytes);
            prop_assert_eq!(crc32c(bytes), ::crc32c::crc32c(bytes));
            let whole = [&[1, 0], bytes].concat();
            prop_assert_eq!(crc32c_after::<1, 0>(bytes), ::crc32c::crc32c(&whole));
            let mut running = RunningCrc::<1, 0>::new();
            bytes.chunks(from + 1).for_each(|piece| running.update(piece));
            prop_assert_eq!(running.finish(), ::crc32c::crc32c(&whole));
        }
    }
}
