//! Owns what the demo tells: a short report for people, one JSON object a round for programs.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::judge::{Finding, Kind, Verdict};

/// One round, as measured and judged.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RoundReport {
    pub(crate) suite: &'static str,
    pub(crate) backend: &'static str,
    pub(crate) graceful: bool,
    /// Calls of any kind.
    pub(crate) operations: u64,
    pub(crate) batches: u64,
    /// Entries a batch.
    pub(crate) mean_batch: f64,
    /// Changes whose reply promised durability.
    pub(crate) acknowledged: u64,
    /// Changes answered with no more than "accepted".
    pub(crate) accepted: u64,
    /// Changes cut short.
    pub(crate) cut: u64,
    pub(crate) refused: u64,
    /// Of the accepted and the cut ones: how many are in the log.
    pub(crate) either_applied: u64,
    pub(crate) either_lost: u64,
    /// Claims of the log after the first: the one that was meant, and what a busy machine added.
    pub(crate) failovers: u64,
    /// Calls in flight at the kill.
    pub(crate) in_flight: u64,
    /// Acknowledged before the kill.
    pub(crate) acknowledged_before: u64,
    pub(crate) missing: u64,
    pub(crate) doubled: u64,
    pub(crate) resurrected: u64,
    /// Missing, doubled and resurrected.
    pub(crate) lost: u64,
    /// Kill to leadership won.
    pub(crate) detect_ms: f64,
    /// Leadership won to the first durable reply.
    pub(crate) takeover_ms: f64,
    pub(crate) ttl_ms: u64,
    #[serde(skip)]
    pub(crate) findings: Vec<Finding>,
}

impl RoundReport {
    /// Writes the verdict into the report.
    pub(crate) fn judged(mut self, verdict: Verdict) -> Self {
        self.missing = verdict.count(Kind::Missing);
        self.doubled = verdict.count(Kind::Doubled);
        self.resurrected = verdict.count(Kind::Resurrected);
        self.lost = self.missing + self.doubled + self.resurrected;
        self.either_applied = verdict.either_applied;
        self.either_lost = verdict.either_lost;
        self.findings = verdict.findings;
        self
    }

    /// Whether every promise was kept.
    pub(crate) fn holds(&self) -> bool {
        self.lost == 0
    }

    /// One line of JSON.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| format!("{{\"error\":{:?}}}", error.to_string()))
    }

    /// The table, the timeline, the sentence.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n\n{}\n\n", self.table(), self.timeline());
        for finding in self.findings.iter().take(20) {
            text.push_str(&format!("  {finding}\n"));
        }
        if self.findings.len() > 20 {
            text.push_str(&format!("  and {} more\n", self.findings.len() - 20));
        }
        text.push_str(&self.sentence());
        text
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        let rows = [
            ("calls of all kinds", self.operations.to_string(), String::new()),
            (
                "acknowledged as durable",
                self.acknowledged.to_string(),
                format!("{} before the kill", self.acknowledged_before),
            ),
            ("accepted only", self.accepted.to_string(), "may be lost".into()),
            ("cut short", self.cut.to_string(), format!("{} calls in flight at the kill", self.in_flight)),
            ("of these two in the log", self.either_applied.to_string(), format!("{} are not", self.either_lost)),
            ("refused", self.refused.to_string(), "changed nothing".into()),
            ("failovers", self.failovers.to_string(), "one of them meant".into()),
            ("batches", self.batches.to_string(), format!("{:.1} entries each", self.mean_batch)),
            ("missing", self.missing.to_string(), "promised, and not there".into()),
            ("doubled", self.doubled.to_string(), "done once, and there twice".into()),
            ("resurrected", self.resurrected.to_string(), "gone or refused, and there".into()),
        ];
        for (name, value, remark) in rows {
            table.add_row([name.to_owned(), value, remark]);
        }
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    fn timeline(&self) -> String {
        const WIDTH: f64 = 48.0;
        let whole = (self.detect_ms + self.takeover_ms).max(1.0);
        let bar = |ms: f64, mark: &str| mark.repeat(((ms / whole * WIDTH).round() as usize).max(1));
        let begin = if self.graceful { "SIGTERM" } else { "SIGKILL" };
        format!(
            "  {begin} ├{}┼{}► first durable reply\n  {:pad$}  {:.0} ms to leadership (TTL {} ms), {:.0} ms more to serve",
            bar(self.detect_ms, "─"),
            bar(self.takeover_ms, "═"),
            "",
            self.detect_ms,
            self.ttl_ms,
            self.takeover_ms,
            pad = begin.len()
        )
    }

    fn sentence(&self) -> String {
        if self.holds() {
            format!(
                "Held: all {} acknowledged changes are in the log and at the new primary, each once.",
                self.acknowledged
            )
        } else {
            format!("NOT HELD: {} of {} acknowledged changes or their absence are wrong.", self.lost, self.acknowledged)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> RoundReport {
        RoundReport {
            suite: "demo",
            backend: "sqlite",
            graceful: false,
            operations: 10,
            batches: 2,
            mean_batch: 3.5,
            acknowledged: 7,
            accepted: 1,
            cut: 1,
            refused: 0,
            either_applied: 0,
            either_lost: 0,
            failovers: 1,
            in_flight: 100,
            acknowledged_before: 6,
            missing: 0,
            doubled: 0,
            resurrected: 0,
            lost: 0,
            detect_ms: 1000.0,
            takeover_ms: 41.0,
            ttl_ms: 1000,
            findings: vec![],
        }
    }

    #[test]
    fn the_json_has_the_fields_that_the_figures_need() {
        let json: serde_json::Value = serde_json::from_str(&report().json()).unwrap();
        for field in [
            "suite",
            "backend",
            "operations",
            "batches",
            "mean_batch",
            "acknowledged",
            "lost",
            "detect_ms",
            "takeover_ms",
        ] {
            assert!(!json[field].is_null(), "{field}");
        }
    }

    #[test]
    fn lost_is_the_sum_and_shows() {
        let finding = |kind| Finding { kind, key: "k".into(), message: "m".into() };
        let findings = vec![finding(Kind::Missing), finding(Kind::Doubled), finding(Kind::Resurrected)];
        let bad = report().judged(Verdict { findings, either_applied: 1, either_lost: 1 });
        assert_eq!((bad.lost, bad.holds()), (3, false));
        assert!(bad.text().contains("NOT HELD") && bad.text().contains("Doubled: k: m"));
        assert!(report().text().contains("Held: all 7"));
    }
}
