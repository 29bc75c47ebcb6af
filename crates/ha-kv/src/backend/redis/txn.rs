//! Owns transactions: one script, sent once. What became of it after a failure is the caller's question to the store.

use async_trait::async_trait;

use super::RedisKv;
use super::answer::Answer;
use super::call::{Request, values};
use super::error::Access;
use super::kv::with_key;
use super::script::Operation;
use crate::{Compare, Delete, KvError, Txn, TxnKv, TxnOutcome};

#[async_trait]
impl TxnKv for RedisKv {
    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError> {
        txn.check(&self.inner.capabilities())?;
        let named = |error| match txn.compares.first() {
            Some(compare) => with_key(error, compare.key()),
            None => error,
        };
        Ok(match self.write(txn).await.map_err(named)? {
            Some(_) => TxnOutcome::Committed,
            None => TxnOutcome::CompareFailed,
        })
    }
}

impl RedisKv {
    /// Sends a transaction that was checked. How many keys it removed, or `None` if a compare did not hold.
    pub(super) async fn write(&self, txn: &Txn) -> Result<Option<u64>, KvError> {
        let (compares, puts) = (txn.compares.len().to_string(), txn.puts.len().to_string());
        let request = Request {
            access: Access::Write,
            operation: Operation::Txn,
            lease: None,
            arguments: arguments(txn, &compares, &puts),
        };
        match self.inner.call(request).await? {
            Answer::CompareFailed => Ok(None),
            Answer::Ok(answer) => {
                let removed = values(answer).next().flatten();
                let removed = removed.as_deref().and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
                removed.map(Some).ok_or_else(|| self.senseless(Access::Write))
            }
            _ => Err(self.senseless(Access::Write)),
        }
    }
}

/// As `lua/txn.lua` reads it. A range that holds no key is left out.
fn arguments<'a>(txn: &'a Txn, compares: &'a str, puts: &'a str) -> Vec<&'a [u8]> {
    let mut arguments: Vec<&[u8]> =
        Vec::with_capacity(2 + 3 * (txn.compares.len() + txn.puts.len() + txn.deletes.len()));
    arguments.push(compares.as_bytes());
    for compare in &txn.compares {
        match compare {
            Compare::ValueEquals { key, value } => arguments.extend([&b"="[..], key, value]),
            Compare::KeyAbsent { key } => arguments.extend([&b"!"[..], key, b""]),
        }
    }
    arguments.push(puts.as_bytes());
    for put in &txn.puts {
        arguments.extend([&put.key[..], &put.value]);
    }
    for delete in &txn.deletes {
        match delete {
            Delete::Key(key) => arguments.extend([&b"."[..], key, b""]),
            Delete::Range { start, end } if start < end => arguments.extend([&b"["[..], start, end]),
            Delete::Range { .. } => {}
        }
    }
    arguments
}
