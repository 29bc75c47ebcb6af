//! Owns the part of the bucket store's proof that a test run can afford. The whole is `cargo xtask proof crash`.

use bucket_store::vfs::sim::{CrashStates, Order};
use ha_sim::bucket::report::Report;
use ha_sim::bucket::rules::{Change, File, Order as Steps, Rule};
use ha_sim::bucket::run::{crash, remove};
use ha_sim::bucket::situation::Situation;
use ha_sim::bucket::workloads::Workload;

const FEW: CrashStates = CrashStates { order: Order::Weak, exhaustive_up_to: 5, thorough: false, samples: 6, seed: 1 };

fn workload(name: &str) -> &'static Workload {
    Workload::ALL.iter().find(|workload| workload.name == name).unwrap()
}

#[test]
fn b1_b2_b3_b4_nothing_is_lost_and_nothing_comes_back_when_merges_and_removals_crash() {
    let merges = crash(workload("merge of one"), FEW);
    assert!(merges.violations.is_empty(), "{}", merges.violations[0]);
    assert!(merges.images.len() > 500, "{}", merges.images.len());
    let needed = [
        Situation::BetweenPublishes,
        Situation::CommittedInUnlink,
        Situation::CrashInRecovery,
        Situation::CrashInThatRecovery,
        Situation::MergeOfOne,
        Situation::DeadRemoved,
    ];
    for situation in needed {
        assert!(merges.reached.count(situation) > 0, "{}", situation.text());
    }
}

fn is_needed(rule: Rule, broken: &str) {
    let removed = remove(rule);
    let found = removed.found.unwrap_or_else(|| panic!("nothing went wrong without \"{}\"", rule.text()));
    assert_eq!(found.broken.invariant, broken, "{found}");
}

#[test]
fn b1_a_table_or_its_data_that_is_not_synced_is_found() {
    is_needed(Rule::DataSync(File::Table), "B1");
    is_needed(Rule::DataSync(File::Data), "B1");
}

#[test]
fn d3_a_tombstone_whose_name_is_not_synced_is_found() {
    is_needed(Rule::DirSync(Change::Table), "B1");
}

#[test]
fn b1_sources_that_go_before_the_commit_are_found() {
    is_needed(Rule::Order(Steps::UnlinkBeforeCommitted), "B1");
}

#[test]
fn a_run_that_saw_too_little_does_not_hold() {
    let report = Report::new(None, Vec::new(), Vec::new(), Vec::new());
    assert!(!report.held);
    assert!(report.failures[0].starts_with("0 distinct images; at least 100000"), "{:?}", report.failures);
    assert_eq!(report.failures.len(), 1 + Situation::ALL.len());
    let json = serde_json::to_value(&report).unwrap();
    let fields: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["failures", "held", "lost", "proof", "reached", "resurrected", "states"]);
}
