//! Owns `cargo xtask fix`: everything that can be repaired without thinking. It must not decide anything.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::cargo;

/// Applies clippy's suggestions, then formats, which is the order in which the second cleans up after the first.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let mut clippy = cargo::command(root, "clippy");
    clippy.args(["--fix", "--workspace", "--all-targets", "--allow-dirty", "--allow-staged"]);
    let repaired = clippy.status().context("cargo clippy does not start")?.success();
    let formatted = cargo::unlocked(root, "fmt").arg("--all").status().context("cargo fmt does not start")?.success();
    Ok(repaired && formatted)
}
