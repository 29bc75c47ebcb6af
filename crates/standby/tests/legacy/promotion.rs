//! Owns the tests of promotion from the legacy mode: not before the cutover, and after it with all that counts.

use std::time::Duration;

use ha_kv::{Kv, MemoryKv};
use standby::{PromoteError, Standby};

use crate::kit::*;
use crate::support::{Switch, keys};

async fn refused(standby: Standby<Journal>, applied: u64) -> Standby<Journal> {
    let refused = standby.promote(&*Switch::on()).await.expect_err("not before the cutover");
    assert!(
        matches!(refused.error, PromoteError::NotCutOver { applied: at } if at == seq(applied)),
        "{}",
        refused.error
    );
    assert!(refused.error.to_string().contains("plimsoll oplog cutover"), "{}", refused.error);
    refused.standby
}

#[tokio::test(start_paused = true)]
async fn legacy_nobody_is_promoted_before_the_cutover() {
    let kv = log_to(5).await;
    let mut standby = standby(kv.clone()).await;
    follow(&mut standby).await.unwrap();
    assert!(!standby.observer().may_campaign(), "it does not even campaign");
    fill(&*kv, 6..=7, 7).await;
    let mut standby = refused(standby, 7).await;
    assert_eq!(kv.get(&keys().durable_prefix()).await.unwrap(), None, "nothing was claimed or created");
    assert_eq!(follow(&mut standby).await.unwrap(), standby::Step::PerEntry(seq(7)), "and it follows on");

    cut_over(&*kv, 7).await;
    follow(&mut standby).await.unwrap();
    assert!(standby.observer().may_campaign());
    let caught_up = standby.promote(&*Switch::on()).await.unwrap();
    assert_eq!(caught_up.machine().entries, entries(1..=7));
    assert_eq!((caught_up.prefix().last_seq, caught_up.claim().epoch.get()), (seq(7), 1));
}

/// Where the mode is on, an empty log is one whose old primary has not written yet.
#[tokio::test(start_paused = true)]
async fn legacy_an_empty_log_is_not_made_new_before_the_cutover() {
    let kv = std::sync::Arc::new(MemoryKv::new());
    let mut standby = standby(kv.clone()).await;
    follow(&mut standby).await.unwrap();
    assert!(!standby.observer().may_campaign());
    let standby = refused(standby, 0).await;
    assert_eq!(kv.get(&keys().durable_prefix()).await.unwrap(), None);
    cut_over(&*kv, 0).await;
    let caught_up = standby.promote(&*Switch::on()).await.unwrap();
    assert_eq!(caught_up.prefix().last_seq, seq(0));
}

/// The promotion itself crosses, and discards what lies above the base.
#[tokio::test(start_paused = true)]
async fn legacy_a_promotion_that_meets_the_cutover_crosses_first() {
    let kv = log_to(8).await;
    latest(&*kv, 6).await;
    let mut standby = standby(kv.clone()).await;
    follow(&mut standby).await.unwrap();
    assert_eq!(standby.machine().at, seq(8));
    cut_over(&*kv, 6).await;
    let mut scribe = scribe(kv.clone(), 6).await;
    batches(&mut scribe, 7..=9).await;
    let caught_up = standby.promote(&*Switch::on()).await.unwrap();
    assert_eq!(caught_up.machine().entries, crossed(6, 9));
    assert_eq!(caught_up.prefix().last_seq, seq(9));
}

/// An entry below the base is still waited for: the promotion is refused, the standby stays healthy and follows on.
#[tokio::test(start_paused = true)]
async fn legacy_a_promotion_is_refused_while_an_entry_below_the_base_is_missing() {
    let kv = log_to(6).await;
    kv.delete(&keys().legacy_entry(seq(4))).await.unwrap();
    cut_over(&*kv, 6).await;
    let standby = refused(standby(kv.clone()).await, 3).await;
    put(&*kv, &entry(4)).await;
    let mut standby = standby;
    follow_for(&mut standby, Duration::from_secs(1)).await.unwrap();
    assert_eq!(standby.promote(&*Switch::on()).await.unwrap().machine().entries, entries(1..=6));
}
