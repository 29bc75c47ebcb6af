//! Owns a round of following: read the prefix, judge it, and only then read and apply the batches at or below it.

use std::sync::Arc;

use bytes::Bytes;
use ha_kv::{KvError, KvErrorKind, RangeLimit, WatchKv};
use ha_types::{BatchId, Clock, Entropy, LeaderGuard};
use oplog_core::{BatchStorage, DurablePrefix, FaultKind, LogError, LogKey, Replica, StateMachine};

use crate::observer::Publisher;
use crate::seen::Seen;
use crate::stop::Stop;
use crate::{Fault, Leftovers, LogFormat, StandbyConfig};

/// Everything of a standby but its replica.
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
    /// One round: up to the prefix as it is read now, which is returned; `None` is an empty log. With a guard it stops when
    /// leadership ends. What a stale or torn reading could explain is read a second time before it counts.
    pub(crate) async fn round<S: StateMachine>(
        &mut self,
        replica: &mut Replica<S>,
        guard: Option<&dyn LeaderGuard>,
    ) -> Result<Option<DurablePrefix>, Stop> {
        let mut doubted_at = None;
        loop {
            let round = self.read_and_apply(replica, guard).await;
            let fault = match round {
                Err(Stop::Fault(fault)) if fault.needs_second_read() && doubted_at != Some(replica.position()) => fault,
                ended => {
                    let dispelled = doubted_at.is_some() && ended.is_ok();
                    self.publisher.update(|m| m.unconfirmed += u64::from(dispelled));
                    return ended;
                }
            };
            tracing::warn!(%fault, "a doubtful reading; reading again");
            // A later doubt, after progress, is another one.
            doubted_at = Some(replica.position());
            tokio::time::sleep(self.config.retry_min).await;
        }
    }

    async fn read_and_apply<S: StateMachine>(
        &mut self,
        replica: &mut Replica<S>,
        guard: Option<&dyn LeaderGuard>,
    ) -> Result<Option<DurablePrefix>, Stop> {
        let Some(prefix) = self.boundary(replica).await? else {
            self.publisher.following(replica, None);
            return Ok(None);
        };
        self.seen.accept(prefix);
        self.publisher.place(replica, Some(&prefix));
        self.apply_through(replica, &prefix, guard).await?;
        self.publisher.following(replica, Some(&prefix));
        Ok(Some(prefix))
    }

    /// The prefix, judged.
    async fn boundary<S: StateMachine>(&self, replica: &Replica<S>) -> Result<Option<DurablePrefix>, Stop> {
        let (key, at) = (self.storage.keys().durable_prefix(), replica.position());
        let reading = self.request(&key, self.storage.read_prefix()).await?;
        let beside = match &reading {
            Some(prefix) => {
                self.seen.judge(&key, prefix, &at)?;
                Leftovers::default()
            }
            None => {
                self.seen.judge_absent(&key, &at)?;
                self.leftovers().await?
            }
        };
        let absent =
            |kind, found: &str| Err(Fault::log(kind, &key, "a durable prefix, or no log at all", found).into());
        match LogFormat::decide(reading.as_ref(), beside) {
            LogFormat::Empty | LogFormat::Boundary { .. } | LogFormat::Batches => Ok(reading),
            LogFormat::PerEntry => absent(
                FaultKind::ForeignState,
                "a legacy per-entry log, which this node does not read; cut it over to batch records first",
            ),
            LogFormat::Headless => absent(FaultKind::PrefixMissing, "batch records without a durable prefix"),
        }
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
                LogKey::DurablePrefix => {}
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
