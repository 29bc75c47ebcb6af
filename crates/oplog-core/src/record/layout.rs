//! Owns the numbers of the record's layout, once for the encoder and the decoder.

/// The schema version that this build reads and writes.
pub const SCHEMA_VERSION: u8 = 1;

/// The largest body, in bytes, as written and as inflated. A larger one is refused before anything is allocated for it.
pub const MAX_BODY_BYTES: usize = 64 << 20;

/// The most entries in one record.
pub const MAX_BATCH_ENTRIES: usize = 65_536;

/// The largest payload of one entry, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 10 << 20;

pub(super) const MAGIC: [u8; 4] = *b"PLB1";

pub(super) const FLAG_ZSTD: u8 = 1;

/// Magic, version, flags, CRC.
pub(super) const HEADER_BYTES: usize = 10;

pub(super) const FLAGS_AT: usize = 5;

pub(super) const CRC_AT: usize = 6;

/// The smallest entry: op type, tenant index, one byte of key and one of payload, each with its length.
pub(super) const MIN_ENTRY_BYTES: usize = 6;

/// The smallest tenant: its length and one byte.
pub(super) const MIN_TENANT_BYTES: usize = 2;

/// The most bytes before the tenants: header, three 64-bit varints, one 32-bit, one 64-bit.
pub(super) const MAX_FIXED_BYTES: usize = HEADER_BYTES + 3 * 10 + 5 + 10;

/// The most bytes of the number of entries, of the number of tenants and of a tenant index: a varint up to 65,536.
pub(super) const MAX_COUNT_BYTES: usize = 3;

/// The most bytes of an entry beside tenant, key and payload: op type, index, lengths of key, payload and tenant.
pub(super) const MAX_ENTRY_FRAMING: usize = 1 + MAX_COUNT_BYTES + 2 + 4 + 2;
