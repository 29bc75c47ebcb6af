//! Owns `plimsoll demo`: a primary that is killed under load, and the proof that nothing acknowledged was lost.

mod args;
mod clock;
mod cluster;
mod crowd;
mod evidence;
mod judge;
mod ledger;
mod load;
mod parent;
mod process;
mod report;
mod round;
mod takeover;

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use args::DemoArgs;
pub(crate) use load::{LoadArgs, run as run_load};
pub(crate) use parent::die_with;

use cluster::Cluster;
use report::RoundReport;

/// Plays all rounds. `Ok(true)` if every promise was kept in every one.
///
/// # Errors
/// When a round could not be played to its end, which proves nothing either way.
pub(crate) async fn run(args: DemoArgs) -> Result<bool> {
    let mut held = true;
    for number in 1..=args.rounds {
        let place = Place::new(&args, number)?;
        let report = run_round(&args, place.path(), number).await;
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                drop(place);
                return Err(error.context(format!("round {number}")));
            }
        };
        held &= report.holds();
        tell(&args, number, &report);
        if !report.holds() {
            // Whoever looks for the fault needs the evidence.
            errln!("ledgers, logs and log are left in {}", place.leave().display());
        }
    }
    Ok(held)
}

async fn run_round(args: &DemoArgs, folder: &Path, number: u32) -> Result<RoundReport> {
    let progress = progress_bar(number, args.rounds);
    let cluster = Cluster::new(args.backend.as_deref(), args.ttl_ms, folder).await?;
    let mut terminated = signal(SignalKind::terminate()).context("no handler for SIGTERM")?;
    let outcome = tokio::select! {
        outcome = round::play(&cluster, args, &progress) => outcome,
        _ = tokio::signal::ctrl_c() => bail_interrupted(),
        _ = terminated.recv() => bail_interrupted(),
    };
    progress.finish_and_clear();
    // The round's processes are gone with its future; what they wrote into a shared store goes now.
    let keep_evidence = outcome.as_ref().is_ok_and(|report| !report.holds());
    if args.backend.is_some() && !keep_evidence {
        cluster.clean_up().await?;
    }
    outcome
}

fn bail_interrupted() -> Result<RoundReport> {
    bail!("interrupted; nothing is left behind")
}

fn tell(args: &DemoArgs, number: u32, report: &RoundReport) {
    if args.json {
        outln!("{}", report.json());
        for finding in &report.findings {
            errln!("{finding}");
        }
    } else {
        let backend = report.backend;
        outln!("Round {number} of {} on {backend}\n{}\n", args.rounds, report.text());
    }
}

/// Drawn on standard error, and only if that is a terminal.
fn progress_bar(number: u32, rounds: u32) -> ProgressBar {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    bar.set_prefix(format!("round {number}/{rounds}"));
    bar
}

/// The folder of a round.
enum Place {
    Temporary(tempfile::TempDir),
    Kept(std::path::PathBuf),
}

impl Place {
    fn new(args: &DemoArgs, number: u32) -> Result<Self> {
        match &args.keep {
            None => Ok(Self::Temporary(tempfile::Builder::new().prefix("plimsoll-demo-").tempdir()?)),
            Some(folder) => {
                let path = folder.join(format!("round-{number}"));
                std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
                std::fs::create_dir(&path).with_context(|| {
                    format!("cannot make {}; --keep wants a folder without earlier rounds", path.display())
                })?;
                Ok(Self::Kept(std::path::absolute(path)?))
            }
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Kept(path) => path,
        }
    }

    fn leave(self) -> std::path::PathBuf {
        match self {
            Self::Temporary(folder) => folder.keep(),
            Self::Kept(path) => path,
        }
    }
}
