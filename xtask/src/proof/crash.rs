//! Owns how the crashes of the bucket store are run: a program of `ha-sim`, built for speed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cargo;

pub(super) fn run(root: &Path, only: Option<&str>, json: bool) -> Result<bool> {
    let mut command = command(root, json);
    command.args(only.map(|only| ["--only", only]).into_iter().flatten());
    Ok(command.status().context("cargo run does not start")?.success())
}

/// The program, built if need be.
pub(crate) fn command(root: &Path, json: bool) -> Command {
    let mut command = cargo::command(root, "run");
    command.args(["--quiet", "--release", "--package", "ha-sim", "--bin", "proof-crash", "--"]);
    command.args(json.then_some("--json"));
    command
}
