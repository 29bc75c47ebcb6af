//! Owns reading for a round: the prefix, judged, and the batches at or below it, applied.

use std::sync::Arc;

use bytes::Bytes;
use ha_kv::{KvError, KvErrorKind, RangeLimit, WatchKv};
use ha_types::{BatchId, Clock, Entropy, LeaderGuard};
use oplog_core::{BatchStorage, DurablePrefix, FaultKind, LogError, LogKey, Replica, StateMachine};

use crate::held::Held;
use crate::observer::Publisher;
use crate::round::Ended;
use crate::seen::Seen;
use crate::stop::Stop;
use crate::{Fault, Leftovers, LogFormat, StandbyConfig};

/// What a round begins with: the prefix as it was read, and what it says about the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Boundary {
    pub(crate) format: LogFormat,
    pub(crate) prefix: Option<DurablePrefix>,
}

/// Everything of a standby but what it holds.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) storage: BatchStorage,
    pub(crate) config: StandbyConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) watch: Option<Arc<dyn WatchKv>>,
    pub(crate) seen: Seen,
    pub(crate) publisher: Publisher,
}

impl Follower {
    /// The prefix and the format that it and what lies beside it make, judged against what was seen before.
    pub(crate) async fn boundary<S: StateMachine>(&self, held: &Held<S>) -> Result<Boundary, Stop> {
        let key = self.storage.keys().durable_prefix();
        let prefix = self.request(&key, self.storage.read_prefix()).await?;
        let beside = match &prefix {
            Some(prefix) => {
                self.seen.judge_follows(&key, prefix)?;
                Leftovers::default()
            }
            None => {
                self.seen.judge_absent(&key, &held.among_batches())?;
                self.leftovers().await?
            }
        };
        Ok(Boundary { format: LogFormat::decide(prefix.as_ref(), beside), prefix })
    }

    /// The rest of a round over batch records: applies what the prefix covers.
    pub(crate) async fn batches<S: StateMachine>(
        &mut self,
        replica: &mut Replica<S>,
        boundary: &Boundary,
        guard: Option<&dyn LeaderGuard>,
    ) -> Result<Ended, Stop> {
        let key = self.storage.keys().durable_prefix();
        let absent =
            |kind, found: &str| Err(Fault::log(kind, &key, "a durable prefix, or no log at all", found).into());
        let prefix = match (boundary.format, boundary.prefix) {
            (LogFormat::PerEntry, _) => {
                return absent(
                    FaultKind::ForeignState,
                    "a legacy per-entry log, which this node does not read; switch that on (oplog.legacy), or cut it over first",
                );
            }
            (LogFormat::Headless, _) => {
                return absent(FaultKind::PrefixMissing, "batch records without a durable prefix");
            }
            (LogFormat::Empty | LogFormat::Boundary { .. } | LogFormat::Batches | LogFormat::Mooncake, None) => {
                self.publisher.following(replica, None);
                return Ok(Ended::Empty);
            }
            (_, Some(prefix)) => prefix,
        };
        Seen::judge_covers(&key, &prefix, &replica.position())?;
        self.seen.accept(prefix);
        self.publisher.place(replica, Some(&prefix));
        self.apply_through(replica, &prefix, guard).await?;
        self.publisher.following(replica, Some(&prefix));
        Ok(Ended::At(prefix))
    }

    /// What lies beside an absent prefix.
    async fn leftovers(&self) -> Result<Leftovers, Stop> {
        let keys = self.storage.keys();
        let (start, end) = keys.whole_log();
        let kv = self.storage.kv();
        let mut beside = Leftovers::default();
        let first = async |start: &[u8]| {
            let read = async { Ok(kv.range(start, &end, RangeLimit::ONE).await?) };
            Ok::<_, Stop>(self.request(start, read).await?.pairs.pop().map(|pair| pair.key))
        };
        // Entries sort before `batches/`, and `batches/` before `latest` and `snapshot/`.
        if let Some(key) = first(&start).await? {
            match keys.classify(&key) {
                LogKey::Batch(_) => beside.batches = true,
                // A view without a prefix is no log; creating one beside it is refused.
                LogKey::DurablePrefix | LogKey::ProducerView => {}
                _ => beside.legacy = true,
            }
            let (batches, _) = keys.all_batches();
            if key < batches
                && let Some(key) = first(&batches).await?
            {
                beside.batches = matches!(keys.classify(&key), LogKey::Batch(_));
            }
        }
        Ok(beside)
    }

    /// Applies what lies between the replica and `prefix`. While one page is applied the next is read.
    async fn apply_through<S: StateMachine>(
        &self,
        replica: &mut Replica<S>,
        prefix: &DurablePrefix,
        guard: Option<&dyn LeaderGuard>,
    ) -> Result<(), Stop> {
        let mut page = self.page(replica.position().batch_id, prefix).await?;
        while let Some(&(last, _)) = page.last() {
            if guard.is_some_and(|g| !g.holds()) {
                return Err(Stop::NotLeader);
            }
            // The request is on its way before the page is applied: the first branch is polled first.
            let (next, applied) = tokio::join!(self.page(last, prefix), async { self.apply(replica, &page, prefix) });
            // What is wrong with this page comes before what happened to the next.
            applied?;
            page = next?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// The batches after `after` without a hole, at least one while `after` is before the prefix.
    async fn page(&self, after: BatchId, prefix: &DurablePrefix) -> Result<Vec<(BatchId, Bytes)>, Stop> {
        if after >= prefix.batch_id {
            return Ok(Vec::new());
        }
        let wanted = after.next().unwrap_or(after);
        let key = self.storage.keys().batch(wanted);
        let limit = RangeLimit { pairs: usize::MAX, bytes: self.config.page_bytes };
        let mut records = self.request(&key, self.storage.read_batches(after, prefix.batch_id, limit)).await?.records;
        let contiguous = records.iter().zip(wanted.get()..).take_while(|((id, _), wanted)| id.get() == *wanted).count();
        if contiguous == 0 {
            let found = records.first().map_or_else(|| "no such key".to_owned(), |(id, _)| format!("batch {id} next"));
            let expected = format!("batch {wanted}, covered by the durable prefix ({prefix})");
            return Err(Fault::log(FaultKind::BatchMissing, &key, expected, found).into());
        }
        // Behind a hole nothing counts; the next page begins with it.
        records.truncate(contiguous);
        Ok(records)
    }

    fn apply<S: StateMachine>(
        &self,
        replica: &mut Replica<S>,
        page: &[(BatchId, Bytes)],
        prefix: &DurablePrefix,
    ) -> Result<(), Fault> {
        let (mut batches, mut bytes, before) = (0, 0, replica.applied());
        let mut result = Ok(());
        for (id, record) in page {
            if let Err(mut fault) = replica.apply_record(*id, record, prefix) {
                fault.key = self.storage.keys().batch(*id).escape_ascii().to_string();
                result = Err(fault.into());
                break;
            }
            batches += 1;
            bytes += record.len() as u64;
        }
        self.publisher.update(|m| {
            m.batches += batches;
            m.entries += replica.applied().distance_from(before);
            m.bytes += bytes;
        });
        self.publisher.place(replica, Some(prefix));
        result
    }

    /// One request about `key`, counted and bounded. Dropping a read has no effect.
    async fn request<T>(&self, key: &[u8], read: impl Future<Output = Result<T, LogError>>) -> Result<T, Stop> {
        self.publisher.update(|m| m.reads += 1);
        let limit = self.config.request_timeout;
        let answer = tokio::time::timeout(limit, read).await.unwrap_or_else(|_| {
            let message = format!("the store gave no answer within {limit:?}");
            Err(LogError::Store(KvError::read(KvErrorKind::Timeout, message).with_key(key)))
        });
        answer.map_err(|error| Stop::from_log(key, error))
    }
}
