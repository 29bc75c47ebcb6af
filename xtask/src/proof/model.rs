//! Owns how the model of the protocol is run: a program of `ha-sim`, built for speed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cargo;

pub(super) fn run(root: &Path, json: bool) -> Result<bool> {
    let status = command(root, json).status().context("cargo run does not start")?;
    Ok(status.success())
}

/// The program, built if need be.
pub(crate) fn command(root: &Path, json: bool) -> Command {
    let mut command = cargo::command(root, "run");
    command.args(["--quiet", "--release", "--package", "ha-sim", "--bin", "proof-model", "--"]);
    command.args(json.then_some("--json"));
    command
}
