//! Owns the entries that every run writes: a 32-byte key and 128 bytes of payload, prebuilt.

use oplog_core::NewEntry;

/// So many different entries, used in turn.
const COUNT: usize = 1024;

/// Keys and payloads.
#[derive(Debug)]
pub(crate) struct Entries(Vec<([u8; 32], [u8; 128])>);

impl Entries {
    pub(crate) fn new() -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        Self((0..COUNT).map(|_| (std::array::from_fn(|_| byte()), std::array::from_fn(|_| byte()))).collect())
    }

    /// The entry `index`, counted round and round.
    pub(crate) fn get(&self, index: usize) -> NewEntry<'_> {
        let (key, payload) = &self.0[index % COUNT];
        NewEntry { op_type: 1, tenant: "default", key, payload }
    }
}
