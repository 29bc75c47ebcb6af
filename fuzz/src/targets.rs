//! Owns what the targets share: repairing a checksum, so that what lies behind it is reached, and awaiting what is there at once.

pub(crate) mod batch_record;
pub(crate) mod bucket_gc_intent;
pub(crate) mod bucket_graves;
pub(crate) mod bucket_high_water;
pub(crate) mod bucket_marker;
pub(crate) mod bucket_record;
pub(crate) mod bucket_table;
pub(crate) mod bucket_table_of_mooncake;
pub(crate) mod durable_prefix;
pub(crate) mod imported_entries;
pub(crate) mod leader_address;
pub(crate) mod legacy_entry;
pub(crate) mod legacy_latest;
pub(crate) mod log_keys;
pub(crate) mod master_entries;
pub(crate) mod mooncake_batch;
pub(crate) mod mooncake_prefix;
pub(crate) mod producer_view;
pub(crate) mod rpc_messages;
pub(crate) mod storage_key;
pub(crate) mod struct_pack_metadata;
pub(crate) mod struct_pack_segment;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bucket_store::format::FormatError;
use ha_types::ClusterId;
use oplog_core::LogKeys;

use crate::Verdict;

/// `data` with the text at `at` that reads `found` replaced by the number at the start of `expected`; `None` if that is not there.
fn with_expected(data: &[u8], at: usize, found: &str, expected: &str) -> Option<Vec<u8>> {
    let number: String = expected.chars().take_while(char::is_ascii_digit).collect();
    let rest = data.get(at..)?.strip_prefix(found.as_bytes())?;
    Some([data.get(..at)?, number.as_bytes(), rest].concat())
}

/// What `future` gives at once, as calls on memory do.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("memory answers at once"),
    }
}

/// The keys of one log.
fn keys() -> LogKeys {
    LogKeys::of(&ClusterId::new("c1").expect("a cluster id"))
}

/// The bytes of a golden file: hex with comments.
fn golden(text: &str) -> Vec<u8> {
    let code = text.lines().filter_map(|line| line.split('#').next());
    code.flat_map(str::split_whitespace).map(|byte| u8::from_str_radix(byte, 16).expect("hex")).collect()
}

/// A refusal of a bucket file, which must name what, field, place, expected and found.
fn refused_file(e: &FormatError, data: &[u8]) -> Verdict {
    assert!(!e.what().is_empty());
    Verdict::refused_at(e, data, (e.field(), e.offset() as usize), (&e.expected(), &e.found()))
}

/// `data` with its last four bytes replaced by the CRC-32C of those before.
fn with_last_crc(data: &[u8]) -> Option<Vec<u8>> {
    let (body, _) = data.split_last_chunk::<4>()?;
    Some([body, &crc32c::crc32c(body).to_le_bytes()].concat())
}
