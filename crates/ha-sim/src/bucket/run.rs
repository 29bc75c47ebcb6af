//! Owns a run of the proof: every workload to its end, every crash of it, every call of it failing, and every rule removed in turn.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bucket_store::format::names::NameKind;
use bucket_store::vfs::sim::{CrashStates, EIO, ENOSPC, Fault, Image, OpKind};
use ha_types::ManualClock;

use super::explore::{Explorer, Violation};
use super::promise::Broken;
use super::report::{FaultReport, RemovalReport, Report, WorkloadReport};
use super::rules::Rule;
use super::situation::{Reached, Situation};
use super::workloads::Workload;
use super::world::{Life, Moment, Setting};

/// How many searches go on at once, each in a thread of its own.
const AT_ONCE: usize = 2;

/// Of a crash point after a failure, and of one with a rule removed.
const FEWER: CrashStates = CrashStates { exhaustive_up_to: 7, thorough: false, samples: 12, ..ALL };
const ALL: CrashStates = CrashStates {
    order: bucket_store::vfs::sim::Order::Weak,
    exhaustive_up_to: 12,
    thorough: true,
    samples: 64,
    seed: 1,
};

/// Runs everything, or `only` the workload or the removal of this name. `progress` is told what was finished.
pub fn everything(only: Option<&str>, progress: impl Fn(&str) + Sync) -> Report {
    let wanted = |workload: &&Workload| only.is_none_or(|only| workload.name == only);
    let all: Vec<_> = Workload::ALL.iter().filter(wanted).collect();
    let workloads = side_by_side(&all, |workload| {
        let report = crash(workload, ALL);
        progress(&format!("{}: {} distinct images", workload.name, report.images.len()));
        report
    });
    let failing: Vec<_> = all.iter().copied().filter(|workload| workload.with_faults).collect();
    let faults = side_by_side(&failing, |workload| {
        let report = fail_each_call(workload, None);
        progress(&format!("{}: {} calls failed in turn", workload.name, report.calls));
        report
    });
    let rules: Vec<_> = Rule::ALL.iter().filter(|rule| only.is_none_or(|only| rule.text() == only)).collect();
    let removals = side_by_side(&rules, |rule| {
        let report = remove(**rule);
        progress(&format!("without \"{}\": {}", rule.text(), if report.found.is_some() { "found" } else { "nothing" }));
        report
    });
    Report::new(only, workloads, faults, removals)
}

/// What `only` may be: the names of workloads, and the rules.
pub fn parts() -> impl Iterator<Item = &'static str> {
    Workload::ALL.iter().map(|workload| workload.name).chain(Rule::ALL.iter().map(|rule| rule.text()))
}

/// In the order of `items`.
fn side_by_side<T: Sync, R: Send>(items: &[T], does: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((at, item)) = Some(next.fetch_add(1, Relaxed)).and_then(|at| Some((at, items.get(at)?)))
                {
                    let result = does(item);
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Crashes a workload at every operation, in every state.
#[must_use]
pub fn crash(workload: &Workload, states: CrashStates) -> WorkloadReport {
    let mut world = workload.world(|_| {});
    workload.run(&mut world);
    let life = world.end();
    let mut explorer = Explorer::new(workload.setting(), states);
    let mut dying = Explorer::new(workload.setting(), FEWER);
    if workload.is_wide {
        explorer = explorer.only_once();
    } else if workload.with_deaths {
        life.moments.iter().for_each(|moment| dying.process_death(moment));
    }
    life.moments.iter().for_each(|moment| explorer.moment(moment));
    let mut reached = life.reached.clone();
    let mut broken = life.broken.clone();
    broken.extend(unknown_versions(workload.setting(), &life, &mut reached));
    report(workload, &life, [explorer, dying], broken, reached)
}

fn report<const N: usize>(
    workload: &Workload,
    life: &Life,
    explorers: [Explorer; N],
    broken: Vec<Broken>,
    mut reached: Reached,
) -> WorkloadReport {
    let running = broken.into_iter().map(|broken| Violation { broken, after: "while it ran".into(), crashes: 0 });
    let mut violations: Vec<_> = running.collect();
    let mut images = HashSet::new();
    for explorer in explorers {
        reached.add(&explorer.reached);
        images.extend(explorer.images());
        violations.extend(explorer.violations);
    }
    WorkloadReport {
        workload: workload.name,
        about: workload.about,
        moments: life.moments.len(),
        images,
        reached,
        violations,
    }
}

/// B7: with a version that is not known in any of its files, a directory is refused and not touched.
fn unknown_versions(setting: Setting, life: &Life, reached: &mut Reached) -> Vec<Broken> {
    let mut broken = Vec::new();
    let newest_intents = life
        .moments
        .iter()
        .rev()
        .map(|moment| moment.point.most())
        .find(|image| image.bytes(".bucket_gc_intent").is_some());
    for image in newest_intents.iter().chain([&life.image]) {
        for name in image
            .names()
            .filter(|name| !matches!(NameKind::of(name), NameKind::Data(_) | NameKind::Reserve | NameKind::Temporary))
        {
            let Some(newer) = with_newer_version(image, name) else { continue };
            let disk = bucket_store::vfs::sim::SimDisk::of(&newer);
            let clock = std::sync::Arc::new(ManualClock::new());
            let opened = setting.open(&disk, &clock, std::sync::Arc::new(bucket_store::NoObserver), None);
            let code = opened.as_ref().err().map(|error| error.code());
            let outcome = opened.map(|_| ()).map_err(|error| error.to_string());
            if code == Some("UNKNOWN_VERSION") && disk.image() == newer {
                reached.meet(Situation::UnknownVersion);
            } else {
                broken.push(Broken::new(
                    "B7",
                    format!("{name} of an unknown version: {outcome:?}, or the directory changed"),
                ));
            }
        }
    }
    broken
}

fn with_newer_version(image: &Image, name: &str) -> Option<Image> {
    let mut bytes = image.bytes(name)?;
    if bytes.starts_with(b"plimsoll-local-disk 1\n") {
        bytes[20] = b'9';
    } else if bytes.starts_with(b"PLB") {
        bytes[4] = 99;
    } else {
        // What Mooncake wrote has no version.
        return None;
    }
    Some(image.clone().with(name, &bytes))
}

/// Lets every call of a workload fail in turn, ends what was begun on a disk that is well again, and crashes that.
#[must_use]
pub fn fail_each_call(workload: &Workload, removed: Option<Rule>) -> FaultReport {
    let mut calls = 0;
    let mut images = HashSet::new();
    let mut violations = Vec::new();
    let mut reached = Reached::default();
    let with_rule = |setting: &mut Setting| setting.removed = removed;
    let mut setting = workload.setting();
    with_rule(&mut setting);
    let mut explorer = Explorer::new(setting.clone(), FEWER);
    for errno in [EIO, ENOSPC] {
        for number in 1.. {
            let mut world = workload.world(with_rule);
            world
                .disk
                .inject(1, Fault::Errno(errno), move |op| op.number >= number && may_fail(op.kind, errno, removed));
            workload.run(&mut world);
            world.settle();
            let life = world.end();
            if life.faults_met == 0 {
                break;
            }
            calls += 1;
            reached.add(&life.reached);
            let running = life.broken.iter().cloned();
            violations.extend(running.map(|broken| Violation {
                broken,
                after: format!("call {number} failed with {errno}"),
                crashes: 0,
            }));
            let after = life.moments.iter().filter(|moment| moment.op.number >= number && decides(moment.op.kind));
            after.take(MOMENTS_AFTER).for_each(|moment| explorer.moment(moment));
            life.moments.last().into_iter().for_each(|moment| explorer.moment(moment));
            if !violations.is_empty() || !explorer.violations.is_empty() {
                break;
            }
        }
        if !violations.is_empty() || !explorer.violations.is_empty() {
            break;
        }
    }
    reached.add(&explorer.reached);
    images.extend(explorer.images());
    violations.extend(explorer.violations);
    FaultReport { workload: workload.name, calls, images, reached, violations }
}

/// So many moments after a failure are looked at, and the last.
const MOMENTS_AFTER: usize = 40;

/// What a failure makes different is seen at these; what becomes of half a write is seen without failures.
fn decides(kind: OpKind) -> bool {
    matches!(kind, OpKind::SyncData | OpKind::SyncDir | OpKind::Rename | OpKind::Unlink)
}

/// What can answer so; with a rule about failures removed only what that is about.
fn may_fail(kind: OpKind, errno: i32, removed: Option<Rule>) -> bool {
    let takes_room = matches!(kind, OpKind::Create | OpKind::Write | OpKind::Allocate | OpKind::Rename);
    match removed {
        Some(_) => errno == EIO && matches!(kind, OpKind::SyncData | OpKind::SyncDir),
        None => errno == EIO || takes_room,
    }
}

/// Runs the workloads without a rule, until something does not hold: crashes first, then the death of the process and calls that fail, for
/// the rules that are about those.
#[must_use]
pub fn remove(rule: Rule) -> RemovalReport {
    let mut images = 0;
    let after_failures = matches!(rule, Rule::Failure(_));
    let wanted = |workload: &&Workload| rule.only_in().is_none_or(|only| workload.name == only);
    if !after_failures {
        for workload in Workload::ALL.iter().filter(wanted).filter(|workload| !workload.is_wide) {
            let (looked_at, found) = crash_without(workload, rule, Explorer::moment);
            images += looked_at;
            if found.is_some() {
                return RemovalReport { rule, workload: Some(workload.name), images, found };
            }
        }
    }
    if rule.is_about_restarts() {
        for workload in Workload::ALL.iter().filter(|workload| !workload.is_wide && workload.with_deaths) {
            let (looked_at, found) = crash_without(workload, rule, Explorer::process_death);
            images += looked_at;
            if found.is_some() {
                return RemovalReport { rule, workload: Some(workload.name), images, found };
            }
        }
    }
    if after_failures {
        for workload in Workload::ALL.iter().filter(wanted).filter(|workload| workload.with_faults) {
            let report = fail_each_call(workload, Some(rule));
            images += report.images.len();
            if let Some(found) = report.violations.into_iter().next() {
                return RemovalReport { rule, workload: Some(workload.name), images, found: Some(found) };
            }
        }
    }
    RemovalReport { rule, workload: None, images, found: None }
}

fn crash_without(workload: &Workload, rule: Rule, look: fn(&mut Explorer, &Moment)) -> (usize, Option<Violation>) {
    let mut world = workload.world(|setting| setting.removed = Some(rule));
    workload.run(&mut world);
    let life = world.end();
    let setting = Setting { removed: Some(rule), ..workload.setting() };
    let mut explorer = Explorer::new(setting, FEWER);
    for moment in &life.moments {
        look(&mut explorer, moment);
        if !explorer.violations.is_empty() {
            break;
        }
    }
    let running = life.broken.into_iter().map(|broken| Violation { broken, after: "while it ran".into(), crashes: 0 });
    (explorer.images().count(), running.chain(std::mem::take(&mut explorer.violations)).next())
}
