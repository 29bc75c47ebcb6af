//! Owns the scripts and their keys. Each is the common head and one operation.

use std::sync::OnceLock;

use super::options::RedisOptions;

/// What a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Get,
    Range,
    Txn,
    Grant,
    KeepAlive,
    Revoke,
    PutIfAbsent,
    Peek,
}

macro_rules! script {
    ($file:literal) => {{
        static SCRIPT: OnceLock<redis::Script> = OnceLock::new();
        SCRIPT.get_or_init(|| redis::Script::new(script!(@text $file)))
    }};
    (@text $file:literal) => {
        concat!(include_str!("lua/prelude.lua"), include_str!(concat!("lua/", $file)))
    };
    (@source $file:literal) => {
        script!(@text $file)
    };
}

impl Operation {
    /// Every operation.
    #[cfg(test)]
    pub(super) const ALL: [Self; 8] =
        [Self::Get, Self::Range, Self::Txn, Self::Grant, Self::KeepAlive, Self::Revoke, Self::PutIfAbsent, Self::Peek];

    /// The name by which a server knows the script.
    pub(super) fn hash(self) -> &'static str {
        match self {
            Self::Get => script!("get.lua"),
            Self::Range => script!("range.lua"),
            Self::Txn => script!("txn.lua"),
            Self::Grant => script!("grant.lua"),
            Self::KeepAlive => script!("keep_alive.lua"),
            Self::Revoke => script!("revoke.lua"),
            Self::PutIfAbsent => script!("put_if_absent.lua"),
            Self::Peek => script!("peek.lua"),
        }
        .get_hash()
    }

    /// The script itself.
    pub(super) const fn source(self) -> &'static str {
        match self {
            Self::Get => script!(@source "get.lua"),
            Self::Range => script!(@source "range.lua"),
            Self::Txn => script!(@source "txn.lua"),
            Self::Grant => script!(@source "grant.lua"),
            Self::KeepAlive => script!(@source "keep_alive.lua"),
            Self::Revoke => script!(@source "revoke.lua"),
            Self::PutIfAbsent => script!(@source "put_if_absent.lua"),
            Self::Peek => script!(@source "peek.lua"),
        }
    }
}

/// The names of a store's keys. The namespace between braces is the hash tag: all lie in one slot.
#[derive(Debug)]
pub(super) struct Keys {
    /// Values, index, meta, holders, role probe: what every script is given.
    pub(super) all: [String; 5],
    /// What the keys of leases begin with.
    pub(super) leases: String,
}

impl Keys {
    pub(super) fn of(options: &RedisOptions) -> Self {
        let key = |name: &str| format!("{{{}}}:{name}", options.namespace);
        Self { all: ["values", "index", "meta", "holders", "role-probe"].map(key), leases: key("lease:") }
    }

    /// The key of one lease.
    pub(super) fn lease(&self, lease: u64) -> String {
        format!("{}{}", self.leases, lease_name(lease))
    }
}

/// A lease as the scripts compare it: text, never a number.
pub(super) fn lease_name(lease: u64) -> String {
    format!("{lease:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_have_the_one_hash_tag() {
        let keys = Keys::of(&RedisOptions::single("h:1"));
        for key in keys.all.iter().chain([&keys.leases, &keys.lease(7)]) {
            assert!(key.starts_with("{plimsoll}:"), "{key}");
        }
        assert_eq!(keys.lease(0xab), "{plimsoll}:lease:00000000000000ab");
    }

    #[test]
    fn scripts_differ_and_are_named_by_their_text() {
        let mut hashes: Vec<_> = Operation::ALL.iter().map(|op| op.hash()).collect();
        for op in Operation::ALL {
            assert_eq!(redis::Script::new(op.source()).get_hash(), op.hash(), "{op:?}");
        }
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), Operation::ALL.len());
    }

    /// The rule that the effects in the error table rest on: outside the head, where `write` counts them, no script calls a command that
    /// changes something.
    #[test]
    fn no_operation_writes_but_through_the_one_function() {
        const WRITES: [&str; 10] =
            ["SET", "HSET", "HDEL", "ZADD", "ZREM", "HINCRBY", "PEXPIRE", "DEL", "ZREMRANGEBYLEX", "INCR"];
        for op in Operation::ALL {
            for line in op.source().lines().filter(|line| line.contains("redis.call(")) {
                for command in WRITES {
                    assert!(!line.contains(&format!("redis.call('{command}'")), "{op:?}: {line}");
                }
            }
        }
    }
}
