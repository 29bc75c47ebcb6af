//! Owns a child process of the demo: started in a group of its own, killed with the value that holds it, with the parent gone too.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// A child process. Dropping it kills it and waits for its end.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) child: Child,
    /// Where its standard error goes.
    pub(super) log: PathBuf,
}

impl Process {
    /// Starts this very program with other arguments.
    ///
    /// It is not in our process group, so that Ctrl-C at a terminal reaches us alone and we end it in order.
    pub(super) fn start(name: &str, folder: &Path, arguments: &[String]) -> Result<Self> {
        let program = std::env::current_exe().context("this program does not know where it lies")?;
        let log = folder.join(format!("{name}.log"));
        let file = std::fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(program);
        // Settings of the person who runs the demo are not meant for its nodes, but for what is logged.
        let settings = std::env::vars_os().map(|(name, _)| name);
        for name in settings.filter(|name| name.to_string_lossy().starts_with("PLIMSOLL_") && name != "PLIMSOLL_LOG") {
            command.env_remove(name);
        }
        let child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::from(file))
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{name} does not start"))?;
        Ok(Self { name: name.into(), child, log })
    }

    /// What it prints on standard output.
    pub(super) fn lines(&mut self) -> Result<Lines<BufReader<ChildStdout>>> {
        let output = self.child.stdout.take().with_context(|| format!("{} has no standard output", self.name))?;
        Ok(BufReader::new(output).lines())
    }

    /// Sends a signal without waiting for its effect.
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.pid().with_context(|| format!("{} has ended already", self.name))?;
        kill_process(pid, signal).with_context(|| format!("{} cannot be signalled", self.name))
    }

    /// `None` once its end is known.
    fn pid(&self) -> Option<Pid> {
        self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
    }

    /// Fails with the process's last words if it has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.child.try_wait().with_context(|| format!("the state of {} is unknown", self.name))? {
            None => Ok(()),
            Some(status) => bail!("{} ended by itself ({status}); its last words:\n{}", self.name, self.last_words()),
        }
    }

    /// Waits for its end.
    pub(super) async fn end(&mut self, within: Duration) -> Result<()> {
        match tokio::time::timeout(within, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => bail!("{} ended with {status}; its last words:\n{}", self.name, self.last_words()),
            Ok(Err(error)) => Err(error).with_context(|| format!("the state of {} is unknown", self.name)),
            Err(_) => bail!("{} did not end within {within:?}; its last words:\n{}", self.name, self.last_words()),
        }
    }

    /// The last lines that it wrote.
    pub(super) fn last_words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}

/// A process that was only sent a signal still ends the call that it is in, and so may make a file while its folder is being removed.
impl Drop for Process {
    fn drop(&mut self) {
        if let Some(pid) = self.pid()
            && self.child.start_kill().is_ok()
        {
            // Not taken from the child, which would signal its id again. There is nothing to do about an error of either.
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let _ = self.child.try_wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_is_gone_when_its_value_is() {
        let folder = tempfile::tempdir().unwrap();
        // This test program again, which lists its tests to nobody who reads them.
        let process = Process::start("child", folder.path(), &["--list".to_owned()]).unwrap();
        let pid = process.child.id().unwrap();
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it runs, or nobody has asked for its end");
    }
}
