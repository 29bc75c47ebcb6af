//! Owns range reads: one script reads one page, bounded by pairs and by bytes at the server.

use redis::Value;

use super::RedisKv;
use super::answer::{Answer, bytes};
use super::call::Request;
use super::error::Access;
use super::script::Operation;
use crate::{KvError, KvPair, RangeLimit, RangePage};

/// Most pairs of a page, however small they are: a script holds up everybody else.
const MAX_PAIRS: usize = 16 << 10;

impl RedisKv {
    /// Reads one page of a range that can hold keys. The page is a view of one instant.
    pub(super) async fn read_page(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        let pairs = limit.pairs.clamp(1, MAX_PAIRS).to_string();
        let most = limit.bytes.clamp(1, self.inner.options().max_reply_bytes).to_string();
        let largest = self.inner.largest_value();
        let arguments = vec![start, end, pairs.as_bytes(), most.as_bytes(), largest.as_bytes()];
        let request = Request { access: Access::Read, operation: Operation::Range, lease: None, arguments };
        match self.inner.call(request).await? {
            Answer::Ok(answer) => page(answer).ok_or_else(|| self.senseless(Access::Read)),
            _ => Err(self.senseless(Access::Read)),
        }
    }
}

/// Whether there is more, then keys and values in turn.
fn page(answer: Vec<Value>) -> Option<RangePage> {
    let mut answer = answer.into_iter();
    let more = match bytes(answer.next())?.as_ref() {
        b"0" => false,
        b"1" => true,
        _ => return None,
    };
    let Some(Value::Array(items)) = answer.next() else { return None };
    let mut items = items.into_iter();
    let mut pairs = Vec::with_capacity(items.len() / 2);
    while let Some(key) = items.next() {
        pairs.push(KvPair { key: bytes(Some(key))?, value: bytes(items.next())? });
    }
    Some(RangePage { pairs, more })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_page_that_makes_no_sense_is_none() {
        let list = |items: &[&str]| Value::Array(items.iter().map(|item| text(item)).collect());
        let good = page(vec![text("1"), list(&["a", "1", "b", "2"])]).unwrap();
        assert_eq!((good.pairs.len(), good.more), (2, true));
        for bad in [
            vec![],
            vec![text("1")],
            vec![text("2"), list(&[])],
            vec![text("0"), text("a")],
            vec![text("0"), list(&["a"])],
            vec![text("0"), Value::Array(vec![text("a"), Value::Nil])],
        ] {
            assert_eq!(page(bad.clone()), None, "{bad:?}");
        }
    }
}
