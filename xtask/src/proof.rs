//! Owns `cargo xtask proof`: which proofs there are and where they live. It must not check anything itself.

pub(crate) mod crash;
pub(crate) mod fuzz;
pub(crate) mod model;
mod result;
pub(crate) mod schedules;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Parser, ValueEnum};

#[derive(Parser)]
pub(crate) struct Args {
    /// What to prove; everything if none is named
    #[arg(value_enum)]
    proofs: Vec<Proof>,
    /// One JSON object a line, with `proof`, what was counted, `reached` and `held`; progress goes to stderr
    #[arg(long)]
    json: bool,
    /// Only the scenario of the schedules, the fuzz target, or the workload or removed rule of the crashes, of this name
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// How long each fuzz target runs
    #[arg(long, value_name = "N", default_value_t = fuzz::SECONDS)]
    seconds: u64,
    /// Run the fuzz target named by --only on this file, and nothing else
    #[arg(long, value_name = "FILE", requires = "only")]
    replay: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Proof {
    /// The log's protocol, in every order of its steps, and with every rule removed in turn
    Model,
    /// The bucket store on a simulated disk: every crash, every call failing, and every step removed in turn
    Crash,
    /// The real code of the ordered writer, of the legacy log's writer and of the bucket store under many thousand schedules
    Schedules,
    /// Every decoder against hostile bytes, for a while
    Fuzz,
}

/// Runs the proofs one after the other, also after one that did not hold. `Ok(false)` if one did not.
pub(crate) fn run(root: &Path, args: &Args) -> Result<bool> {
    if let (Some(target), Some(file)) = (&args.only, &args.replay) {
        return fuzz::replay(root, target, file);
    }
    let only = args.only.as_deref();
    let proofs: &[Proof] = if args.proofs.is_empty() { Proof::value_variants() } else { &args.proofs };
    let mut held = true;
    for proof in proofs {
        held &= match proof {
            Proof::Model => model::run(root, args.json)?,
            Proof::Crash => crash::run(root, only, args.json)?,
            Proof::Schedules => schedules::prove(root, only)?.say(args.json)?,
            Proof::Fuzz => fuzz::prove(root, only, args.seconds)?.say(args.json)?,
        };
    }
    Ok(held)
}
