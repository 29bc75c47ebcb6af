//! Owns where the workspace is and which files belong to it. It must not read what is in them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// The folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> Result<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = own.parent().context("xtask lies inside the workspace")?;
    ensure!(
        root.join("Cargo.toml").is_file(),
        "{} is gone; run from the checkout that xtask was built in",
        root.display()
    );
    Ok(root.to_path_buf())
}

/// The files of the tree: tracked ones and new ones that are not ignored, relative to `root`, in order.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let listed = git(root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    let mut files: Vec<PathBuf> =
        listed.split('\0').filter(|f| !f.is_empty()).map(PathBuf::from).filter(|f| root.join(f).is_file()).collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// What git says about the tree: which files differ from the last commit.
pub(crate) fn status(root: &Path) -> Result<String> {
    git(root, &["status", "--porcelain=v1", "-z", "--untracked-files=all"])
}

fn git(root: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new("git").arg("-C").arg(root).args(args).output().context("git does not start")?;
    ensure!(
        output.status.success(),
        "git {} failed in {}: {}",
        args.join(" "),
        root.display(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).context("git printed a path that is not UTF-8")
}
