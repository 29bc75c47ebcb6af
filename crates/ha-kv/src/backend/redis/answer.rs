//! Owns the shape of a script's reply: nonce, id of the store, status, and what the status brings. It trusts no length.

use bytes::Bytes;
use redis::Value;

use super::error::{Access, Failure, FollowUp};
use crate::{Effect, KvErrorKind};

/// What a script answered when it found nothing wrong.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// Done, or read; with what was asked for.
    Ok(Vec<Value>),
    /// A compare did not hold.
    CompareFailed,
    /// The key belongs to another lease, or to none, and holds this. For a grant: the name is taken.
    Held(Bytes),
    /// The lease is gone.
    NoLease,
}

/// A reply as it was read, before its status is judged.
pub(super) struct Reply {
    /// The id of the store; empty if there is none yet.
    pub(super) store: String,
    status: String,
    rest: Vec<Value>,
}

impl Reply {
    /// Takes a reply apart if it carries `nonce`.
    pub(super) fn read(value: Value, nonce: &str, access: Access, address: &str) -> Result<Self, Failure> {
        let garbled = |what: &str| Failure::garbled(access, address, what);
        let Value::Array(items) = value else { return Err(garbled("a reply that is no list")) };
        let mut items = items.into_iter();
        if text(items.next()).as_deref() != Some(nonce) {
            return Err(garbled("the reply of another request"));
        }
        let (Some(store), Some(status)) = (text(items.next()), text(items.next())) else {
            return Err(garbled("a reply without a status"));
        };
        Ok(Self { store, status, rest: items.collect() })
    }

    /// What the status means.
    pub(super) fn judge(self, access: Access, address: &str) -> Result<Answer, Failure> {
        match self.status.as_str() {
            "ok" => Ok(Answer::Ok(self.rest)),
            "failed" => Ok(Answer::CompareFailed),
            "lease" => Ok(Answer::NoLease),
            "held" => match bytes(self.rest.into_iter().next()) {
                Some(value) => Ok(Answer::Held(value)),
                None => Err(Failure::garbled(access, address, "a holder without a value")),
            },
            "refused" => Err(Failure::refused(&self.word(0), address)),
            "partial" => Err(Failure::partial(&self.word(0), address)),
            _ => Err(self.broken(access, address)),
        }
    }

    /// What a script found wrong before it did anything.
    fn broken(&self, access: Access, address: &str) -> Failure {
        let (first, second, third) = (self.word(0), self.word(1), self.word(2));
        let (kind, sentence) = match self.status.as_str() {
            "type" => {
                let remedy = "something else uses it; remove it or choose another namespace";
                (KvErrorKind::Corrupt, format!("the key {first} is a {third} where a {second} is expected; {remedy}"))
            }
            "format" => {
                let sentence = format!("the store in {first} has the format {third}; this program knows {second}");
                (KvErrorKind::Unsupported, sentence)
            }
            "torn" => {
                let remedy = "a part was evicted or removed, so what is absent means nothing; restore a backup";
                (KvErrorKind::Corrupt, format!("the key {first} should have {second} and has {third}; {remedy}"))
            }
            "lost" => {
                let sentence = format!(
                    "the store {first} is gone, there is {second}; it was flushed, evicted, or another server answers"
                );
                (KvErrorKind::WrongStore, sentence)
            }
            "large" => {
                let sentence = format!("a value has {second} bytes, above the reply limit; raise max_reply_bytes");
                (KvErrorKind::TooLarge, sentence)
            }
            _ => return Failure::garbled(access, address, "an unknown status"),
        };
        let sentence = format!("Redis at {address}: {sentence}");
        let failure = Failure::new(kind, Effect::NotApplied, FollowUp::Stay, sentence);
        match self.rest.first() {
            Some(Value::BulkString(key)) if self.status != "lost" => failure.with_key(key),
            _ => failure,
        }
    }

    fn word(&self, at: usize) -> String {
        match self.rest.get(at) {
            Some(Value::BulkString(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            Some(Value::SimpleString(text)) => text.clone(),
            _ => String::new(),
        }
    }
}

/// A reply's item as bytes.
pub(super) fn bytes(value: Option<Value>) -> Option<Bytes> {
    match value {
        Some(Value::BulkString(bytes)) => Some(bytes.into()),
        Some(Value::SimpleString(text)) => Some(text.into()),
        _ => None,
    }
}

/// A reply's item as text.
fn text(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::BulkString(bytes)) => String::from_utf8(bytes).ok(),
        Some(Value::SimpleString(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[&str]) -> Value {
        Value::Array(items.iter().map(|item| Value::BulkString(item.as_bytes().to_vec())).collect())
    }

    fn judged(items: &[&str]) -> Result<Answer, Failure> {
        Reply::read(list(items), "n1", Access::Write, "r:1")?.judge(Access::Write, "r:1")
    }

    #[test]
    fn r4_only_the_reply_with_the_nonce_is_taken() {
        assert_eq!(judged(&["n1", "s", "failed"]).unwrap(), Answer::CompareFailed);
        for items in
            [&["n2", "s", "failed"][..], &[], &["n1"], &["n1", "s"], &["n1", "s", "what"], &["n1", "s", "held"]]
        {
            let failure = judged(items).unwrap_err();
            assert_eq!((failure.error.effect, failure.follow_up), (Effect::Unknown, FollowUp::Reconnect), "{items:?}");
        }
        let other = Reply::read(Value::Okay, "n1", Access::Read, "r").map(|_| ()).unwrap_err();
        assert_eq!((other.error.effect, other.follow_up), (Effect::NotApplied, FollowUp::Reconnect));
    }

    #[test]
    fn what_is_wrong_names_the_key_and_was_not_applied() {
        for (items, kind, words) in [
            (
                &["n1", "", "type", "{n}:values", "hash", "list"][..],
                KvErrorKind::Corrupt,
                ["{n}:values", "list", "hash"],
            ),
            (&["n1", "s", "torn", "{n}:index", "7", "0"], KvErrorKind::Corrupt, ["{n}:index", "7", "evicted"]),
            (
                &["n1", "s", "format", "{n}:meta", "1", "2"],
                KvErrorKind::Unsupported,
                ["{n}:meta", "format 2", "knows 1"],
            ),
            (&["n1", "s", "lost", "abc", "no store"], KvErrorKind::WrongStore, ["abc", "no store", "flushed"]),
            (&["n1", "s", "large", "k", "99"], KvErrorKind::TooLarge, ["99 bytes", "max_reply_bytes", "r:1"]),
        ] {
            let error = judged(items).unwrap_err().error;
            assert_eq!((error.kind, error.effect), (kind, Effect::NotApplied));
            assert!(words.iter().all(|word| error.message.contains(word)), "{error}");
            assert_eq!(error.key.is_some(), kind != KvErrorKind::WrongStore);
        }
    }

    #[test]
    fn r6_a_refused_first_write_is_told_from_a_torn_transaction() {
        let text = "OOM command not allowed when used memory > 'maxmemory'.";
        let error = judged(&["n1", "s", "refused", text]).unwrap_err().error;
        assert_eq!((error.kind, error.effect), (KvErrorKind::NoSpace, Effect::NotApplied));
        let error = judged(&["n1", "s", "partial", text]).unwrap_err().error;
        assert_eq!((error.kind, error.effect), (KvErrorKind::Corrupt, Effect::Unknown));
    }
}
