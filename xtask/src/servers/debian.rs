//! Owns the use of Debian's package manager. It must not be called when nothing is missing.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use super::found::on_path;

/// Services that the packages start by themselves and that hold the ports and the memory of the machine.
const SERVICES: &[&str] = &["etcd", "redis-server"];

/// Installs the packages.
///
/// # Errors
/// Names what is missing and how to get it when this is no Debian or we are not root.
pub(super) fn install(packages: &[&str]) -> Result<()> {
    let wanted = packages.join(" ");
    ensure!(
        on_path("apt-get").is_some(),
        "missing: {wanted}; there is no apt-get here, install them by hand and put them on PATH"
    );
    ensure!(is_root()?, "missing: {wanted}; run `sudo apt-get install {wanted}`, or this command as root");
    apt(&["update"])?;
    let mut install = vec!["install", "--yes", "--no-install-recommends"];
    install.extend(packages);
    apt(&install)
}

/// Stops the services that the packages started. There may be none, and no service manager to ask.
pub(super) fn stop_services() {
    for service in SERVICES {
        let script = Path::new("/etc/init.d").join(service);
        if script.is_file() {
            let stopped =
                Command::new("service").args([service, "stop"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
            if stopped.is_err() {
                eprintln!("the service {service} could not be asked to stop; the tests use ports of their own anyway");
            }
        }
    }
}

fn apt(args: &[&str]) -> Result<()> {
    let status = Command::new("apt-get")
        .arg("--quiet")
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status()
        .context("apt-get does not start")?;
    if !status.success() {
        bail!("apt-get {} failed ({status}); its messages are above", args.join(" "));
    }
    Ok(())
}

fn is_root() -> Result<bool> {
    let output = Command::new("id").arg("-u").output().context("`id` does not start")?;
    Ok(output.stdout.trim_ascii() == b"0")
}
