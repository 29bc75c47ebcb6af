//! Owns a child process that can be stopped, continued and killed, and that never outlives the test.

use std::process::{Child, Command, ExitStatus};

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

/// A running process. It is killed when the guard is dropped, stopped or not.
#[derive(Debug)]
pub struct ProcessGuard {
    child: Mutex<Child>,
    pid: Pid,
}

impl ProcessGuard {
    /// Starts it.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        let child = command.spawn().with_context(|| format!("{} does not start", command.get_program().display()))?;
        let pid = Pid::from_child(&child);
        Ok(Self { child: Mutex::new(child), pid })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.lock().id()
    }

    /// Stops it in mid-step (`SIGSTOP`). Its sockets stay open and the kernel goes on accepting for it.
    ///
    /// # Panics
    /// If it is gone already.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on (`SIGCONT`).
    ///
    /// # Panics
    /// If it is gone already.
    pub fn cont(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to end (`SIGTERM`).
    ///
    /// # Panics
    /// If it is gone already.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills it (`SIGKILL`) and waits for its end.
    ///
    /// # Panics
    /// If the operating system refuses.
    pub fn kill(&self) {
        let mut child = self.child.lock();
        child.kill().expect("a child can be killed");
        child.wait().expect("a killed child ends");
    }

    /// How it ended, or `None` while it runs.
    ///
    /// # Panics
    /// If the operating system does not say.
    #[must_use]
    pub fn ended(&self) -> Option<ExitStatus> {
        self.child.lock().try_wait().expect("the state of a child is known")
    }

    /// The child's ends of its pipes, for those who asked for pipes.
    pub fn with_child<T>(&self, f: impl FnOnce(&mut Child) -> T) -> T {
        f(&mut self.child.lock())
    }

    fn signal(&self, signal: Signal) {
        let mut child = self.child.lock();
        // A child that was waited for has given its id back: another process may have it now.
        assert!(matches!(child.try_wait(), Ok(None)), "process {} is gone", self.pid);
        kill_process(self.pid, signal).expect("a running child takes a signal");
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        // It may have ended by itself; there is nothing to do about either error.
        let _ = child.kill();
        let _ = child.wait();
    }
}
