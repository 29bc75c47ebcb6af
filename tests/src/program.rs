//! Owns the program under test: the `plimsoll` that was built beside the tests, run to its end or until it is killed. It builds nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};

use crate::missing;

/// What a loaded machine may take for one command.
const END_WITHIN: Duration = Duration::from_secs(120);
const BUILD: &str = "cargo build -p plimsoll --features etcd,redis";

/// The program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plimsoll(PathBuf);

/// How a command ended, and what it printed.
#[derive(Debug)]
pub struct Ran {
    /// Its exit status, or -1 for a signal.
    pub code: i32,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Ran {
    /// The one JSON value that it printed.
    ///
    /// # Panics
    /// If that is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// The program beside the running test. A run of all tests builds it; without one the test is announced as skipped.
///
/// # Panics
/// If a source that it was made of has changed since: it would be another program that is tested.
#[must_use]
pub fn plimsoll(test: &str) -> Option<Plimsoll> {
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.join("plimsoll")));
    let Some(program) = beside.filter(|program| program.is_file()) else {
        missing("plimsoll", test);
        return None;
    };
    match changed_since(&program) {
        Ok(None) => Some(Plimsoll(program)),
        Ok(Some(source)) => panic!("{} is newer than the program that {test} runs; run `{BUILD}`", source.display()),
        Err(error) => panic!("whether the program that {test} runs is up to date cannot be told: {error:#}"),
    }
}

impl Plimsoll {
    /// The program, with nothing of the tester's environment that it would read.
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.0);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PLIMSOLL_") {
                command.env_remove(name);
            }
        }
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If it does not start, does not end within two minutes, or prints what is no text.
    pub async fn run(&self, args: &[&str]) -> Ran {
        let mut command = tokio::process::Command::from(self.command(args));
        let output = tokio::time::timeout(END_WITHIN, command.kill_on_drop(true).output()).await;
        let output = output.unwrap_or_else(|_| panic!("{args:?} did not end within {END_WITHIN:?}"));
        let output = output.unwrap_or_else(|e| panic!("{} does not start: {e}", self.0.display()));
        let text = |bytes| String::from_utf8(bytes).expect("the program prints text");
        Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// A source that is newer than the program, by the list that cargo writes beside it.
fn changed_since(program: &Path) -> Result<Option<PathBuf>> {
    let list = program.with_extension("d");
    if !list.exists() {
        // Only `cargo build` leaves one. What `cargo test` has built, it has built in this run.
        return Ok(None);
    }
    let text = std::fs::read_to_string(&list).with_context(|| format!("{} cannot be read", list.display()))?;
    let sources = sources(&text);
    ensure!(!sources.is_empty(), "{} names no source", list.display());
    let built = modified(program)?;
    for source in sources {
        // What is gone was a part of it, too.
        if modified(&source).map_or(true, |at| at > built) {
            return Ok(Some(source));
        }
    }
    Ok(None)
}

/// `PROGRAM: SOURCE SOURCE ...`, with a backslash before a space that belongs to a path.
fn sources(list: &str) -> Vec<PathBuf> {
    let (_, sources) = list.lines().next().and_then(|line| line.split_once(": ")).unwrap_or_default();
    let sources = sources.replace("\\ ", "\0");
    sources.split_whitespace().map(|path| PathBuf::from(path.replace('\0', " "))).collect()
}

fn modified(path: &Path) -> Result<SystemTime> {
    let at = std::fs::metadata(path).and_then(|file| file.modified());
    at.with_context(|| format!("{} cannot be looked at", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_changed_or_is_gone_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (program, old, new) = (dir.path().join("program"), dir.path().join("an old one"), dir.path().join("new"));
        for (file, age) in [(&old, 30), (&program, 20), (&new, 10)] {
            let at = SystemTime::now() - Duration::from_secs(age);
            std::fs::File::create(file).unwrap().set_modified(at).unwrap();
        }
        let listed = |sources: &[&Path]| {
            let sources: Vec<_> = sources.iter().map(|s| s.display().to_string().replace(' ', "\\ ")).collect();
            std::fs::write(program.with_extension("d"), format!("program: {}\n", sources.join(" "))).unwrap();
            changed_since(&program)
        };
        assert_eq!(listed(&[&old]).unwrap(), None);
        assert_eq!(listed(&[&old, &new]).unwrap(), Some(new.clone()));
        let gone = dir.path().join("gone");
        assert_eq!(listed(&[&old, &gone]).unwrap(), Some(gone));
        assert!(listed(&[]).unwrap_err().to_string().contains("names no source"));
    }
}
