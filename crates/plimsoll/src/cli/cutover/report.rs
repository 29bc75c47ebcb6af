//! Owns what `oplog cutover` prints: a table and a sentence for people, one JSON object for programs; and the exit that goes with it.

use oplog_core::legacy::{CutoverError, LegacyHole};
use oplog_core::{DurablePrefix, Seq};
use serde_json::{Value, json};

use super::facts::Facts;
use super::{Exit, exit_of};
use crate::cli::output;

/// How it ended, unless it was refused.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    /// This command created the first prefix.
    Created { prefix: DurablePrefix },
    /// The prefix was there, or another cutover was faster than the one planned at `planned`.
    Found { prefix: DurablePrefix, base: Seq, planned: Option<Seq> },
    /// It would be cut over at `base`.
    Ready { base: Seq },
}

/// All that is printed.
pub(super) struct Report<'a> {
    pub(super) facts: &'a Facts,
    pub(super) outcome: &'a Result<Outcome, CutoverError>,
    pub(super) check: bool,
}

impl Report<'_> {
    pub(super) fn print(&self, as_json: bool) -> Exit {
        if as_json {
            outln!("{}", self.json());
        } else {
            outln!("{}", self.table());
            match self.outcome {
                Ok(outcome) => outln!("\n{}", sentence(outcome)),
                Err(error) => errln!("plimsoll: {}{error}", if self.check { "would be refused: " } else { "" }),
            }
        }
        self.outcome.as_ref().map_or_else(exit_of, |_| Exit::Done)
    }

    fn table(&self) -> comfy_table::Table {
        let facts = self.facts;
        let or = |value: &Option<String>, none: &str| value.clone().unwrap_or_else(|| none.to_owned());
        let mut table = output::table(["what", "found"]);
        let prefix = match (self.outcome, facts.prefix.as_ref()) {
            (Ok(Outcome::Created { prefix } | Outcome::Found { prefix, .. }), _) | (_, Some(prefix)) => prefix.encode(),
            _ => "none: the log was not cut over".to_owned(),
        };
        table.add_row(["durable prefix", &prefix]);
        table.add_row(["latest", &or(&facts.latest.value, "no such key")]);
        table.add_row(["latest moves", self.moves()]);
        let election = facts.election.value.as_ref().map(|value| format!("{value} at {}", facts.election.key));
        table.add_row(["old primary's election key", &or(&election, "absent")]);
        table.add_row(["base", &or(&self.base().map(|base| base.to_string()), "not known")]);
        table.add_row(["entries up to the base", &or(&facts.entries.map(|n| n.to_string()), "not counted")]);
        table.add_row(["holes", &self.holes()]);
        table.add_row(["entry above the base", &or(&facts.above, "none")]);
        for (id, sequence) in &facts.snapshots {
            table.add_row(["snapshot of the original (not used)", &format!("{id} at {sequence}")]);
        }
        table
    }

    fn moves(&self) -> &'static str {
        match self.facts.quiet {
            Some(true) => "no, it was watched for 5 s",
            Some(false) => "yes: an old primary writes",
            None => "not watched",
        }
    }

    fn base(&self) -> Option<Seq> {
        match self.outcome {
            Ok(Outcome::Found { base, .. } | Outcome::Ready { base }) => Some(*base),
            Ok(Outcome::Created { prefix }) => Some(prefix.last_seq),
            Err(_) => self.facts.base.or(self.facts.expected_base()),
        }
    }

    fn holes(&self) -> String {
        let all = |holes: &[LegacyHole]| holes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match (&self.facts.holes, self.facts.missing) {
            (None, _) => "not looked for".to_owned(),
            (Some(holes), Some(missing)) => format!("{missing} entries are missing, the first ones {}", all(holes)),
            (Some(holes), None) if holes.is_empty() => "none".to_owned(),
            (Some(holes), None) => format!("accepted: {}", all(holes)),
        }
    }

    fn json(&self) -> Value {
        let facts = self.facts;
        let (outcome, prefix) = match self.outcome {
            Ok(Outcome::Created { prefix }) => ("created", Some(*prefix)),
            Ok(Outcome::Found { prefix, .. }) => ("found", Some(*prefix)),
            Ok(Outcome::Ready { .. }) => ("ready", None),
            Err(CutoverError::Unknown(_)) => ("unknown", None),
            Err(_) => ("refused", facts.prefix),
        };
        let holes = facts.holes.as_ref().map(|holes| {
            holes.iter().map(|h| json!({ "first": h.first.get(), "last": h.last.get() })).collect::<Vec<_>>()
        });
        let prefix = prefix.map(|p| {
            json!({
                "key": facts.prefix_key,
                "epoch": p.epoch.get(),
                "batch_id": p.batch_id.get(),
                "last_seq": p.last_seq.get(),
            })
        });
        json!({
            "outcome": outcome,
            "check": self.check,
            "prefix": prefix,
            "base": self.base().map(Seq::get),
            "entries": facts.entries,
            "holes": holes,
            "missing": facts.missing,
            "above": facts.above,
            "latest": facts.latest.value,
            "latest_moves": facts.quiet.map(|quiet| !quiet),
            "election_key": { "key": facts.election.key, "value": facts.election.value },
            "snapshots": facts.snapshots.iter().map(|(id, at)| json!({ "id": id, "sequence": at })).collect::<Vec<_>>(),
            "error": self.outcome.as_ref().err().map(ToString::to_string),
        })
    }
}

fn sentence(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Created { prefix } => format!(
            "cut over at entry {0}: batch 1 begins at {1}. Keep the legacy entries: a node that starts needs them as long as no snapshot \
             holds what they say",
            prefix.last_seq,
            prefix.last_seq.get().saturating_add(1)
        ),
        Outcome::Found { base, planned: None, .. } => {
            format!("the log was cut over before, at entry {base}; nothing was changed")
        }
        Outcome::Found { base, planned: Some(planned), .. } if base == planned => {
            format!("another cutover was faster, at the same entry {base}; its prefix counts")
        }
        Outcome::Found { base, planned: Some(planned), .. } => {
            format!("another cutover was faster, at entry {base} and not at {planned}; its prefix counts")
        }
        Outcome::Ready { base } => {
            format!("the log can be cut over at entry {base}; run the same without --check")
        }
    }
}

/// Prints why nothing could even be looked at.
pub(super) fn failed(error: &anyhow::Error, as_json: bool) -> Exit {
    if as_json {
        outln!("{}", json!({ "outcome": "refused", "error": format!("{error:#}") }));
    } else {
        errln!("plimsoll: {error:#}");
    }
    Exit::Refused
}
