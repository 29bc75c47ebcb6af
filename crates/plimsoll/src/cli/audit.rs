//! Owns `oplog audit`: what is asked, how far it is, and how it ends. What is checked is `oplog_core::audit`'s.

mod json;
mod text;

use clap::Args;
use oplog_core::LogKeys;
use oplog_core::audit::{AuditOptions, AuditReport, audit};

use super::bar::bar;
use super::exit::Exit;
use crate::log_args::LogArgs;

/// Said below `--help`.
pub(super) const HELP: &str = "\
Every key below the cluster's part of the root is read once and judged: legacy entries, batch records of
ours and of Mooncake's, the durable prefix, snapshots of the original, the producer view, and keys that
belong to nothing. It changes nothing, may run beside nodes that write, and goes on after every fault.
Each fault is printed with its key, what had to be there, what is, and what to do about it.

Examples:
  plimsoll oplog audit --store etcd://127.0.0.1:2379 --cluster prod
  plimsoll oplog audit --store sqlite:///tmp/plimsoll.db --json | jq .faults.by_kind

Exit codes:
  0 sound   1 the log has faults   2 wrong usage, or the log could not be read: nothing was judged
The JSON is described in docs/formats/audit-report.md.";

/// What to audit.
#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    log: LogArgs,
    /// Holes in the legacy log were accepted at cutover: note them
    #[arg(long)]
    accept_holes: bool,
    /// List at most so many faults; all are counted
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_faults: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: AuditArgs) -> Exit {
    match read(&args).await {
        Ok((keys, report)) => {
            if args.json {
                outln!("{}", json::report(&keys, &report));
            } else {
                text::print(&keys, &report);
            }
            if report.is_sound() { Exit::Done } else { Exit::Refused }
        }
        Err(error) => {
            if args.json {
                outln!("{}", json::unread(&error));
            }
            errln!("plimsoll: {error:#}");
            Exit::Usage
        }
    }
}

async fn read(args: &AuditArgs) -> anyhow::Result<(LogKeys, AuditReport)> {
    let storage = args.log.open_for_reading("oplog audit").await?;
    let options =
        AuditOptions { max_faults: args.max_faults, accept_holes: args.accept_holes, ..AuditOptions::default() };
    let bar = bar("auditing {wide_bar} {human_pos}/{human_len} keys {per_sec} {eta} {msg}", args.json);
    let report = audit(&storage, &options, &mut |progress| {
        bar.set_length(progress.expected_keys);
        bar.set_position(progress.keys);
        bar.set_message(format!("{} faults", progress.faults));
    })
    .await;
    bar.finish_and_clear();
    let report =
        report.map_err(|error| anyhow::anyhow!("the log could not be read, and nothing was judged: {error}"))?;
    if report.is_absent() {
        let below = storage.keys().whole_log().0;
        let below = below.escape_ascii();
        anyhow::bail!("there is no log below {below}; name the cluster and the root that its nodes use");
    }
    Ok((storage.keys().clone(), report))
}
