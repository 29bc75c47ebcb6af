//! Owns writing an entry, byte for byte as existing clusters hold it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;

use super::{LegacyEntry, checksum, prefix_hash};
use crate::json::to_ascii_vec;

/// The JSON object. Its fields are in the order of the alphabet, as the format has them.
#[derive(Serialize)]
struct Wire<'a> {
    checksum: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_sequence_id: Option<u64>,
    object_key: &'a str,
    op_type: u8,
    payload: String,
    prefix_hash: u32,
    sequence_id: u64,
    tenant_id: &'a str,
    timestamp_ms: u64,
}

impl LegacyEntry {
    /// The value under the entry's key.
    ///
    /// # Panics
    /// Never: numbers and text always have a JSON form.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let wire = Wire {
            checksum: checksum(&self.payload),
            key_sequence_id: self.key_sequence_id,
            object_key: &self.key,
            op_type: self.op_type,
            payload: STANDARD.encode(&self.payload),
            prefix_hash: prefix_hash(&self.key),
            sequence_id: self.seq.get(),
            tenant_id: &self.tenant,
            timestamp_ms: self.timestamp_ms,
        };
        to_ascii_vec(&wire).expect("numbers and text always have a JSON form").into()
    }
}
