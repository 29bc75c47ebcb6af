//! Any byte of any value changed: the audit reports it, or the format covers that byte by nothing.

use bytes::Bytes;
use ha_kv::Kv;
use ha_types::Seq;
use oplog_core::audit::AuditOptions;
use oplog_core::legacy::LegacyEntry;
use oplog_core::mooncake::{MooncakePrefix, ProducerView};
use oplog_core::{LogKey, LogKeys};
use proptest::prelude::*;

use crate::kit::{Log, audit_of};
use crate::support::keys;

/// Whether the formats leave this change unseen, as the documentation of `audit` lists.
fn is_not_covered(keys: &LogKeys, key: &[u8], old: &[u8], new: &[u8], cut_over: bool) -> bool {
    let decimal = |value: &[u8]| {
        let text = std::str::from_utf8(value).ok()?;
        let number: u64 = text.parse().ok()?;
        (number.to_string() == text).then_some(number)
    };
    match keys.classify(key) {
        LogKey::ProducerView => ProducerView::decode(new).is_ok(),
        LogKey::LegacySnapshot => decimal(new).is_some(),
        LogKey::LegacyLatest => cut_over || decimal(new).is_some_and(|latest| latest <= 5),
        LogKey::LegacyEntry(_) => {
            let (Ok(old), Ok(new)) = (LegacyEntry::decode(keys, key, old), LegacyEntry::decode(keys, key, new)) else {
                return false;
            };
            (old.seq, &old.key, &old.payload) == (new.seq, &new.key, &new.payload)
        }
        LogKey::DurablePrefix => match (MooncakePrefix::decode(old), MooncakePrefix::decode(new)) {
            (Ok(old), Ok(new)) => old.boundary() == new.boundary(),
            _ => false,
        },
        LogKey::Batch(_) | LogKey::Unknown => false,
    }
}

/// Changes one byte, audits, and puts it back. Gives whether the change had to be reported.
async fn flipped(name: &str, log: &Log, key: &Bytes, old: &Bytes, at: usize, mask: u8) -> bool {
    let mut new = old.to_vec();
    new[at] ^= mask;
    let cut_over = log.kv.get(&keys().durable_prefix()).await.unwrap().is_some();
    if is_not_covered(&keys(), key, old, &new, cut_over) {
        return false;
    }
    let what = format!("{name}: byte {at} of {} ^ {mask:02x}: {}", key.escape_ascii(), new.escape_ascii());
    log.put_key(key, new).await;
    let report = audit_of(log.kv.clone(), &AuditOptions::default()).await;
    assert!(!report.is_sound(), "not reported: {what}");
    log.put_key(key, old.clone()).await;
    true
}

#[tokio::test(start_paused = true)]
async fn l4_every_byte_of_every_value_that_is_covered_is_reported() {
    let (mut reported, mut not_covered) = (0_u32, 0_u32);
    for (name, log) in Log::all_sound().await {
        for (key, value) in log.pairs().await {
            for at in 0..value.len() {
                match flipped(name, &log, &key, &value, at, 1 << (at % 8)).await {
                    true => reported += 1,
                    false => not_covered += 1,
                }
            }
        }
        assert!(log.audit().await.is_sound(), "{name}: all was put back");
    }
    assert!(reported > 3000, "{reported}");
    assert!(not_covered < reported / 10, "{not_covered} of {reported}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_change_of_a_byte_is_reported(pick in any::<(usize, usize, usize)>(), mask in 1_u8..) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let logs = Log::all_sound().await;
            let (name, log) = &logs[pick.0 % logs.len()];
            let pairs = log.pairs().await;
            let (key, value) = &pairs[pick.1 % pairs.len()];
            flipped(name, log, key, value, pick.2 % value.len(), mask).await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_legacy_format_does_not_cover_is_what_the_documentation_says() {
    let log = Log::legacy().await;
    let entry = Log::entry_at(3);
    for changed in [
        LegacyEntry { op_type: 3, ..entry.clone() },
        LegacyEntry { tenant: "other".into(), ..entry.clone() },
        LegacyEntry { timestamp_ms: 99, ..entry.clone() },
    ] {
        log.put_key(&keys().legacy_entry(Seq::new(3)), changed.encode()).await;
        assert!(log.audit().await.is_sound());
    }
}
