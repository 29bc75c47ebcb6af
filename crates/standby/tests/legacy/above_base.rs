//! Owns the tests of the alarm: an entry above the base is named, shown while it is there, and never applied.

use std::time::Duration;

use ha_kv::Kv;
use standby::{Health, LegacyConfig, Step};

use crate::kit::*;
use crate::support::keys;

#[tokio::test(start_paused = true)]
async fn legacy_a_later_entry_above_the_base_raises_an_alarm_that_names_it() {
    let kv = log_to(5).await;
    let mut standby = standby(kv.clone()).await;
    let observer = standby.observer();
    follow(&mut standby).await.unwrap();
    cut_over(&*kv, 5).await;
    let mut scribe = scribe(kv.clone(), 5).await;
    batches(&mut scribe, 6..=7).await;
    follow(&mut standby).await.unwrap();
    assert_eq!(observer.metrics().legacy.alarm, None);

    put(&*kv, &keyed(6, "late one", None)).await;
    let interval = LegacyConfig::default().above_base_interval;
    let step = follow_for(&mut standby, interval + Duration::from_secs(1)).await.unwrap();
    assert!(matches!(step, Step::Reached(prefix) if prefix.last_seq == seq(7)));
    let alarm = observer.metrics().legacy.alarm.expect("an alarm");
    let key = String::from_utf8(keys().legacy_entry(seq(6)).to_vec()).unwrap();
    for named in [key.as_str(), "late one", "above the base 5", "stop the old primary"] {
        assert!(alarm.contains(named), "{named}: {alarm}");
    }
    assert_eq!(observer.metrics().legacy.note(), Some(alarm));
    assert_eq!(standby.machine().entries, crossed(5, 7), "it is not applied");
    assert_eq!(standby.health(), Health::Following { lag: 0 }, "the log itself is as it must be");

    kv.delete(&keys().legacy_entry(seq(6))).await.unwrap();
    follow_for(&mut standby, interval + Duration::from_secs(1)).await.unwrap();
    assert_eq!(observer.metrics().legacy.alarm, None, "taken back when it is gone");
}

#[tokio::test(start_paused = true)]
async fn legacy_entries_that_latest_left_above_the_base_are_named_at_once_even_if_they_cannot_be_read() {
    let kv = log_to(8).await;
    latest(&*kv, 5).await;
    cut_over(&*kv, 5).await;
    let mut standby = standby(kv.clone()).await;
    follow(&mut standby).await.unwrap();
    let alarm = standby.observer().metrics().legacy.alarm.expect("an alarm");
    assert!(alarm.contains("entry 6"), "{alarm}");
    kv.put(&keys().legacy_entry(seq(6)), "not an entry".into()).await.unwrap();
    let interval = LegacyConfig::default().above_base_interval;
    follow_for(&mut standby, interval + Duration::from_secs(1)).await.unwrap();
    let alarm = standby.observer().metrics().legacy.alarm.expect("an alarm");
    assert!(alarm.contains("cannot be read"), "{alarm}");
}
