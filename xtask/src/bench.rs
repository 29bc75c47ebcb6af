//! Owns `cargo xtask bench`: which suite lives where and what it needs. It must not measure anything itself.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, ValueEnum};

use crate::cargo;
use crate::ci::target;
use crate::servers::{Found, PrivateEtcd, Server};

#[derive(Parser)]
pub(crate) struct Args {
    /// What to measure; everything if none is named
    #[arg(value_enum)]
    suites: Vec<Suite>,
    /// Fewer rounds of the same inputs: at most a minute a suite
    #[arg(long)]
    quick: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// Batch records against a memcpy
    Codec,
    /// The ordered writer against a bare loop of transactions
    Writer,
    /// Replay of a million puts, and bytes an object
    Replay,
    /// From caught up to serving
    Promote,
    /// Real processes: kill to leadership, leadership to first durable reply
    Demo,
}

/// Runs the suites one after the other. `Ok(false)` if one of them failed.
pub(crate) fn run(root: &Path, args: &Args) -> Result<bool> {
    let found = Found::look(root);
    let suites: &[Suite] = if args.suites.is_empty() { Suite::value_variants() } else { &args.suites };
    let mut held = true;
    for suite in suites {
        held &= match suite {
            Suite::Codec => measure(cargo_bench(root, "oplog-core", "codec"), args)?,
            Suite::Writer => writer(root, args, &found)?,
            Suite::Replay => measure(cargo_bench(root, "master", "replay"), args)?,
            Suite::Promote => measure(cargo_bench(root, "master", "promote"), args)?,
            Suite::Demo => demo(root, args, &found)?,
        };
    }
    Ok(held)
}

fn flags(args: &Args) -> impl Iterator<Item = &'static str> {
    [(args.quick, "--quick"), (args.json, "--json")].into_iter().filter_map(|(on, flag)| on.then_some(flag))
}

fn cargo_bench(root: &Path, package: &str, bench: &str) -> Command {
    let mut command = cargo::command(root, "bench");
    command.args(["--quiet", "--package", package, "--bench", bench]);
    command
}

fn measure(mut command: Command, args: &Args) -> Result<bool> {
    let status = command.arg("--").args(flags(args)).status().context("cargo bench does not start")?;
    Ok(status.success())
}

fn writer(root: &Path, args: &Args, found: &Found) -> Result<bool> {
    let etcd = etcd_or_word(root, found)?;
    let mut command = cargo_bench(root, "oplog-core", "writer");
    if let Some(etcd) = &etcd {
        command.args(["--features", "bench-etcd"]).envs(found.environment());
        command.env("PLIMSOLL_ETCD_ENDPOINT", format!("http://{}", etcd.endpoint()));
    }
    measure(command, args)
}

fn demo(root: &Path, args: &Args, found: &Found) -> Result<bool> {
    let etcd = etcd_or_word(root, found)?;
    let mut build = cargo::command(root, "build");
    build.args(["--quiet", "--release", "--package", "plimsoll"]).envs(found.environment());
    if etcd.is_some() {
        build.args(["--features", "etcd"]);
    }
    ensure!(build.status().context("cargo build does not start")?.success(), "the program does not build");
    let program = target(root).join("release/plimsoll");
    let rounds = if args.quick { "1" } else { "5" };
    let run = |more: &[&str]| -> Result<bool> {
        let mut demo = Command::new(&program);
        demo.args(["demo", "--rounds", rounds]).args(more);
        if args.json {
            demo.arg("--json");
        }
        Ok(demo.status().context("the demo does not start")?.success())
    };
    let mut held = run(&[])? & run(&["--graceful"])?;
    if let Some(etcd) = &etcd {
        let backend = format!("etcd://{}", etcd.endpoint());
        held &= run(&["--backend", &backend])? & run(&["--backend", &backend, "--graceful"])?;
    }
    Ok(held)
}

/// A private etcd, or a word on stderr that its rows will be missing.
fn etcd_or_word(root: &Path, found: &Found) -> Result<Option<PrivateEtcd>> {
    if found.path(Server::Etcd).is_none() || found.path(Server::Protoc).is_none() {
        eprintln!("SKIPPED etcd: run `cargo xtask servers` to have its rows measured");
        return Ok(None);
    }
    PrivateEtcd::start(root, found).map(Some)
}
