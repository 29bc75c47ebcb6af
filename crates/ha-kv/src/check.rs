//! Owns what a backend refuses before it sends anything: empty keys, limits, a key written twice.

use bytes::Bytes;

use crate::{Capabilities, Delete, Effect, KvError, KvErrorKind, Txn};

fn refused(kind: KvErrorKind, message: String) -> KvError {
    KvError::new(kind, Effect::NotApplied, message)
}

fn twice(key: &Bytes) -> KvError {
    refused(KvErrorKind::InvalidArgument, "the transaction writes a key twice; write it once".into()).with_key(key)
}

impl Capabilities {
    /// Refuses a key that no store takes. Every backend asks this first, for reads, deletes and the start of a range.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotApplied`, if it is empty.
    pub fn check_key(&self, key: &[u8]) -> Result<(), KvError> {
        if key.is_empty() {
            return Err(refused(KvErrorKind::InvalidArgument, "the key is empty; a key has at least one byte".into()));
        }
        Ok(())
    }

    /// Refuses a pair that no store with these capabilities takes. Every backend asks this first for a put.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty key, `TooLarge` above a limit; always `NotApplied`.
    pub fn check_put(&self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.check_key(key)?;
        let most = self.max_value_bytes.min(self.max_txn_bytes.saturating_sub(key.len()));
        if value.len() > most {
            let message = format!("the value has {} bytes, the limit is {most}; store less under one key", value.len());
            return Err(refused(KvErrorKind::TooLarge, message).with_key(key));
        }
        Ok(())
    }
}

/// Above so many puts sorting beats comparing each with each.
const PAIRWISE_PUTS: usize = 8;

impl Txn {
    /// Refuses what no store with these capabilities takes. Every backend asks this first and sends nothing that fails it.
    ///
    /// # Errors
    /// `TooLarge` above a limit, `InvalidArgument` for an empty key or a key written twice (two puts, or a put and a delete);
    /// always `NotApplied`.
    pub fn check(&self, capabilities: &Capabilities) -> Result<(), KvError> {
        let (ops, bytes) = (self.ops(), self.bytes());
        if ops > capabilities.max_txn_ops {
            return Err(refused(
                KvErrorKind::TooLarge,
                format!("the transaction has {ops} operations, the limit is {}; split it", capabilities.max_txn_ops),
            ));
        }
        if bytes > capabilities.max_txn_bytes {
            return Err(refused(
                KvErrorKind::TooLarge,
                format!("the transaction has {bytes} bytes, the limit is {}; split it", capabilities.max_txn_bytes),
            ));
        }
        for put in &self.puts {
            capabilities.check_put(&put.key, &put.value)?;
        }
        for compare in &self.compares {
            capabilities.check_key(compare.key())?;
        }
        for delete in &self.deletes {
            match delete {
                Delete::Key(key) => capabilities.check_key(key)?,
                Delete::Range { start, .. } => capabilities.check_key(start)?,
            }
        }
        self.check_written_once()
    }

    fn check_written_once(&self) -> Result<(), KvError> {
        if self.puts.len() <= PAIRWISE_PUTS {
            for (at, put) in self.puts.iter().enumerate() {
                if self.puts.iter().skip(at + 1).any(|other| other.key == put.key) {
                    return Err(twice(&put.key));
                }
            }
        } else {
            let mut keys: Vec<&Bytes> = self.puts.iter().map(|p| &p.key).collect();
            keys.sort_unstable();
            if let Some(pair) = keys.windows(2).find(|pair| pair.first() == pair.last())
                && let Some(key) = pair.first()
            {
                return Err(twice(key));
            }
        }
        for put in &self.puts {
            let deleted = self.deletes.iter().any(|delete| match delete {
                Delete::Key(key) => *key == put.key,
                Delete::Range { start, end } => *start <= put.key && put.key < *end,
            });
            if deleted {
                return Err(twice(&put.key));
            }
        }
        Ok(())
    }
}
