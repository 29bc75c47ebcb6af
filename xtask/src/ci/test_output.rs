//! Owns the reading of what the test harness prints: its closing lines, and the skips that our tests announce.

use super::outcome::Outcome;

/// What our tests print, on a line of its own, when the server that they need is not there: `SKIPPED etcd: name_of_test`.
const SKIPPED: &str = "SKIPPED ";
const RESULT: &str = "test result: ";

/// Sums over the test binaries of one run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    passed: u64,
    failed: u64,
    skipped: Vec<String>,
}

impl Tally {
    pub(super) fn line(&mut self, line: &str) {
        if let Some(what) = line.strip_prefix(SKIPPED) {
            self.skipped.push(what.trim().to_owned());
        } else if let Some(result) = line.strip_prefix(RESULT) {
            self.passed += count(result, " passed").unwrap_or(0);
            self.failed += count(result, " failed").unwrap_or(0);
        }
    }

    /// A run that failed without a failed test did not compile or crashed; a test that announced its skip has not passed.
    pub(super) fn outcome(self, success: bool) -> Outcome {
        let failed = if success { self.failed } else { self.failed.max(1) };
        let passed = self.passed.saturating_sub(self.skipped.len() as u64);
        Outcome { passed, failed, skipped: self.skipped }
    }
}

/// The number directly before `word`.
fn count(line: &str, word: &str) -> Option<u64> {
    let before = &line[..line.find(word)?];
    before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Tally;
    use crate::ci::outcome::Outcome;

    fn tally(lines: &[&str], success: bool) -> Outcome {
        let mut tally = Tally::default();
        for line in lines {
            tally.line(line);
        }
        tally.outcome(success)
    }

    #[test]
    fn binaries_are_summed() {
        let lines = [
            "running 23 tests",
            "test result: ok. 23 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ];
        assert_eq!(tally(&lines, false), Outcome { passed: 27, failed: 2, skipped: vec![] });
    }

    #[test]
    fn a_run_that_does_not_compile_has_failed() {
        assert_eq!(tally(&["error: could not compile"], false), Outcome { passed: 0, failed: 1, skipped: vec![] });
    }

    #[test]
    fn an_announced_skip_is_not_a_pass() {
        let lines = ["SKIPPED etcd: w1_reply_swallowed", "test result: ok. 2 passed; 0 failed; 0 ignored"];
        let skipped = vec!["etcd: w1_reply_swallowed".to_owned()];
        assert_eq!(tally(&lines, true), Outcome { passed: 1, failed: 0, skipped });
    }
}
