//! Owns what can be typed.

use clap::{Args, Parser, Subcommand};

use super::audit::AuditArgs;
use super::bucket::BucketCommand;
use super::client_args::{ClientArgs, KeyArgs};
use super::cutover::CutoverArgs;
use super::logging::LogFormat;
use super::serve_args::ServeArgs;
use super::size;
use crate::demo::{DemoArgs, LoadArgs};
use crate::inspect::InspectArgs;

/// The metadata of a KV-cache store, kept alive through the loss of its master.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, after_long_help = EXAMPLES, propagate_version = true, max_term_width = 100)]
pub(super) struct Cli {
    /// Shape of log lines on standard error
    #[arg(
        long,
        global = true,
        help_heading = "Logging",
        value_enum,
        default_value = "text",
        env = "PLIMSOLL_LOG_FORMAT"
    )]
    pub(super) log_format: LogFormat,
    /// What is logged: a level, or TARGET=LEVEL,...
    #[arg(long, global = true, help_heading = "Logging", value_name = "FILTER", env = "PLIMSOLL_LOG")]
    pub(super) log: Option<String>,
    #[command(subcommand)]
    pub(super) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  See it work, on this machine alone:
    plimsoll demo

  A primary and a standby on one host, in two terminals:
    plimsoll serve --node a --store sqlite:///tmp/plimsoll.db
    plimsoll serve --node b --store sqlite:///tmp/plimsoll.db \\
        --listen 127.0.0.1:7402 --admin-listen 127.0.0.1:7403

  Use them; commands find the leader by themselves:
    export PLIMSOLL_ENDPOINTS=127.0.0.1:7400,127.0.0.1:7402
    plimsoll segment mount seg-1 --size 1GiB --endpoint 10.0.0.1:9000
    plimsoll put model/layer-0 --size 4MiB
    plimsoll get model/layer-0

  Hand over to the standby, then look at the log:
    plimsoll step-down
    plimsoll oplog inspect --store sqlite:///tmp/plimsoll.db

  Look at the buckets of an SSD that no process has open:
    plimsoll bucket ls /mnt/ssd0/buckets

Exit codes:
  0 done   1 refused or failed   2 wrong usage or configuration   3 no leader reached, nothing done
  4 outcome unknown   5 no such object or segment   6 some of several keys failed
  7 done, but the output could not be written   130 second signal
  141 the reader of the output went away before all was looked at";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Kill a primary under load and prove that nothing acknowledged was lost; needs no server
    #[command(
        after_help = "Examples:\n  plimsoll demo\n  plimsoll demo --rounds 5 --json\n  plimsoll demo --graceful --backend etcd://127.0.0.1:2379"
    )]
    Demo(DemoArgs),
    /// A client process of the demo
    #[command(hide = true)]
    DemoClient(LoadArgs),
    /// Run a node: a standby that becomes leader when there is none
    #[command(
        after_help = "Examples:\n  plimsoll serve --node a --store sqlite:///tmp/plimsoll.db\n  plimsoll serve --config /etc/plimsoll.toml --set leadership.ttl_ms=5000\n\nAll settings: plimsoll config check --list"
    )]
    Serve(Box<ServeArgs>),
    /// Start and end the put of an object; prints where its bytes go
    #[command(
        after_help = "Examples:\n  plimsoll put model/layer-0 --size 4MiB\n  plimsoll put --hex 00ff --size 4096 --replicas 2 --json"
    )]
    Put(PutArgs),
    /// Print where an object's bytes are, under a lease
    #[command(after_help = "Example:\n  plimsoll get model/layer-0 --lease-ms 10000")]
    Get(GetArgs),
    /// Remove objects
    #[command(after_help = "Example:\n  plimsoll remove model/layer-0 model/layer-1")]
    Remove(RemoveArgs),
    /// List a tenant's objects
    #[command(after_help = "Example:\n  plimsoll ls --after model/ --limit 100")]
    Ls(LsArgs),
    /// Mount, unmount and list segments of memory
    #[command(subcommand)]
    Segment(SegmentCommand),
    /// Look at the log in its store, audit it, cut over to batch records
    #[command(subcommand)]
    Oplog(OplogCommand),
    /// Look at a bucket directory: what is in it, what is wrong, what would become of it
    #[command(subcommand, after_help = super::bucket::HELP)]
    Bucket(BucketCommand),
    /// Ask the leader to hand over to a standby
    StepDown(ClientArgs),
    /// Print what each endpoint is and knows
    Status(ClientArgs),
    /// Print the cluster's times, or change them
    #[command(after_help = "Examples:\n  plimsoll policy\n  plimsoll policy --put-grant-ms 5000")]
    Policy(PolicyArgs),
    /// Work with configurations
    #[command(subcommand)]
    Config(ConfigCommand),
}

#[derive(Debug, Args)]
pub(super) struct PutArgs {
    /// The object's key
    pub(super) key: String,
    /// Size of the object: bytes, or with KiB, MiB, GiB, TiB
    #[arg(long, value_parser = size::parse)]
    pub(super) size: u64,
    /// Replicas, each in a segment of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) replicas: u32,
    #[command(flatten)]
    pub(super) durability: DurabilityArgs,
    #[command(flatten)]
    pub(super) keys: KeyArgs,
    #[command(flatten)]
    pub(super) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(super) struct DurabilityArgs {
    /// Answer before the change is in the log: it may be lost if the leader is replaced
    #[arg(long)]
    pub(super) accepted: bool,
}

#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    /// How long a client may write after its put start
    #[arg(long, value_name = "MS")]
    pub(super) put_grant_ms: Option<u64>,
    /// The lease of a get that asks for none
    #[arg(long, value_name = "MS")]
    pub(super) default_lease_ms: Option<u64>,
    /// The longest lease a get may ask for
    #[arg(long, value_name = "MS")]
    pub(super) longest_lease_ms: Option<u64>,
    #[command(flatten)]
    pub(super) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(super) struct GetArgs {
    /// The object's key
    pub(super) key: String,
    /// Milliseconds of lease; without it the cluster's default
    #[arg(long)]
    pub(super) lease_ms: Option<u64>,
    #[command(flatten)]
    pub(super) keys: KeyArgs,
    #[command(flatten)]
    pub(super) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(super) struct RemoveArgs {
    /// The objects' keys
    #[arg(required = true, value_name = "KEY")]
    pub(super) names: Vec<String>,
    #[command(flatten)]
    pub(super) durability: DurabilityArgs,
    #[command(flatten)]
    pub(super) keys: KeyArgs,
    #[command(flatten)]
    pub(super) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(super) struct LsArgs {
    /// Only keys after this one
    #[arg(long, value_name = "KEY")]
    pub(super) after: Option<String>,
    /// At most so many; without it all
    #[arg(long)]
    pub(super) limit: Option<u64>,
    #[command(flatten)]
    pub(super) keys: KeyArgs,
    #[command(flatten)]
    pub(super) client: ClientArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum SegmentCommand {
    /// Make a segment's memory available
    #[command(after_help = "Example:\n  plimsoll segment mount seg-1 --size 64GiB --base 0 --endpoint 10.0.0.1:9000")]
    Mount {
        /// Its id, unique for all time: new memory gets a new id
        id: String,
        /// Its size: bytes, or with KiB, MiB, GiB, TiB
        #[arg(long, value_parser = size::parse)]
        size: u64,
        /// Its first address
        #[arg(long, default_value_t = 0)]
        base: u64,
        /// Where clients reach its memory
        #[arg(long)]
        endpoint: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Change where clients reach a segment's memory
    Update {
        /// Its id
        id: String,
        /// Where clients reach its memory from now on
        #[arg(long)]
        endpoint: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Take a segment away; objects that are nowhere else are gone
    Unmount {
        /// Its id
        id: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List the mounted segments
    Ls(ClientArgs),
}

#[derive(Debug, Subcommand)]
pub(super) enum OplogCommand {
    /// Show the durable prefix, the batches and what is wrong with them; changes nothing
    #[command(after_help = "Example:\n  plimsoll oplog inspect --store sqlite:///tmp/plimsoll.db --entries")]
    Inspect(Box<InspectArgs>),
    /// Check every key of the log and explain each fault; changes nothing
    #[command(after_help = super::audit::HELP)]
    Audit(Box<AuditArgs>),
    /// End a legacy per-entry log at its base, so that the log goes on in batch records; there is no way back
    #[command(after_help = super::cutover::HELP)]
    Cutover(Box<CutoverArgs>),
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Check a configuration as `serve` would, and print it; secrets stay hidden
    #[command(after_help = "Example:\n  plimsoll config check --config /etc/plimsoll.toml")]
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// List all settings with their defaults instead
    #[arg(long)]
    pub(super) list: bool,
    #[command(flatten)]
    pub(super) serve: ServeArgs,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}
