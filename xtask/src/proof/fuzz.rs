//! Owns running the fuzz targets on the pinned toolchain: the flags that bring coverage, the time each gets, and what libFuzzer says.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use super::result::{LookedAt, Proof};
use crate::cargo;
use crate::ci::target;

/// How long each target runs if nobody says otherwise.
pub(crate) const SECONDS: u64 = 5;

/// LLVM's coverage pass, which stable has, with what libFuzzer reads of it; and the checks that a release build leaves out.
const RUSTFLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Cdebug-assertions=on -Coverflow-checks=on -Ccodegen-units=1";

/// One target with its folders.
struct Target {
    name: String,
    program: PathBuf,
    /// The committed seeds.
    seeds: PathBuf,
    /// Inputs found so far; stays between runs.
    corpus: PathBuf,
    findings: PathBuf,
}

/// What libFuzzer said of one run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    /// Places in the code that the inputs reached.
    coverage: u64,
    executions: u64,
    /// The file with the input that broke a property.
    finding: Option<PathBuf>,
}

/// Fuzzes all targets, or one, each for `seconds`.
pub(crate) fn prove(root: &Path, only: Option<&str>, seconds: u64) -> Result<Proof> {
    let targets = build(root, only)?;
    let (mut executions, mut held) = (0, true);
    let mut reached = std::collections::BTreeMap::new();
    for target in &targets {
        let without = target.coverage_of_nothing()?;
        let (said, passed) = target.fuzz(seconds)?;
        executions += said.executions;
        reached.insert(format!("{}: places reached", target.name), said.coverage);
        if said.coverage <= without {
            eprintln!(
                "{}: reached {} places, as an empty input does; coverage does not work",
                target.name, said.coverage
            );
            held = false;
        }
        if !passed {
            held = false;
            target.say_how_to_replay(said.finding.as_deref());
        }
    }
    Ok(Proof { proof: "fuzz", looked_at: LookedAt::Executions(executions), reached, held })
}

/// Runs one target on one file.
pub(super) fn replay(root: &Path, name: &str, file: &Path) -> Result<bool> {
    let [target] = build(root, Some(name))?.try_into().ok().context("one target")?;
    let status = Command::new(target.program).arg(file).status().context("the target does not start")?;
    Ok(status.success())
}

fn build(root: &Path, only: Option<&str>) -> Result<Vec<Target>> {
    let targets = targets(root, only)?;
    let host = host()?;
    let mut build = command(root, "build", &host);
    for target in &targets {
        build.args(["--bin", &target.name]);
    }
    ensure!(build.status().context("cargo build does not start")?.success(), "the fuzz targets do not build");
    let programs = folder(root).join(&host).join("release");
    Ok(targets.into_iter().map(|t| Target { program: programs.join(&t.name), ..t }).collect())
}

/// A cargo command that builds for the engine, apart from all other builds. As the platform is named, build scripts and macros are
/// built without the flags.
pub(crate) fn command(root: &Path, subcommand: &str, host: &str) -> Command {
    let mut command = cargo::command(root, subcommand);
    command.env("RUSTFLAGS", RUSTFLAGS).env("CARGO_TARGET_DIR", folder(root));
    command.args(["--quiet", "--release", "--package", "plimsoll-fuzz", "--features", "libfuzzer", "--target", host]);
    command
}

fn folder(root: &Path) -> PathBuf {
    target(root).join("proof/fuzz")
}

/// A target is a file in `fuzz/fuzz_targets`.
fn targets(root: &Path, only: Option<&str>) -> Result<Vec<Target>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root.join("fuzz/fuzz_targets"))? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    let known = names.join(", ");
    names.retain(|name| only.is_none_or(|only| only == name));
    ensure!(!names.is_empty(), "there is no fuzz target {:?}; there are {known}", only.unwrap_or_default());
    let target = |name: String| Target {
        program: PathBuf::new(),
        seeds: root.join("fuzz/corpus").join(&name),
        corpus: folder(root).join("corpus").join(&name),
        findings: folder(root).join("findings"),
        name,
    };
    Ok(names.into_iter().map(target).collect())
}

/// The platform that builds and runs.
pub(crate) fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).args(["--version", "--verbose"]).output().context("rustc does not start")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    match said.lines().find_map(|line| line.strip_prefix("host: ")) {
        Some(host) => Ok(host.to_owned()),
        None => bail!("rustc does not say its host: {said:?}"),
    }
}

impl Target {
    fn coverage_of_nothing(&self) -> Result<u64> {
        let mut run = Command::new(&self.program);
        let (said, passed) = listen(run.args(["-runs=0", "-seed=1"]), false)?;
        ensure!(passed, "{} fails on an empty input", self.name);
        Ok(said.coverage)
    }

    fn fuzz(&self, seconds: u64) -> Result<(Said, bool)> {
        for folder in [&self.corpus, &self.findings] {
            std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        }
        let mut run = Command::new(&self.program);
        run.arg(&self.corpus).arg(&self.seeds);
        run.arg(format!("-max_total_time={seconds}")).arg(format!(
            "-artifact_prefix={}/{}-",
            self.findings.display(),
            self.name
        ));
        run.args([
            "-seed=1",
            "-max_len=16384",
            "-timeout=30",
            "-rss_limit_mb=2048",
            "-use_value_profile=1",
            "-print_final_stats=1",
        ]);
        listen(&mut run, true)
    }

    fn say_how_to_replay(&self, finding: Option<&Path>) {
        let Some(file) = finding else {
            return eprintln!("{} failed before it had an input; what it said stands above", self.name);
        };
        let (name, file) = (&self.name, file.display());
        eprintln!("{name} broke on {file}; to replay:\n  cargo xtask proof fuzz --only {name} --replay {file}");
        eprintln!("once it is cured, add it to the seeds in fuzz/src/targets/{name}.rs");
    }
}

/// Runs libFuzzer and reads what it says; after a failure all of it is passed on.
fn listen(run: &mut Command, pass_on_failure: bool) -> Result<(Said, bool)> {
    let mut child =
        run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("the target")?;
    let stderr = child.stderr.take().context("the target has an output")?;
    let mut lines = Vec::new();
    for line in BufReader::new(stderr).split(b'\n') {
        lines.push(String::from_utf8_lossy(&line.context("the target's output")?).into_owned());
    }
    let passed = child.wait().context("the target's exit status is lost")?.success();
    if !passed && pass_on_failure {
        lines.iter().for_each(|line| eprintln!("{line}"));
    }
    Ok((read(&lines), passed))
}

fn read(lines: &[String]) -> Said {
    let mut said = Said::default();
    for line in lines {
        if let Some((_, rest)) = line.split_once(" cov: ") {
            said.coverage = number(rest).unwrap_or(said.coverage);
        }
        if let Some(rest) = line.strip_prefix("stat::number_of_executed_units:") {
            said.executions = number(rest).unwrap_or(0);
        }
        if let Some((_, file)) = line.split_once("Test unit written to ") {
            said.finding = Some(PathBuf::from(file.trim()));
        }
    }
    said
}

fn number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Said, read};

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_last_coverage_and_the_executions_are_read() {
        let said = "#7\tINITED cov: 120 ft: 130 corp: 3/90b exec/s: 0 rss: 40Mb\n#900\tDONE   cov: 188 ft: 400 corp: 9/1Kb\n\
                    stat::number_of_executed_units: 900\n";
        assert_eq!(read(&lines(said)), Said { coverage: 188, executions: 900, finding: None });
    }

    #[test]
    fn a_finding_names_its_file() {
        let said = "artifact_prefix='f/x-'; Test unit written to f/x-crash-12ab\nBase64: AAA=\n";
        assert_eq!(read(&lines(said)).finding.unwrap().to_str(), Some("f/x-crash-12ab"));
    }
}
