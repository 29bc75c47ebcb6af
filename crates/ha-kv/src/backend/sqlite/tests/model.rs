//! Compares SQLite with the model in memory over random calls.

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::Home;
use crate::{Compare, Delete, KvError, KvPair, MemoryKv, RangeLimit, Txn, TxnKv};

#[derive(Clone, Debug)]
enum Call {
    Get(Bytes),
    Put(Bytes, Bytes),
    Delete(Bytes),
    Range(Bytes, Bytes, RangeLimit),
    DeleteRange(Bytes, Bytes),
    Txn(Txn),
}

/// Few keys that lie close together, so that calls meet.
fn key() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(prop::sample::select(vec![0, b'a', 0xff]), 0..3).prop_map(Bytes::from)
}

fn value() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(prop::sample::select(vec![0, 1]), 0..3).prop_map(Bytes::from)
}

fn txn() -> impl Strategy<Value = Txn> {
    let compare = prop_oneof![
        (key(), value()).prop_map(|(key, value)| Compare::ValueEquals { key, value }),
        key().prop_map(|key| Compare::KeyAbsent { key }),
    ];
    let delete =
        prop_oneof![key().prop_map(Delete::Key), (key(), key()).prop_map(|(start, end)| Delete::Range { start, end }),];
    let put = (key(), value()).prop_map(|(key, value)| KvPair { key, value });
    (prop::collection::vec(compare, 0..2), prop::collection::vec(put, 0..3), prop::collection::vec(delete, 0..2))
        .prop_map(|(compares, puts, deletes)| Txn { compares, puts, deletes })
}

fn call() -> impl Strategy<Value = Call> {
    let limit =
        (1_usize..3, prop_oneof![Just(usize::MAX), 0_usize..9]).prop_map(|(pairs, bytes)| RangeLimit { pairs, bytes });
    prop_oneof![
        1 => key().prop_map(Call::Get),
        3 => (key(), value()).prop_map(|(k, v)| Call::Put(k, v)),
        1 => key().prop_map(Call::Delete),
        3 => (key(), key(), limit).prop_map(|(s, e, l)| Call::Range(s, e, l)),
        1 => (key(), key()).prop_map(|(s, e)| Call::DeleteRange(s, e)),
        5 => txn().prop_map(Call::Txn),
    ]
}

/// The answer, as something to compare; of an error the kind.
async fn answer(kv: &dyn TxnKv, call: &Call) -> String {
    fn show<T: std::fmt::Debug>(answer: Result<T, KvError>) -> String {
        format!("{:?}", answer.map_err(|e| (e.kind, e.effect)))
    }
    match call {
        Call::Get(key) => show(kv.get(key).await),
        Call::Put(key, value) => show(kv.put(key, value.clone()).await),
        Call::Delete(key) => show(kv.delete(key).await),
        Call::Range(start, end, limit) => show(kv.range(start, end, *limit).await),
        Call::DeleteRange(start, end) => show(kv.delete_range(start, end).await),
        Call::Txn(txn) => show(kv.txn(txn).await),
    }
}

#[test]
fn answers_as_the_model_does() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let home = Home::new();
    let store = runtime.block_on(home.open());
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    // Reproducible: what the calls reach must not depend on luck.
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let mut seen = std::collections::BTreeSet::new();
    let seen_in = std::cell::RefCell::new(&mut seen);
    runner
        .run(&prop::collection::vec(call(), 5..30), |calls| {
            runtime.block_on(async {
                let model = MemoryKv::new().with_limits(store.inner.options.max_txn_bytes, 1024, 1 << 20);
                let _ = crate::Kv::delete_range(&store, &[0], &[0xff; 4]).await.expect("cleared");
                for call in &calls {
                    let (expected, found) = (answer(&model, call).await, answer(&store, call).await);
                    prop_assert_eq!(&found, &expected, "after {:?}", call);
                    for word in ["Committed", "CompareFailed", "more: true", "InvalidArgument"] {
                        if expected.contains(word) {
                            seen_in.borrow_mut().insert(word);
                        }
                    }
                }
                Ok(())
            })
        })
        .expect("SQLite answers as the model does");
    assert_eq!(seen.len(), 4, "the random calls reached only {seen:?}");
}
