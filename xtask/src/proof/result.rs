//! Owns what a proof came to, for people and for programs.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;
use serde::Serialize;

/// What one proof came to.
#[derive(Debug, Serialize)]
pub(crate) struct Proof {
    /// Its name.
    pub(super) proof: &'static str,
    /// How much was looked at.
    #[serde(flatten)]
    pub(super) looked_at: LookedAt,
    /// Situations that occurred, and how often.
    pub(super) reached: BTreeMap<String, u64>,
    /// Whether everything held, and every situation that must occur did.
    pub(crate) held: bool,
}

/// How much was looked at, by what was counted.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LookedAt {
    /// Schedules of one program.
    Schedules(u64),
    /// Inputs executed.
    Executions(u64),
}

impl Proof {
    /// Prints it, and whether it held.
    pub(crate) fn say(&self, json: bool) -> Result<bool> {
        println!("{}", if json { serde_json::to_string(self)? } else { self.to_string() });
        Ok(self.held)
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.reached.keys().map(String::len).max().unwrap_or(0);
        for (situation, count) in &self.reached {
            writeln!(f, "  {situation:<width$}  {count:>10}")?;
        }
        let (count, what) = match self.looked_at {
            LookedAt::Schedules(count) => (count, "schedules"),
            LookedAt::Executions(count) => (count, "executions"),
        };
        write!(f, "{}: {count} {what}, {}", self.proof, if self.held { "held" } else { "DID NOT HOLD" })
    }
}

#[cfg(test)]
mod tests {
    use super::{LookedAt, Proof};

    #[test]
    fn the_json_has_the_four_fields_flat() {
        let proof = Proof {
            proof: "schedules",
            looked_at: LookedAt::Schedules(7),
            reached: [("a: b".to_owned(), 3)].into(),
            held: true,
        };
        let json = serde_json::to_string(&proof).unwrap();
        assert_eq!(json, r#"{"proof":"schedules","schedules":7,"reached":{"a: b":3},"held":true}"#);
    }
}
