//! Owns the transaction on SQLite: one `BEGIN IMMEDIATE` to `COMMIT`.

use async_trait::async_trait;
use rusqlite::Connection;

use super::lane::End;
use super::{SqliteKv, rows};
use crate::{Compare, Delete, KvError, Txn, TxnKv, TxnOutcome};

fn holds(connection: &Connection, compares: &[Compare]) -> rusqlite::Result<bool> {
    for compare in compares {
        let holds = match compare {
            Compare::ValueEquals { key, value } => rows::equals(connection, key, value)?,
            Compare::KeyAbsent { key } => !rows::exists(connection, key)?,
        };
        if !holds {
            return Ok(false);
        }
    }
    Ok(true)
}

fn apply(connection: &Connection, txn: &Txn) -> rusqlite::Result<()> {
    for delete in &txn.deletes {
        match delete {
            Delete::Key(key) => rows::delete(connection, key)?,
            Delete::Range { start, end } => rows::delete_range(connection, start, end)?,
        };
    }
    for put in &txn.puts {
        rows::put(connection, &put.key, &put.value, None)?;
    }
    Ok(())
}

#[async_trait]
impl TxnKv for SqliteKv {
    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError> {
        txn.check(&self.inner.capabilities)?;
        // Cheap: keys and values are shared, not copied.
        let txn = txn.clone();
        self.write(move |connection| {
            if !holds(connection, &txn.compares)? {
                return Ok(End::Nothing(TxnOutcome::CompareFailed));
            }
            apply(connection, &txn)?;
            Ok(End::Commit(TxnOutcome::Committed))
        })
        .await
    }
}
