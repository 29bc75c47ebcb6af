//! Owns the judge's reading of the whole log, straight from the store, with every rule that a reader can check by itself.

use ha_kv::{Kv, RangeLimit};

use super::payload::Change;
use super::prefix::Prefix;
use super::record::Record;

/// The log up to the durable prefix.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) batches: u64,
    /// Epochs that wrote batches, in order.
    pub(crate) epochs: Vec<u64>,
    pub(crate) entries: Vec<LogEntry>,
}

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct LogEntry {
    pub(crate) seq: u64,
    pub(crate) tenant: String,
    pub(crate) key: Vec<u8>,
    pub(crate) change: Change,
}

/// Why the log is not one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// The store did not answer.
    #[error("the store does not answer the judge: {0}")]
    Store(String),
    /// What lies there breaks a rule of the format.
    #[error("the log is broken at {key}: {reason}")]
    Broken { key: String, reason: String },
}

const PAGE: RangeLimit = RangeLimit { pairs: 256, bytes: 1 << 20 };

/// How often the log of `cluster` below `root` was claimed.
pub(crate) async fn claims(kv: &dyn Kv, root: &str, cluster: &str) -> Result<u64, LogError> {
    let prefix_key = format!("{root}/{cluster}/durable_prefix");
    Ok(read_prefix(kv, &prefix_key).await?.epoch)
}

async fn read_prefix(kv: &dyn Kv, key: &str) -> Result<Prefix, LogError> {
    let value = kv.get(key.as_bytes()).await.map_err(|e| LogError::Store(e.to_string()))?;
    let value = value.ok_or_else(|| broken(key, "it is absent".into()))?;
    Prefix::parse(&value).map_err(|reason| broken(key, reason))
}

fn broken(key: &str, reason: String) -> LogError {
    LogError::Broken { key: key.to_owned(), reason }
}

/// Reads the log of `cluster` below `root`.
pub(crate) async fn read(kv: &dyn Kv, root: &str, cluster: &str) -> Result<Log, LogError> {
    let prefix_key = format!("{root}/{cluster}/durable_prefix");
    let prefix = read_prefix(kv, &prefix_key).await?;

    let mut reading = Reading { log: Log::default(), last_crc: 0 };
    let folder = format!("{root}/{cluster}/batches/");
    let mut from = folder.clone().into_bytes();
    // '0' follows '/' in byte order, so this is where the folder ends.
    let end = format!("{root}/{cluster}/batches0").into_bytes();
    loop {
        let page = kv.range(&from, &end, PAGE.within(&kv.capabilities())).await;
        let page = page.map_err(|e| LogError::Store(e.to_string()))?;
        for pair in &page.pairs {
            let key = String::from_utf8_lossy(&pair.key).into_owned();
            let expected = format!("{folder}{:020}", reading.log.batches + 1);
            if reading.log.batches == prefix.batch_id {
                return Err(broken(&key, format!("it lies above the prefix, which ends at {}", prefix.batch_id)));
            }
            if key != expected {
                return Err(broken(&key, format!("the next batch is {expected}")));
            }
            reading.batch(&pair.value).map_err(|reason| broken(&key, reason))?;
        }
        match page.pairs.last().filter(|_| page.more) {
            Some(last) => from = [&last.key[..], &[0]].concat(),
            None => break,
        }
    }
    let (batches, last_seq) = (reading.log.batches, reading.log.entries.len() as u64);
    if (batches, last_seq) != (prefix.batch_id, prefix.last_seq) {
        let reason = format!(
            "it says batch {} and sequence {}, the batches end at {batches} and {last_seq}",
            prefix.batch_id, prefix.last_seq
        );
        return Err(broken(&prefix_key, reason));
    }
    if reading.log.epochs.last().is_some_and(|last| *last > prefix.epoch) {
        return Err(broken(&prefix_key, "a batch has a higher epoch".into()));
    }
    Ok(reading.log)
}

struct Reading {
    log: Log,
    last_crc: u32,
}

impl Reading {
    fn batch(&mut self, value: &[u8]) -> Result<(), String> {
        let mut room = Vec::new();
        let record = Record::parse(value, &mut room)?;
        let next = (self.log.batches + 1, self.log.entries.len() as u64 + 1, self.last_crc);
        if (record.batch_id, record.first_seq, record.prev_crc) != next {
            return Err(format!(
                "batch, first sequence and previous checksum are {:?}, expected {next:?}",
                (record.batch_id, record.first_seq, record.prev_crc)
            ));
        }
        if record.entries.is_empty() {
            return Err("it has no entry".into());
        }
        match self.log.epochs.last() {
            Some(last) if *last > record.epoch => return Err(format!("epoch {} follows epoch {last}", record.epoch)),
            Some(last) if *last == record.epoch => {}
            _ => self.log.epochs.push(record.epoch),
        }
        for entry in &record.entries {
            let seq = self.log.entries.len() as u64 + 1;
            let change = Change::parse(entry.op, entry.payload).map_err(|e| format!("sequence {seq}: {e}"))?;
            self.log.entries.push(LogEntry { seq, tenant: entry.tenant.into(), key: entry.key.into(), change });
        }
        self.log.batches += 1;
        self.last_crc = record.crc;
        Ok(())
    }
}
