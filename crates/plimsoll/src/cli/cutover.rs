//! Owns `oplog cutover`: what is asked, in which order, and how it ends. The refusals and the transaction are `oplog_core::legacy`'s.

mod facts;
mod progress;
mod report;

use std::sync::Arc;

use clap::Args;
use ha_types::{Seq, SystemClock, SystemEntropy};
use master::MasterState;
use oplog_core::legacy::{CutoverCheck, CutoverError, CutoverOptions, CutoverPlan, LegacyLog, base_of};
use oplog_core::{BatchStorage, DurablePrefix, FaultKind, FirstPrefix, LogError, WriterEnv};

use self::facts::Facts;
use self::progress::{Progress, Watched};
use self::report::{Outcome, Report};
use super::exit::Exit;
use crate::log_args::{LogArgs, WriteArgs};

/// Said below `--help`.
pub(super) const HELP: &str = "\
The legacy per-entry log ends at its base: what `latest` says, or --last-seq. The cutover replays
all entries up to there, then creates the first durable prefix at the base, once and for all. From
then on the log goes on in batch records, and no entry above the base counts. It deletes nothing.

In this order (docs/runbooks/upgrade-from-legacy.md has it with what is printed):
  1. Run every reader with --legacy:   plimsoll serve --legacy ...
  2. Look:                             plimsoll oplog cutover --check --store URL --cluster ID
  3. Stop the old primary, and see that its election key is gone.
  4. Cut over:                         plimsoll oplog cutover --store URL --cluster ID
  5. A node takes the lead by itself, in batch records. There is no way back from step 4.

It refuses while the old primary's election key is there or `latest` moves within 5 seconds,
unless --old-primary-stopped; entries that are missing, unless --accept-holes; a log whose start is
gone; a store that promises or takes less than `serve` asks for. Of two at once one wins, and the
other prints the winner's base. Run again, it prints what is there.

Examples:
  plimsoll oplog cutover --check --store etcd://127.0.0.1:2379 --cluster prod
  plimsoll oplog cutover --store etcd://127.0.0.1:2379 --cluster prod
  plimsoll oplog cutover --last-seq 41870 --store ... --cluster prod    # latest leads what is there
  plimsoll oplog cutover --oplog-batch-max-bytes 524288 --store ...     # as the nodes have it

Exit codes:
  0 cut over, by this command or before it; with --check: it would be
  1 refused, nothing has changed   2 wrong usage   4 outcome unknown: run it again, which is safe";

/// What to cut over, and what the operator says.
#[derive(Debug, Args)]
pub(super) struct CutoverArgs {
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    write: WriteArgs,
    /// Only look, and print what would happen; changes nothing
    #[arg(long)]
    check: bool,
    /// The last entry that counts, in place of what `latest` says; it must be there
    #[arg(long, value_name = "N")]
    last_seq: Option<u64>,
    /// Accept that what missing entries said is lost; nodes then need oplog.legacy_accept_lost_entries
    #[arg(long)]
    accept_holes: bool,
    /// The old primary was stopped, whatever its election key or `latest` look like
    #[arg(long)]
    old_primary_stopped: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What the work needs.
struct Work {
    storage: BatchStorage,
    log: LegacyLog,
    options: CutoverOptions,
    env: WriterEnv,
    progress: Progress,
}

type Plan = CutoverPlan<Watched<MasterState>>;

pub(super) async fn run(args: CutoverArgs) -> Exit {
    let work = match open(&args).await {
        Ok(work) => work,
        Err(error) => return report::failed(&error, args.json),
    };
    let mut facts = match Facts::read(&work.log, work.options.last_seq).await {
        Ok(facts) => facts,
        Err(error) => return report::failed(&error.into(), args.json),
    };
    let outcome = if args.check { check(&work, &mut facts).await } else { cut_over(&work, &mut facts).await };
    work.progress.end();
    Report { facts: &facts, outcome: &outcome, check: args.check }.print(args.json)
}

async fn open(args: &CutoverArgs) -> anyhow::Result<Work> {
    // A look asks the store for all that the cutover asks for, or it would promise what is refused then.
    let storage = args.log.open_for_writing("oplog cutover", &args.write).await?;
    let options = CutoverOptions {
        old_primary_stopped: args.old_primary_stopped,
        accept_holes: args.accept_holes,
        last_seq: args.last_seq.map(Seq::new),
        ..CutoverOptions::default()
    };
    let log = LegacyLog::beside(&storage);
    let env = WriterEnv { clock: Arc::new(SystemClock::new()), entropy: Arc::new(SystemEntropy) };
    Ok(Work { storage, log, options, env, progress: Progress::new(args.json, !args.old_primary_stopped) })
}

impl Work {
    /// Looks, and replays the log. What one damaged reading could explain is read a second time before it counts: the state was fed from
    /// that reading, so all is replayed once more, into a new one.
    async fn prepare(&self, options: CutoverOptions) -> Result<CutoverCheck<Watched<MasterState>>, CutoverError> {
        match self.look(options).await {
            Err(error) if is_doubtful(&error) => {
                tracing::warn!(%error, "a doubtful reading; reading the log again");
                self.progress.replaying_again();
                self.look(options).await
            }
            looked => looked,
        }
    }

    async fn look(&self, options: CutoverOptions) -> Result<CutoverCheck<Watched<MasterState>>, CutoverError> {
        let machine = Watched::new(MasterState::new(), self.progress.clone());
        CutoverPlan::prepare(&self.storage, machine, options, self.env.clone()).await
    }

    /// A log that was cut over before this command looked.
    async fn found(&self, prefix: DurablePrefix) -> Result<Outcome, CutoverError> {
        let base = base_of(&self.storage, &prefix).await?;
        Ok(Outcome::Found { prefix, base, planned: None })
    }
}

async fn cut_over(work: &Work, facts: &mut Facts) -> Result<Outcome, CutoverError> {
    work.progress.replaying(facts.expected_base());
    match work.prepare(work.options).await? {
        CutoverCheck::Done(prefix) => work.found(prefix).await,
        CutoverCheck::Ready(plan) => {
            facts.replayed(&plan);
            facts.quiet = (!work.options.old_primary_stopped).then_some(true);
            let planned = plan.base();
            let done = plan.execute().await?;
            facts.above = done.above.as_ref().map(ToString::to_string);
            Ok(match done.prefix {
                FirstPrefix::Created(prefix) => Outcome::Created { prefix },
                FirstPrefix::Found(prefix) => Outcome::Found { prefix, base: done.base, planned: Some(planned) },
            })
        }
    }
}

/// What the cutover would say now. What refuses it is the verdict; the rest is looked at all the same, as if it had not.
async fn check(work: &Work, facts: &mut Facts) -> Result<Outcome, CutoverError> {
    work.progress.replaying(facts.expected_base());
    let refused = match work.prepare(work.options).await {
        Ok(CutoverCheck::Done(prefix)) => return work.found(prefix).await,
        Ok(CutoverCheck::Ready(plan)) => {
            facts.replayed(&plan);
            facts.quiet = (!work.options.old_primary_stopped).then_some(true);
            return Ok(Outcome::Ready { base: plan.base() });
        }
        Err(error) => error,
    };
    if facts.learn(&refused) {
        let options = CutoverOptions { old_primary_stopped: true, ..work.options };
        work.progress.replaying(facts.expected_base());
        match work.prepare(options).await {
            Ok(CutoverCheck::Ready(plan)) => facts.replayed(&plan),
            Ok(CutoverCheck::Done(prefix)) => return work.found(prefix).await,
            Err(error) => {
                facts.learn(&error);
            }
        }
        if facts.quiet.is_none() {
            facts.watch(&work.log).await?;
        }
    }
    Err(refused)
}

/// Whether one damaged reading could explain it. A hole was read twice when it is told, and an entry that cannot be applied is as it was
/// written: its checksum says so.
fn is_doubtful(error: &CutoverError) -> bool {
    let CutoverError::Log(LogError::Fault(fault)) = error else { return false };
    matches!(
        fault.kind,
        FaultKind::LegacyUndecodable
            | FaultKind::LegacyKeySequence
            | FaultKind::LegacyLatest
            | FaultKind::PrefixUndecodable
    )
}

/// The exit of a refusal.
fn exit_of(error: &CutoverError) -> Exit {
    match error {
        CutoverError::Unknown(_) => Exit::Unknown,
        _ => Exit::Refused,
    }
}

impl Facts {
    fn replayed(&mut self, plan: &Plan) {
        self.base = Some(plan.base());
        self.entries = Some(plan.entries());
        self.holes = Some(plan.holes().to_vec());
        self.above = plan.above().map(ToString::to_string);
    }
}

#[cfg(test)]
mod tests;
