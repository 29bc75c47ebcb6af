//! Owns transactions. One is sent once; what became of it after a failure is the caller's question to the store.

use async_trait::async_trait;
use etcd_client::{CompareOp, DeleteOptions, TxnOp};

use super::EtcdKv;
use super::error::Access;
use super::kv::holds_keys;
use super::pool::Reply;
use crate::{Compare, Delete, KvError, Txn, TxnKv, TxnOutcome};

#[async_trait]
impl TxnKv for EtcdKv {
    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError> {
        txn.check(&self.capabilities)?;
        let request = etcd_client::Txn::new()
            .when(txn.compares.iter().map(compare).collect::<Vec<_>>())
            .and_then(operations(txn));
        let outcome = self.pool.call(Access::Write, |member| {
            let mut kv = member.kv(self.pool.options());
            async move { kv.txn(request).await.map(|r| Reply::new(r.header(), r.succeeded())) }
        });
        let named = |e: KvError| match txn.compares.first() {
            Some(compare) => e.with_key(compare.key()),
            None => e,
        };
        Ok(if outcome.await.map_err(named)? { TxnOutcome::Committed } else { TxnOutcome::CompareFailed })
    }
}

fn compare(compare: &Compare) -> etcd_client::Compare {
    match compare {
        Compare::ValueEquals { key, value } => {
            etcd_client::Compare::value(key.clone(), CompareOp::Equal, value.clone())
        }
        Compare::KeyAbsent { key } => etcd_client::Compare::create_revision(key.clone(), CompareOp::Equal, 0),
    }
}

fn operations(txn: &Txn) -> Vec<TxnOp> {
    let deletes = txn.deletes.iter().filter_map(|delete| match delete {
        Delete::Key(key) => Some(TxnOp::delete(key.clone(), None)),
        Delete::Range { start, end } if holds_keys(start, end) => {
            Some(TxnOp::delete(start.clone(), Some(DeleteOptions::new().with_range(end.clone()))))
        }
        Delete::Range { .. } => None,
    });
    let puts = txn.puts.iter().map(|put| TxnOp::put(put.key.clone(), put.value.clone(), None));
    deletes.chain(puts).collect()
}
