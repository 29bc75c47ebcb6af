//! Owns the table of targets.

use crate::Verdict;
use crate::targets::{
    batch_record, bucket_gc_intent, bucket_graves, bucket_high_water, bucket_marker, bucket_record, bucket_table,
    bucket_table_of_mooncake, durable_prefix, imported_entries, leader_address, legacy_entry, legacy_latest, log_keys,
    master_entries, mooncake_batch, mooncake_prefix, producer_view, rpc_messages, storage_key, struct_pack_metadata,
    struct_pack_segment,
};

/// An input to start from, and what is known of it.
#[derive(Clone, Debug)]
pub struct Seed {
    /// Its file name.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether the decoder must accept it.
    pub accepted: bool,
}

impl Seed {
    pub(crate) fn good(name: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name, bytes: bytes.into(), accepted: true }
    }

    pub(crate) fn bad(name: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name, bytes: bytes.into(), accepted: false }
    }
}

/// One decoder under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its binary and of its corpus.
    pub name: &'static str,
    /// Decodes, checks what must hold, and says what the decoder said of the bytes as they are.
    ///
    /// # Panics
    /// If something does not hold: that is the finding.
    pub run: fn(&[u8]) -> Verdict,
    /// Where to start.
    pub seeds: fn() -> Vec<Seed>,
}

/// All of them, by name.
pub const TARGETS: &[Target] = &[
    batch_record::TARGET,
    bucket_gc_intent::TARGET,
    bucket_graves::TARGET,
    bucket_high_water::TARGET,
    bucket_marker::TARGET,
    bucket_record::TARGET,
    bucket_table::TARGET,
    bucket_table_of_mooncake::TARGET,
    durable_prefix::TARGET,
    imported_entries::TARGET,
    leader_address::TARGET,
    legacy_entry::TARGET,
    legacy_latest::TARGET,
    log_keys::TARGET,
    master_entries::TARGET,
    mooncake_batch::TARGET,
    mooncake_prefix::TARGET,
    producer_view::TARGET,
    rpc_messages::TARGET,
    storage_key::TARGET,
    struct_pack_metadata::TARGET,
    struct_pack_segment::TARGET,
];

/// Runs the target `name` on `data`.
///
/// # Panics
/// If there is no such target, and on every finding.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of this table");
    (target.run)(data);
}
