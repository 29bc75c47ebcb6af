//! Owns `oplog inspect`: reads a log where it lies, checks every rule that joins its records, prints. It changes nothing.

mod check;
mod print;

use anyhow::{Context, bail};
use clap::Args;
use ha_kv::KvError;
use ha_types::BatchId;
use oplog_core::{BatchStorage, DurablePrefix, FaultKind, LogError, ReplayFault};

use self::check::Checker;
use self::print::{Original, Printer};
use crate::log_args::LogArgs;
use crate::out;

/// What to look at, and what to show of it.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    log: LogArgs,
    /// Show only batches from this one on
    #[arg(long, value_name = "BATCH", default_value_t = 1)]
    from: u64,
    /// Show only batches up to this one
    #[arg(long, value_name = "BATCH")]
    to: Option<u64>,
    /// Show the entries of each batch too
    #[arg(long)]
    entries: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// How much of the log is in memory at once.
const PAGE_BYTES: usize = 4 << 20;

/// Reads, checks and prints. All batches are checked, whichever are shown.
///
/// # Errors
/// The store failed, or the log has faults; they were printed.
pub(crate) async fn run(args: InspectArgs) -> anyhow::Result<()> {
    let storage = args.log.open_for_reading("oplog inspect").await?;
    let mut printer = Printer::new(args.json, args.entries);
    let faults = inspect(&storage, &args, &mut printer).await?;
    if faults > 0 {
        bail!("the log has {faults} faults; serve would refuse it");
    }
    Ok(())
}

async fn inspect(storage: &BatchStorage, args: &InspectArgs, printer: &mut Printer) -> anyhow::Result<u64> {
    // The prefix first: batches that are added meanwhile lie above it, and are looked at only if they were there before.
    let prefix = match storage.read_prefix().await {
        Ok(prefix) => prefix,
        Err(LogError::Fault(fault)) => {
            printer.fault(&fault);
            None
        }
        Err(error) => return Err(error).context("the durable prefix could not be read"),
    };
    let original = original(storage).await.context("the keys beside the durable prefix could not be read")?;
    printer.prefix(storage, prefix.as_ref(), original.as_ref());
    let mut checker = Checker::new(storage.keys().clone(), prefix);
    let shown = args.from..=args.to.unwrap_or(u64::MAX);
    let through = through(storage, prefix.as_ref()).await?;
    let mut records = storage.records(BatchId::ZERO, through, PAGE_BYTES);
    loop {
        if out::nobody_reads() {
            return Ok(printer.faults());
        }
        match records.next().await {
            Ok(None) => break,
            Ok(Some((id, record))) => {
                for fault in checker.batch(id, &record) {
                    printer.fault(&fault);
                }
                if shown.contains(&id.get()) {
                    printer.batch(&record);
                }
            }
            Err(LogError::Fault(fault)) => {
                if fault.kind == FaultKind::StrayKey {
                    printer.fault(&fault);
                    break;
                }
                if let Some(missing) = checker.unreadable(records.at()) {
                    printer.fault(&missing);
                }
                printer.fault(&fault);
            }
            Err(error) => return Err(error).context("the batch records could not be read"),
        }
    }
    for fault in checker.end() {
        printer.fault(&fault);
    }
    printer.end(checker.summary());
    Ok(printer.faults())
}

/// The prefix as it is written and the producer view, if Mooncake writes the log.
async fn original(storage: &BatchStorage) -> Result<Option<Original>, KvError> {
    let kv = storage.kv();
    let prefix = kv.get(&storage.keys().durable_prefix()).await?;
    let Some(prefix) = prefix.filter(|prefix| prefix.starts_with(b"{")) else { return Ok(None) };
    Ok(Some(Original { prefix, view: kv.get(&storage.keys().producer_view()).await? }))
}

/// Up to the prefix. Batches above it cannot be (one transaction writes both), unless the log grew since the prefix was read:
/// then a second reading of the prefix covers them.
async fn through(storage: &BatchStorage, prefix: Option<&DurablePrefix>) -> Result<BatchId, LogError> {
    let Some(prefix) = prefix else { return Ok(BatchId::new(u64::MAX)) };
    let above = storage.records(prefix.batch_id, BatchId::new(u64::MAX), PAGE_BYTES).next().await;
    if matches!(above, Ok(None)) {
        return Ok(prefix.batch_id);
    }
    match storage.read_prefix().await? {
        Some(now) if now.batch_id > prefix.batch_id => Ok(prefix.batch_id),
        _ => Ok(BatchId::new(u64::MAX)),
    }
}

impl From<&ReplayFault> for print::Shown {
    fn from(fault: &ReplayFault) -> Self {
        Self { kind: fault.kind.name(), text: fault.to_string() }
    }
}
