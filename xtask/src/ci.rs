//! Owns `cargo xtask ci`: which steps there are and in which order. It must not change anything in the tree, which its
//! last step checks.

mod features;
mod outcome;
mod report;
mod runner;
mod test_output;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;

use crate::servers::{self, Found, PrivateServer, Server};
use crate::{cargo, proof, tidy, workspace};
use outcome::Outcome;
use report::Report;

/// The features that bring everything in: what the real-server tests need.
pub(crate) const ALL_BACKENDS: &str = "plimsoll/etcd,plimsoll/redis,plimsoll-tests/etcd,plimsoll-tests/redis";

#[derive(Parser)]
pub(crate) struct Args {
    /// Run `cargo xtask servers` first
    #[arg(long)]
    install: bool,
    /// Run only the steps whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Runs every step, also after a failure, and closes with the count. `Ok(false)` if anything failed.
pub(crate) fn run(root: &Path, args: &Args) -> Result<bool> {
    let strict = std::env::var("CI").is_ok_and(|value| value == "true");
    let mut report = Report::new(args.only.clone(), strict);
    if args.install && !servers::run(root)? {
        eprintln!("a server is still missing; its steps will be skipped");
    }
    let found = Found::look(root);
    let before = workspace::status(root)?;
    check_steps(root, &found, &mut report)?;
    test_steps(root, &found, &mut report);
    proof_steps(root, &mut report);
    demo_steps(root, &found, &mut report);
    report.step("tree unchanged", || {
        let after = workspace::status(root)?;
        ensure!(after == before, "a step changed the tree: {}", after.replace('\0', " "));
        Ok(Outcome::passed(1))
    });
    Ok(report.close())
}

fn check_steps(root: &Path, found: &Found, report: &mut Report) -> Result<()> {
    report.step("format", || runner::run(cargo::unlocked(root, "fmt").args(["--all", "--check"])));
    report.step("tidy", || tidy::run(root).map(Outcome::of));
    if servers::on_path("cargo-deny").is_some() {
        report
            .step("deny", || runner::run(cargo::unlocked(root, "deny").args(["check", "licenses", "bans", "sources"])));
    }
    report.step("clippy", || runner::run(&mut clippy(root)));
    report.step_with("clippy, all backends", found, &[Server::Protoc], || {
        runner::run(clippy_all(root).envs(found.environment()))
    });
    report.step_with("docs", found, &[Server::Protoc], || {
        let mut doc = cargo::command(root, "doc");
        doc.args(["--workspace", "--no-deps", "--features", ALL_BACKENDS]).env("RUSTDOCFLAGS", "-D warnings");
        runner::run(doc.envs(found.environment()))
    });
    for package in tidy::members(root)? {
        report.step(&format!("{package} alone"), || {
            // `protoc` is hidden, because the default features promise to do without it.
            let mut check = cargo::command(root, "check");
            runner::run(check.args(["--package", &package]).env("PROTOC", "/nonexistent/protoc"))
        });
    }
    for package in features::load(root)? {
        report.step(&format!("{}, each feature alone", package.name), || package.check(root, found));
    }
    Ok(())
}

fn test_steps(root: &Path, found: &Found, report: &mut Report) {
    let needs = [Server::Etcd, Server::Protoc, Server::Redis];
    let complete = report.step_with("tests, all backends", found, &needs, || {
        let mut test = cargo::command(root, "test");
        test.args(["--workspace", "--no-fail-fast", "--features", ALL_BACKENDS]);
        runner::test(test.envs(found.environment()))
    });
    if !complete {
        report.step("tests without servers", || {
            runner::test(cargo::command(root, "test").args(["--workspace", "--no-fail-fast"]))
        });
    }
}

fn proof_steps(root: &Path, report: &mut Report) {
    report.step("proof model", || runner::run(&mut proof::model::command(root, false)));
    report.step("proof crash", || runner::run(&mut proof::crash::command(root, false)));
    report.step("schedules, clippy", || {
        let mut clippy = proof::schedules::command(root, "clippy");
        runner::run(clippy.args(["--all-targets", "--", "-D", "warnings"]))
    });
    report.step("proof schedules", || proof::schedules::prove(root, None)?.say(false).map(Outcome::of));
    report.step("proof fuzz", || proof::fuzz::prove(root, None, proof::fuzz::SECONDS)?.say(false).map(Outcome::of));
    report.step("fuzz targets, clippy", || {
        let host = proof::fuzz::host()?;
        let mut clippy = proof::fuzz::command(root, "clippy", &host);
        runner::run(clippy.args(["--bins", "--", "-D", "warnings"]))
    });
}

fn demo_steps(root: &Path, found: &Found, report: &mut Report) {
    report.step("demo on sqlite", || {
        let program = build_program(root, found, false)?;
        runner::run(Command::new(program).arg("demo"))
    });
    report.step("demo on sqlite, graceful", || {
        let program = build_program(root, found, false)?;
        runner::run(Command::new(program).args(["demo", "--graceful"]))
    });
    report.step_with("demo on etcd", found, &[Server::Etcd, Server::Protoc], || {
        let program = build_program(root, found, true)?;
        let etcd = PrivateServer::etcd(root, found)?;
        runner::run(Command::new(program).args(["demo", "--backend", &format!("etcd://{}", etcd.endpoint())]))
    });
    report.step_with("demo on redis", found, &[Server::Redis, Server::Protoc], || {
        let program = build_program(root, found, true)?;
        let redis = PrivateServer::redis(root, found)?;
        runner::run(Command::new(program).args(["demo", "--backend", &format!("redis://{}", redis.endpoint())]))
    });
}

fn clippy(root: &Path) -> Command {
    let mut clippy = cargo::command(root, "clippy");
    clippy.args(["--workspace", "--all-targets", "--", "-D", "warnings"]);
    clippy
}

fn clippy_all(root: &Path) -> Command {
    let mut clippy = cargo::command(root, "clippy");
    clippy.args(["--workspace", "--all-targets", "--features", ALL_BACKENDS, "--", "-D", "warnings"]);
    clippy
}

/// Builds the program as the tests have it, so that little is compiled twice.
fn build_program(root: &Path, found: &Found, all_backends: bool) -> Result<PathBuf> {
    let mut build = cargo::command(root, "build");
    build.args(["--workspace", "--bin", "plimsoll"]).envs(found.environment());
    if all_backends {
        build.args(["--features", ALL_BACKENDS]);
    }
    let status = build.status().context("cargo build does not start")?;
    ensure!(status.success(), "the program does not build");
    Ok(target(root).join("debug/plimsoll"))
}

/// Cargo's output folder.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |set| root.join(set))
}
