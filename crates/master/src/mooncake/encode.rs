//! Owns an encoder of Mooncake's payloads, for tests only: nothing of ours ever writes them. It shares no code with the decoders;
//! it is fed with plain numbers and texts.

/// How wide lengths are written, and whether a debug build's type literal is embedded.
#[derive(Clone, Copy, Debug)]
pub struct Style<'a> {
    /// Bytes of the total length: 0, 2, 4 or 8.
    pub total: usize,
    /// Bytes of the length of a string or vector: 1, 2, 4 or 8.
    pub length: usize,
    /// The type literal without its final zero.
    pub literal: Option<&'a [u8]>,
}

impl Style<'_> {
    /// A release build's, with room for compatible fields.
    pub const PLAIN: Self = Self { total: 2, length: 1, literal: None };
    /// A release build's without metainfo.
    pub const BARE: Self = Self { total: 0, length: 1, literal: None };
}

/// Fields, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    out: Vec<u8>,
    length: usize,
}

impl Fields {
    /// None yet; strings and vectors have lengths of `length` bytes.
    #[must_use]
    pub fn new(length: usize) -> Self {
        Self { out: Vec::new(), length }
    }

    /// Bytes as they are.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.out.extend_from_slice(bytes);
        self
    }

    /// A byte.
    #[must_use]
    pub fn u8(self, value: u8) -> Self {
        self.raw(&[value])
    }

    /// A signed number of four bytes.
    #[must_use]
    pub fn i32(self, value: i32) -> Self {
        self.raw(&value.to_le_bytes())
    }

    /// A number of eight bytes.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.raw(&value.to_le_bytes())
    }

    /// The length of a vector.
    #[must_use]
    pub fn count(self, count: usize) -> Self {
        let width = self.length;
        self.raw(&(count as u64).to_le_bytes()[..width])
    }

    /// A string.
    #[must_use]
    pub fn string(self, text: &str) -> Self {
        self.count(text.len()).raw(text.as_bytes())
    }

    /// A memory replica: descriptor id, bytes, address, endpoint, status.
    #[must_use]
    pub fn memory(self, id: u64, size: u64, address: u64, endpoint: &str, status: i32) -> Self {
        self.u64(id).u8(0).u64(size).u64(address).string("tcp").string(endpoint).i32(status)
    }

    /// The payload of a type.
    #[must_use]
    pub fn sealed(self, hash: u32, style: Style<'_>) -> Vec<u8> {
        let power = |bytes: usize| bytes.trailing_zeros() as u8;
        let total_bits = if style.total == 0 { 0 } else { power(style.total) };
        let metainfo = total_bits | (u8::from(style.literal.is_some()) << 2) | (power(style.length) << 3);
        let literal: Vec<u8> = style.literal.map_or_else(Vec::new, |literal| [literal, &[0]].concat());
        if metainfo == 0 {
            return [&hash.to_le_bytes()[..], &self.out].concat();
        }
        let length = 5 + style.total + literal.len() + self.out.len();
        let total = &(length as u64).to_le_bytes()[..style.total];
        [&(hash | 1).to_le_bytes()[..], &[metainfo], total, &literal, &self.out].concat()
    }
}

/// A MetadataPayload of one complete memory replica, as today's Mooncake writes it.
#[must_use]
pub fn put_end(client: u128, size: u64, address: u64, endpoint: &str) -> Vec<u8> {
    put_end_in(client, size, &[(size, address, endpoint, 3)])
}

/// The same with any number of memory replicas: bytes, address, endpoint and status.
#[must_use]
pub fn put_end_in(client: u128, size: u64, replicas: &[(u64, u64, &str, i32)]) -> Vec<u8> {
    let head = Fields::new(1).u64((client >> 64) as u64).u64(client as u64).u64(size).count(replicas.len());
    let all = (1..)
        .zip(replicas)
        .fold(head, |out, (id, (size, address, endpoint, status))| out.memory(id, *size, *address, endpoint, *status));
    all.u8(0).u8(0).u8(0).sealed(0xc047_38c2, Style::PLAIN)
}

/// A SegmentMount of memory, or a SegmentUpdate.
#[must_use]
pub fn mount(name: &str, endpoint: &str, capacity: u64) -> Vec<u8> {
    Fields::new(1).string(name).string(endpoint).u64(capacity).u8(1).string("").sealed(0x7b47_0444, Style::BARE)
}

/// A SegmentUnmount.
#[must_use]
pub fn unmount(endpoint: &str) -> Vec<u8> {
    Fields::new(1).string(endpoint).sealed(0x3c78_5b6a, Style::BARE)
}
