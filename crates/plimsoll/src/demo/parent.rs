//! Owns the promise that a process of the demo does not outlive it, even if the demo is killed without a chance to clean up.

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// From now on the kernel kills this process when its parent ends.
///
/// # Errors
/// If the parent is not `pid`: it ended before the kernel was asked.
pub(crate) fn die_with(pid: u32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("the kernel does not tie this process to its parent")?;
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get());
    if parent.and_then(|parent| u32::try_from(parent).ok()) != Some(pid) {
        bail!("process {pid}, which started this one, has ended");
    }
    Ok(())
}
