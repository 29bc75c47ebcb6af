//! Owns everything before the transaction: what is refused, the base, the replay, and that the old primary is quiet.

use ha_kv::RangeLimit;
use ha_types::Seq;

use super::looks::{Look, shown};
use super::replay::replay;
use super::{CutoverCheck, CutoverError, CutoverOptions, CutoverPlan};
use crate::legacy::latest::parse_latest;
use crate::legacy::{LegacyLog, LegacyReplica, entry_above_base};
use crate::{BatchStorage, DurablePrefix, FaultKind, LogError, ReplayFault, StateMachine, WriterEnv};

impl<S: StateMachine> CutoverPlan<S> {
    /// Looks whether the legacy log can be cut over, and replays it into `machine`, which has applied nothing: what
    /// `plimsoll oplog cutover --check` does. It changes nothing.
    ///
    /// The base is what `latest` says (RFC §6): no higher entry is looked for, but one that is there is named as an alarm. An entry is
    /// missing once a second reading does not show it either. Unless the
    /// operator says that the old primary was stopped, it takes at least [`OLD_PRIMARY_QUIET`](super::OLD_PRIMARY_QUIET) by the clock
    /// of `env`, in which `latest` must not move.
    ///
    /// # Errors
    /// [`CutoverError`]; each refusal names its key.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn prepare(
        storage: &BatchStorage,
        machine: S,
        options: CutoverOptions,
        env: WriterEnv,
    ) -> Result<CutoverCheck<S>, CutoverError> {
        let log = LegacyLog::beside(storage);
        if let Some(prefix) = log.read_prefix().await? {
            check_found(&log, options.last_seq, &prefix)?;
            return Ok(CutoverCheck::Done(prefix));
        }
        if let Some(fault) = other_state(&log).await? {
            // Somebody else may have cut over and written since the prefix was read.
            return match log.read_prefix().await? {
                Some(prefix) => check_found(&log, options.last_seq, &prefix).map(|()| CutoverCheck::Done(prefix)),
                None => Err(fault.into()),
            };
        }
        let look = Look::take(&log, &*env.clock).await?;
        if !options.old_primary_stopped {
            look.check_nobody_elected(&log)?;
        }
        let base = choose_base(&log, &look, options.last_seq).await?;
        let first = DurablePrefix { last_seq: base, ..DurablePrefix::FRESH };
        first.check().map_err(|error| {
            let expected = format!("{}: {}", error.field, error.expected);
            ReplayFault::new(FaultKind::LegacyLatest, &log.keys().legacy_latest(), expected, &error.found)
        })?;
        let mut replica = LegacyReplica::empty(machine);
        if replica.applied() != Seq::ZERO {
            let at = replica.applied();
            let why = format!("the cutover replays the whole log into a new state; this one has applied entry {at}");
            return Err(LogError::Refused(why).into());
        }
        let (accept, page) = (options.accept_holes, options.page_bytes);
        let (entries, holes) = replay(&log, &mut replica, base, accept, page, &*env.clock).await?;
        let above = entry_above_base(&log, base).await?;
        if !options.old_primary_stopped {
            look.check_quiet(&log, &*env.clock).await?;
        }
        let storage = storage.clone();
        let plan = Self { storage, log, options, env, look, first, replica, entries, holes, above };
        Ok(CutoverCheck::Ready(Box::new(plan)))
    }
}

/// Refuses a `--last-seq` for a log that has a prefix.
pub(super) fn check_found(log: &LegacyLog, asked: Option<Seq>, prefix: &DurablePrefix) -> Result<(), CutoverError> {
    let Some(asked) = asked else { return Ok(()) };
    let (key, prefix) = (log.keys().durable_prefix().escape_ascii().to_string(), *prefix);
    Err(match asked < prefix.last_seq {
        true => CutoverError::LastSeqBelowPrefix { key, asked, prefix },
        false => CutoverError::LastSeqAfterCutover { key, asked, prefix },
    })
}

/// State of ours or of Mooncake's beside which a missing prefix means that it was lost.
pub(super) async fn other_state(log: &LegacyLog) -> Result<Option<ReplayFault>, LogError> {
    let keys = log.keys();
    let view = keys.producer_view();
    let view_end = super::super::log::after(&view);
    for ((start, end), found) in [
        (keys.all_batches(), "a batch record"),
        (keys.snapshots(), "a snapshot of ours"),
        ((view, view_end), "Mooncake's producer view"),
    ] {
        if let Some(pair) = log.kv().range(&start, &end, RangeLimit::ONE).await?.pairs.pop() {
            let expected = "nothing of a log in batch records beside a missing durable prefix";
            return Ok(Some(ReplayFault::new(FaultKind::ForeignState, &pair.key, expected, found)));
        }
    }
    Ok(None)
}

async fn choose_base(log: &LegacyLog, look: &Look, asked: Option<Seq>) -> Result<Seq, CutoverError> {
    let key = log.keys().legacy_latest();
    let latest = look.latest.as_ref().map(|value| parse_latest(&key, value)).transpose();
    let Some(asked) = asked else {
        return match latest? {
            Some(latest) => Ok(latest),
            // Absent: zero if there is no entry either, a fault if there is.
            None => Ok(log.latest().await?),
        };
    };
    let latest = latest.ok().flatten();
    if asked != Seq::ZERO && latest != Some(asked) && log.kv().get(&log.keys().legacy_entry(asked)).await?.is_none() {
        let key = log.keys().legacy_entry(asked).escape_ascii().to_string();
        return Err(CutoverError::LastSeqAboveReality { key, asked, latest: shown(&look.latest) });
    }
    // `latest` may lead what is there, so it may be lowered; an entry that it covers is never dropped.
    if let Some(latest) = latest.filter(|latest| asked < *latest)
        && let Some(dropped) = log.first_entry(asked).await?.filter(|entry| *entry <= latest)
    {
        let key = log.keys().legacy_entry(dropped).escape_ascii().to_string();
        return Err(CutoverError::LastSeqBelowLatest { key, asked, latest });
    }
    Ok(asked)
}
