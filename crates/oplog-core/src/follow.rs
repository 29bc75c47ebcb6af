//! Owns catching up to a prefix read before. It decides nothing about health.

use ha_kv::RangeLimit;
use ha_types::BatchId;

use crate::storage::BatchPage;
use crate::{BatchStorage, DurablePrefix, FaultKind, FollowError, Position, ReplayFault, Replica, StateMachine};

/// Applies the batches after the replica's position up to `through` and says how many entries that were. Afterwards the
/// replica's boundary is exactly `through`'s.
///
/// Pages hold at most `page_bytes`, or one record; the next page is read while one is applied, so at most two are held. Only
/// batches at or below `through` are applied, whatever the store holds by then.
///
/// # Errors
/// [`FollowError`]. A batch at or below `through` that is absent is a fault that names its key. For the kinds of
/// [`FaultKind::needs_second_read`] the caller reads the prefix again before it judges.
///
/// # Cancel safety
/// Whole entries only; the position is always right, and the next call goes on from it.
pub async fn catch_up<S: StateMachine>(
    storage: &BatchStorage,
    replica: &mut Replica<S>,
    through: &DurablePrefix,
    page_bytes: usize,
) -> Result<u64, FollowError> {
    check_start(storage, &replica.position(), through)?;
    let mut entries = 0;
    let mut page = read(storage, replica.position().batch_id, through, page_bytes).await?;
    loop {
        let last = page.records.last().map_or(replica.position().batch_id, |(id, _)| *id);
        if !page.more || page.records.is_empty() {
            entries += apply(storage, replica, through, &page).await?;
            return check_end(storage, replica, through).map(|()| entries);
        }
        let (applied, next) =
            tokio::join!(apply(storage, replica, through, &page), read(storage, last, through, page_bytes));
        // What was wrong with this page comes before what happened to the next.
        entries += applied?;
        page = next?;
    }
}

async fn read(
    storage: &BatchStorage,
    after: BatchId,
    through: &DurablePrefix,
    page_bytes: usize,
) -> Result<BatchPage, FollowError> {
    storage.read_batches(after, through.batch_id, RangeLimit { pairs: usize::MAX, bytes: page_bytes }).await
}

/// Yields after each record: the read of the next page goes on, and so do the other tasks of this thread.
async fn apply<S: StateMachine>(
    storage: &BatchStorage,
    replica: &mut Replica<S>,
    through: &DurablePrefix,
    page: &BatchPage,
) -> Result<u64, FollowError> {
    let mut entries = 0;
    for (id, record) in &page.records {
        let expected = replica.position().batch_id.next();
        if let Some(missing) = expected.filter(|expected| expected < id) {
            return Err(ReplayFault::batch_missing(&storage.keys().batch(missing), missing, through).into());
        }
        let applied = replica.apply_record(*id, record, through);
        entries += applied.map_err(|fault| full_key(storage, *id, fault))?.entries;
        tokio::task::yield_now().await;
    }
    Ok(entries)
}

fn full_key(storage: &BatchStorage, id: BatchId, mut fault: ReplayFault) -> ReplayFault {
    fault.key = storage.keys().batch(id).escape_ascii().to_string();
    fault
}

/// Whether a replica at `position` can catch up to `through` at all.
fn check_start(storage: &BatchStorage, position: &Position, through: &DurablePrefix) -> Result<(), ReplayFault> {
    let key = storage.keys().durable_prefix();
    let above =
        position.batch_id > through.batch_id || position.last_seq > through.last_seq || position.epoch > through.epoch;
    if above {
        let expected = format!(
            "a durable prefix at or above what was applied: epoch {} batch {} sequence {}",
            position.epoch, position.batch_id, position.last_seq
        );
        return Err(ReplayFault::new(FaultKind::AppliedAbovePrefix, &key, expected, through));
    }
    if position.batch_id == through.batch_id && position.last_seq != through.last_seq {
        let (kind, what) = match position.batch_id {
            BatchId::ZERO => (FaultKind::BaseNotHeld, "a log whose base is what was applied"),
            _ => (FaultKind::SequenceGap, "the sequence at which this batch ended"),
        };
        let expected = format!("{what}, {}", position.last_seq);
        return Err(ReplayFault::new(kind, &key, expected, through));
    }
    Ok(())
}

fn check_end<S: StateMachine>(
    storage: &BatchStorage,
    replica: &Replica<S>,
    through: &DurablePrefix,
) -> Result<(), FollowError> {
    let position = replica.position();
    if position.batch_id == through.batch_id && position.last_seq == through.last_seq {
        return Ok(());
    }
    let missing = position.batch_id.next().unwrap_or(through.batch_id);
    Err(ReplayFault::batch_missing(&storage.keys().batch(missing), missing, through).into())
}
