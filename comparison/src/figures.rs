//! Owns what is measured of a side: time, bytes written, space left.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// One side's figures of one round.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub delete: Duration,
    pub reclaim: Duration,
    /// Bytes that the process sent towards the disk while it deleted and reclaimed.
    pub written: u64,
    /// Bytes of the blocks that the directory holds at the end.
    pub left: u64,
}

impl Figures {
    pub fn seconds(self) -> f64 {
        (self.delete + self.reclaim).as_secs_f64()
    }
}

/// Measures one step: its time and the bytes written during it.
pub fn measured<T>(step: impl FnOnce() -> Result<T>) -> Result<(T, Duration, u64)> {
    let (before, start) = (written()?, Instant::now());
    let value = step()?;
    Ok((value, start.elapsed(), written()? - before))
}

fn written() -> Result<u64> {
    let io = std::fs::read_to_string("/proc/self/io").context("the system counts no I/O of this process")?;
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.context("/proc/self/io has no write_bytes")?.trim().parse()?)
}

/// Bytes of the blocks of all files in the directory.
pub fn blocks(directory: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        bytes += entry?.metadata()?.blocks() * 512;
    }
    Ok(bytes)
}
