//! Owns how cargo is called: the cargo that called us, the locked dependencies, the workspace's folder.

use std::path::Path;
use std::process::Command;

/// A cargo command in the workspace. `--locked` is added, so that no chore changes `Cargo.lock`.
pub(crate) fn command(root: &Path, subcommand: &str) -> Command {
    let mut cargo = unlocked(root, subcommand);
    cargo.arg("--locked");
    cargo
}

/// A cargo command for a subcommand that resolves nothing, such as `fmt`.
pub(crate) fn unlocked(root: &Path, subcommand: &str) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = Command::new(cargo);
    cargo.current_dir(root).arg(subcommand);
    cargo
}
