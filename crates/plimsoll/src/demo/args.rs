//! Owns what `plimsoll demo` can be told.

use std::path::PathBuf;

use clap::Args;

/// Kill a primary under load and prove that nothing acknowledged was lost
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoArgs {
    /// Where the log lives: sqlite:///PATH, etcd://HOST:PORT[,...] or redis://HOST:PORT; an SQLite file of its own by default
    #[arg(long, value_name = "URL")]
    pub(crate) backend: Option<String>,
    /// How many times; each round is a cluster of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// SIGTERM instead of SIGKILL: the primary hands over
    #[arg(long)]
    pub(crate) graceful: bool,
    /// One JSON object a round
    #[arg(long)]
    pub(crate) json: bool,
    /// Acknowledged changes before the primary is killed
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) acknowledged: u64,
    /// Client processes
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) clients: u32,
    /// Calls that each of them has running at the same time
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) workers: u32,
    /// Time after which leadership ends without a sign of life, in milliseconds; etcd takes no less than 2000
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(500..=60_000))]
    pub(crate) ttl_ms: Option<u64>,
    /// Leave ledgers, logs and the SQLite file in this folder, which must not exist yet
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,
}
