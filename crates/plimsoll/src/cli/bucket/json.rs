//! Owns the reports for programs: one object each, described in `docs/formats/bucket-reports.md`.

use bucket_store::format::intent::Round;
use bucket_store::format::table::RecordLayout;
use bucket_store::gc::plan::{Idle, Plan, Verdict};
use bucket_store::inspect::{
    Adopting, Amount, BucketContents, BucketExplained, Contents, Explanation, Fault, FsckReport, Look, MarkerLook,
    RecordLook, RecordState, Repaired, Standing,
};
use bucket_store::recovery::{Action, Decision};
use serde_json::{Value, json};

use super::ls::split;
use super::{Place, SCHEMA, Trouble, picture};
use crate::cli::output;

/// What every report begins with.
fn head(place: &Place, seen: &Look) -> Value {
    let rounds = seen.intents.as_ref().and_then(|intents| intents.as_ref().ok()).map(|intents| intents.rounds.len());
    let high_water = seen.high_water.as_ref().and_then(|read| read.as_ref().ok());
    let graves = seen.graves.as_ref().and_then(|read| read.as_ref().ok());
    json!({
        "schema": SCHEMA,
        "dir": place.path_json(),
        "marker": marker(&seen.marker),
        "high_water": high_water.map(|high| {
            json!({ "next_bucket": high.next_bucket, "next_write_number": high.next_write_number })
        }),
        "rounds": rounds,
        "graves": graves.map(|graves| {
            json!({ "keys": graves.keys.len(), "away": graves.away.iter().map(|id| id.0).collect::<Vec<_>>() })
        }),
        "reserve_bytes": seen.reserve_bytes,
        "free_bytes": seen.space.map(|space| space.free_bytes),
    })
}

/// The head with more fields.
fn report(place: &Place, seen: &Look, more: Value) -> Value {
    let mut report = head(place, seen);
    if let (Some(report), Value::Object(more)) = (report.as_object_mut(), more) {
        report.extend(more);
    }
    report
}

fn marker(marker: &MarkerLook) -> Value {
    match marker {
        MarkerLook::Absent => json!({ "kind": "absent" }),
        MarkerLook::Ours(marker) => {
            json!({ "kind": "ours", "segment": marker.segment.as_str(), "cluster": marker.cluster.as_str() })
        }
        MarkerLook::Mooncakes(segment) => json!({ "kind": "mooncake", "segment": segment.as_str() }),
        MarkerLook::Unreadable(error) => json!({ "kind": "unreadable", "error": error.to_string() }),
    }
}

pub(super) fn buckets(
    place: &Place,
    seen: &Look,
    contents: &Contents,
    shown: &[&BucketContents],
    not_listed: usize,
    width: usize,
) -> Value {
    let more = json!({
        "buckets": shown.iter().map(|shown| bucket(shown, width)).collect::<Vec<_>>(),
        "not_listed": not_listed,
        "totals": {
            "buckets": contents.buckets.len(),
            "live": amount(contents.live()),
            "superseded": amount(contents.amount(RecordState::Superseded)),
            "tombstoned": amount(contents.amount(RecordState::Tombstoned)),
            "unserved": amount(contents.amount(RecordState::Unserved)),
            "dead_bytes": contents.dead_bytes(),
            "allocated_bytes": contents.allocated_bytes(),
        },
        "temporaries": seen.temporaries,
        "strange": seen.strange.iter().map(|entry| &entry.name).collect::<Vec<_>>(),
    });
    report(place, seen, more)
}

fn bucket(bucket: &BucketContents, width: usize) -> Value {
    let (standing, reason) = match &bucket.standing {
        Standing::Served => ("served", None),
        Standing::Retired => ("retired", None),
        Standing::Uncommitted => ("uncommitted", None),
        Standing::Orphan => ("orphan", None),
        Standing::Quarantined(reason) => ("quarantined", Some(reason)),
    };
    json!({
        "id": bucket.id.0,
        "age": bucket.age,
        "layout": bucket.layout.map(layout),
        "standing": standing,
        "reason": reason,
        "live": amount(bucket.amount(RecordState::Live)),
        "superseded": amount(bucket.amount(RecordState::Superseded)),
        "tombstoned": amount(bucket.amount(RecordState::Tombstoned)),
        "unserved": amount(bucket.amount(RecordState::Unserved)),
        "dead_bytes": bucket.dead_bytes(),
        "data_bytes": bucket.data_len,
        "allocated_bytes": bucket.allocated_bytes,
        "picture": picture::strip(bucket, width),
    })
}

fn layout(layout: RecordLayout) -> &'static str {
    match layout {
        RecordLayout::Checksummed => "checksummed",
        RecordLayout::MooncakeRaw => "mooncake",
    }
}

fn amount(amount: Amount) -> Value {
    json!({ "records": amount.records, "bytes": amount.bytes })
}

pub(super) fn objects(place: &Place, seen: &Look, records: &[&RecordLook], not_listed: usize) -> Value {
    let object = |record: &&RecordLook| {
        let (tenant, key) = split(&record.key);
        json!({
            "tenant": output::key_json(tenant),
            "key": output::key_json(key),
            "incarnation": record.incarnation.to_string(),
            "write_number": record.write_number,
            "bucket": record.bucket.0,
            "offset": record.offset,
            "record_bytes": record.record_len,
            "value_bytes": record.value_len,
            "state": record.state.name(),
        })
    };
    let objects: Vec<_> = records.iter().map(object).collect();
    report(place, seen, json!({ "objects": objects, "not_listed": not_listed }))
}

pub(super) fn fsck(
    place: &Place,
    seen: &Look,
    found: &FsckReport,
    repaired: Option<&Result<Repaired, Trouble>>,
) -> Value {
    let faults = &found.faults;
    let more = json!({
        "verdict": if found.is_sound() { "sound" } else { "faults" },
        "buckets": found.buckets,
        "records": found.records,
        "verified_records": found.verified_records,
        "unverifiable_records": found.unverifiable_records,
        "read_bytes": found.read_bytes,
        "notes": found.notes,
        "faults": {
            "count": faults.total(),
            "by_kind": faults.by_kind(),
            "listed": faults.listed().iter().map(fault).collect::<Vec<_>>(),
            "not_listed": faults.unlisted(),
        },
        "repair": repaired.map(|repaired| match repaired {
            Ok(repaired) => json!({
                "rounds": repaired.rounds.iter().map(decision).collect::<Vec<_>>(),
                "orphans": repaired.orphans.0,
                "orphan_bytes": repaired.orphans.1,
                "temporaries": repaired.temporaries,
                "high_water": repaired.high_water.map(|high| {
                    json!({ "next_bucket": high.next_bucket, "next_write_number": high.next_write_number })
                }),
                "quarantined": repaired.quarantined.iter().map(|(id, _)| id.0).collect::<Vec<_>>(),
            }),
            Err(why) => {
                let mut refused = why.json();
                refused.remove("error");
                refused.insert("refused".to_owned(), json!(why.to_string()));
                Value::Object(refused)
            }
        }),
    });
    report(place, seen, more)
}

fn fault(fault: &Fault) -> Value {
    json!({
        "kind": fault.kind.name(),
        "file": fault.file,
        "field": fault.field,
        "offset": fault.offset,
        "key": fault.key.as_deref().map(output::key_json),
        "expected": fault.expected,
        "found": fault.found,
        "remedy": fault.kind.remedy(),
        "refuses": fault.refuses(),
    })
}

fn decision(decision: &Decision) -> Value {
    let state = match decision.round {
        Round::Prepared { .. } => "prepared",
        Round::Committed { .. } => "committed",
    };
    let action = match decision.action {
        Action::RollBack => "roll_back",
        Action::Finish => "finish",
        Action::Remove => "remove",
    };
    json!({
        "state": state,
        "sources": decision.round.sources().iter().map(|id| id.0).collect::<Vec<_>>(),
        "target": decision.round.target().map(|id| id.0),
        "action": action,
        "gone": decision.gone().iter().map(|id| id.0).collect::<Vec<_>>(),
    })
}

pub(super) fn explanation(place: &Place, seen: &Look, told: &Explanation, shown: &[&BucketExplained]) -> Value {
    let (room, limits) = (told.room, told.limits);
    let more = json!({
        "open": {
            "refused": told.refused.iter().map(fault).collect::<Vec<_>>(),
            "needs_adoption": told.needs_adoption,
            "adoption_refused": told.adoption_refused.iter().map(fault).collect::<Vec<_>>(),
            "rounds": told.recovery.iter().map(decision).collect::<Vec<_>>(),
            "orphans": told.orphans.iter().map(|id| id.0).collect::<Vec<_>>(),
            "temporaries": told.temporaries,
            "quarantined": told.quarantined.iter().map(|(id, reason)| json!({ "id": id.0, "reason": reason })).collect::<Vec<_>>(),
        },
        "gc": {
            "used_bytes": room.physical_bytes,
            "quarantined_bytes": room.out_of_reach_bytes,
            "free_bytes": room.free_bytes,
            "pressure": room.pressure,
            "high_bytes": limits.high_bytes,
            "low_bytes": limits.low_bytes,
            "floor": limits.floor,
            "ratio": limits.ratio,
            "target_bytes": limits.target_bytes,
            "target_records": limits.target_records,
            "next": plan(&told.plan),
            "buckets": shown.iter().map(|shown| explained(shown)).collect::<Vec<_>>(),
        },
    });
    report(place, seen, more)
}

/// What an adoption would do, or did.
pub(super) fn adopting(told: &Adopting) -> Value {
    json!({
        "refused": told.refused.iter().map(fault).collect::<Vec<_>>(),
        "live": amount(told.live),
        "superseded": amount(told.superseded),
        "tombstoned": amount(told.tombstoned),
        "rounds": told.rounds.iter().map(decision).collect::<Vec<_>>(),
        "temporaries": told.temporaries,
    })
}

fn explained(bucket: &BucketExplained) -> Value {
    let facts = &bucket.facts;
    json!({
        "id": facts.id.0,
        "age": facts.age,
        "live_records": facts.live_records,
        "live_bytes": facts.live_bytes,
        "dead_bytes": facts.dead_bytes,
        "dead_ratio": facts.dead_ratio(),
        "copy_bytes": facts.copy_bytes,
        "allocated_bytes": facts.allocated_bytes,
        "candidate": matches!(bucket.verdict, Verdict::Dead | Verdict::Candidate),
        "why": bucket.verdict.to_string(),
    })
}

fn plan(plan: &Plan) -> Value {
    match plan {
        Plan::Nothing(idle) => {
            let why = match idle {
                Idle::EnoughRoom => "enough_room",
                Idle::WaitsForRelease => "waits_for_release",
                Idle::SetAside { .. } => "set_aside",
                Idle::NoRoomToCopy => "no_room_to_copy",
                Idle::NoCandidate => "no_candidate",
            };
            json!({ "does": "nothing", "why": why })
        }
        Plan::RemoveDead(dead) => {
            json!({ "does": "remove_dead", "buckets": dead.iter().map(|id| id.0).collect::<Vec<_>>() })
        }
        Plan::Merge { sources, copy_bytes, records, .. } => json!({
            "does": "merge",
            "buckets": sources.iter().map(|id| id.0).collect::<Vec<_>>(),
            "copy_bytes": copy_bytes,
            "records": records,
        }),
        Plan::Evict(bucket) => json!({ "does": "evict", "buckets": [bucket.0] }),
    }
}
