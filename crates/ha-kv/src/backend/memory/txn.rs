//! Owns the transaction on memory.

use async_trait::async_trait;

use super::MemoryKv;
use crate::{Compare, Delete, KvError, Txn, TxnKv, TxnOutcome};

#[async_trait]
impl TxnKv for MemoryKv {
    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError> {
        txn.check(&self.capabilities)?;
        let mut state = self.state();
        let holds = txn.compares.iter().all(|compare| match compare {
            Compare::ValueEquals { key, value } => state.map.get(key).is_some_and(|stored| stored.value == *value),
            Compare::KeyAbsent { key } => !state.map.contains_key(key),
        });
        if !holds {
            return Ok(TxnOutcome::CompareFailed);
        }
        for delete in &txn.deletes {
            match delete {
                Delete::Key(key) => {
                    state.delete(key);
                }
                Delete::Range { start, end } => {
                    state.delete_range(start, end);
                }
            }
        }
        for put in &txn.puts {
            state.put(put.key.clone(), put.value.clone(), None);
        }
        Ok(TxnOutcome::Committed)
    }
}
