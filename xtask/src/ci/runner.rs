//! Owns running one command of a step. It must not judge more than an exit status and what the test harness counted.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context as _, Result};

use super::outcome::Outcome;
use super::test_output::Tally;

/// Runs a command whose exit status says it all.
pub(super) fn run(command: &mut Command) -> Result<Outcome> {
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("{command:?} does not start"))?;
    Ok(Outcome::of(status.success()))
}

/// Runs a test harness, passes on what it prints, and counts.
pub(super) fn test(command: &mut Command) -> Result<Outcome> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command:?} does not start"))?;
    let tally = Mutex::new(Tally::default());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(|| stdout.map(|from| pass_on(from, std::io::stdout(), &tally)));
        scope.spawn(|| stderr.map(|from| pass_on(from, std::io::stderr(), &tally)));
    });
    let status = child.wait().context("the tests' exit status is lost")?;
    let tally = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(tally.outcome(status.success()))
}

/// Passes lines on until the pipe closes. A terminal that is gone does not stop the tests.
fn pass_on(from: impl Read, mut to: impl Write, tally: &Mutex<Tally>) {
    for line in BufReader::new(from).split(b'\n') {
        let Ok(mut line) = line else { break };
        if let Ok(mut tally) = tally.lock() {
            tally.line(&String::from_utf8_lossy(&line));
        }
        line.push(b'\n');
        if to.write_all(&line).and_then(|()| to.flush()).is_err() {
            continue;
        }
    }
}
