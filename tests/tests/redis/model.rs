//! Transactions and ranges on a real server against the model in memory, from a seed.

use bytes::Bytes;
use ha_kv::{Compare, Delete, Kv as _, KvError, KvPair, MemoryKv, RangeLimit, Txn, TxnKv};
use ha_types::{Entropy as _, SeededEntropy};

use crate::support::{connect, redis_or_skip, start};

const CALLS: u32 = 3000;

struct Dice(SeededEntropy);

impl Dice {
    fn below(&self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    /// Few keys that lie close together, so that calls meet; NUL, 0xff and what is special to Lua and to ZRANGEBYLEX among them.
    fn key(&self) -> Bytes {
        const BYTES: [u8; 6] = [0, b'a', b'[', b'(', b'%', 0xff];
        (0..1 + self.below(2)).map(|_| BYTES[self.below(6) as usize]).collect()
    }

    fn value(&self) -> Bytes {
        (0..self.below(3)).map(|_| self.below(2) as u8).collect()
    }

    fn txn(&self) -> Txn {
        let compares = (0..self.below(2)).map(|_| match self.below(2) {
            0 => Compare::ValueEquals { key: self.key(), value: self.value() },
            _ => Compare::KeyAbsent { key: self.key() },
        });
        let compares = compares.collect();
        let puts = (0..self.below(3)).map(|_| KvPair { key: self.key(), value: self.value() }).collect();
        let deletes = (0..self.below(3)).map(|_| match self.below(2) {
            0 => Delete::Key(self.key()),
            _ => Delete::Range { start: self.key(), end: self.key() },
        });
        Txn { compares, puts, deletes: deletes.collect() }
    }
}

#[derive(Clone, Debug)]
enum Call {
    Get(Bytes),
    Put(Bytes, Bytes),
    Delete(Bytes),
    Range(Bytes, Bytes, RangeLimit),
    DeleteRange(Bytes, Bytes),
    Txn(Txn),
}

fn call(dice: &Dice) -> Call {
    match dice.below(12) {
        0 => Call::Get(dice.key()),
        1 | 2 => Call::Put(dice.key(), dice.value()),
        3 => Call::Delete(dice.key()),
        4 => Call::DeleteRange(dice.key(), dice.key()),
        5 | 6 => {
            let bytes = if dice.below(2) == 0 { usize::MAX } else { dice.below(9) as usize };
            Call::Range(dice.key(), dice.key(), RangeLimit { pairs: 1 + dice.below(3) as usize, bytes })
        }
        _ => Call::Txn(dice.txn()),
    }
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

#[tokio::test]
async fn answers_as_the_model_does() {
    let program = redis_or_skip!("answers_as_the_model_does");
    let server = start(&program).await;
    let store = connect(&server).await;
    let model = MemoryKv::new();
    let dice = Dice(SeededEntropy::new(0x5eed_0f8e_d150_0001));
    let mut reached = std::collections::BTreeSet::new();
    for number in 0..CALLS {
        let call = call(&dice);
        let (expected, found) = (answer(&model, &call).await, answer(&*store, &call).await);
        assert_eq!(found, expected, "call {number}: {call:?}");
        for word in ["Committed", "CompareFailed", "more: true", "InvalidArgument", "None", "Some"] {
            if expected.contains(word) {
                reached.insert(word);
            }
        }
        if number % 100 == 99 {
            let all = async |kv: &dyn TxnKv| kv.range(&[0], &[0xff; 4], RangeLimit::pairs(1000)).await.unwrap();
            assert_eq!(all(&*store).await, all(&model).await, "after call {number}");
        }
    }
    assert_eq!(reached.len(), 6, "the calls reached only {reached:?}");
    // The index and the values in Redis are what they should be: as many of one as of the other.
    let page = model.range(&[0], &[0xff; 4], RangeLimit::pairs(1000)).await.unwrap();
    let keys = page.pairs.len().to_string();
    for command in [["HLEN", "{plimsoll}:values"], ["ZCARD", "{plimsoll}:index"]] {
        assert_eq!(server.cli(&command).await.unwrap(), keys);
    }
    assert_eq!(server.cli(&["HGET", "{plimsoll}:meta", "keys"]).await.unwrap(), keys);
}
