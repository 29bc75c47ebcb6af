//! Owns `cargo xtask servers`: brings the servers that the tests need, pinned, and says where they are. It must not leave
//! one running; each test starts its own, with its own port and data directory.

mod debian;
mod etcd_wheel;
mod found;
mod private;

use std::path::Path;

use anyhow::Result;

pub(crate) use found::{Found, Server, on_path};
pub(crate) use private::PrivateServer;

use found::REQUIRED;

/// Installs what is missing and prints what is there. `Ok(false)` if something is still missing afterwards.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let missing = Found::look(root).missing_packages();
    if !missing.is_empty() {
        debian::install(&missing)?;
    }
    debian::stop_services();
    if !etcd_wheel::present(root) {
        etcd_wheel::install(root)?;
    }
    let found = Found::look(root);
    for server in REQUIRED {
        match found.version(*server) {
            Some(version) => println!("{:<8} {version}", server.name()),
            None => println!("{:<8} MISSING", server.name()),
        }
    }
    println!("\n# what `cargo xtask ci` sets for the tests");
    for (name, value) in found.environment() {
        println!("export {name}={}", value.display());
    }
    Ok(REQUIRED.iter().all(|server| found.path(*server).is_some()))
}
