//! Owns the one table *Redis' error → (kind, effect)*. Nothing else in the backend looks at a server's error text.
//!
//! A row is found by how the message begins, the first that matches; a text that a script wrapped is unwrapped first. `errors.md`
//! beside this file is the table for readers; a test keeps the two equal.
//!
//! The proof of `NotApplied`: the server checks all of these before it runs a command, and our scripts raise only before their first
//! write. A first write that is refused is told as such by the script; one that is refused *after* another is a torn transaction,
//! `Corrupt` and `Unknown`. Reads say `NotApplied` whatever the row says.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;

use crate::backend::failure::{self, row};
use crate::{Effect, KvErrorKind};

pub(super) use crate::backend::failure::Access;

/// What the backend itself does after a failure, before the *next* call. The failed call is never repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowUp {
    /// Nothing: the server answered.
    Stay,
    /// The next call connects anew, which looks for the server and asks again how durable it is.
    Reconnect,
}

/// A failure with what to do about it.
pub(super) type Failure = failure::Failure<FollowUp>;

/// By how the server's text begins.
type Row = failure::Row<&'static str, FollowUp>;

const RIGHTS: &str = "grant the user the rights that docs/redis.md lists";
const PASSWORD: &str = "check user and password";
const CLUSTER: &str = "name a cluster as redis-cluster, and give no database index";

use Effect::{NotApplied, Unknown};
use FollowUp::{Reconnect, Stay};
use KvErrorKind as K;

/// The table.
#[rustfmt::skip]
static TABLE: &[Row] = &[
    row("LOADING", "", K::Busy, NotApplied, Stay, "it reads its data from disk"),
    row("BUSY ", "", K::Busy, NotApplied, Stay, "another client's script runs"),
    row("TRYAGAIN", "", K::Busy, NotApplied, Stay, "the slot is being moved"),
    row("NOSCRIPT", "", K::Busy, NotApplied, Stay, ""),
    row("MISCONF", "No space left", K::NoSpace, NotApplied, Stay, "make room on the server's disk"),
    row("MISCONF", "", K::ReadOnly, NotApplied, Stay, "see the server's log; it cannot write its files"),
    row("READONLY", "", K::ReadOnly, NotApplied, Reconnect, "it is a replica; name the master"),
    row("OOM", "", K::NoSpace, NotApplied, Stay, "delete, or raise maxmemory"),
    row("NOREPLICAS", "", K::ReadOnly, NotApplied, Stay, "min-replicas-to-write asks for replicas that are not there"),
    row("NOAUTH", "", K::Auth, NotApplied, Reconnect, "the server asks for a user or a password"),
    row("WRONGPASS", "", K::Auth, NotApplied, Reconnect, PASSWORD),
    row("NOPERM", "", K::Auth, NotApplied, Stay, RIGHTS),
    row("ERR The user executing the script", "", K::Auth, NotApplied, Stay, RIGHTS),
    row("ERR invalid password", "", K::Auth, NotApplied, Reconnect, PASSWORD),
    row("ERR AUTH", "", K::Auth, NotApplied, Reconnect, "the server has no such user or no password; give none"),
    row("ERR Client sent AUTH", "", K::Auth, NotApplied, Reconnect, "the server has no password; give none"),
    row("WRONGTYPE", "", K::Corrupt, NotApplied, Stay, "something else uses our key; choose another namespace"),
    row("CROSSSLOT", "", K::InvalidArgument, NotApplied, Stay, ""),
    row("ERR SELECT is not allowed in cluster mode", "", K::InvalidArgument, NotApplied, Reconnect, CLUSTER),
    row("ERR DB index is out of range", "", K::InvalidArgument, NotApplied, Reconnect, "give a lower database index"),
    row("ERR invalid DB index", "", K::InvalidArgument, NotApplied, Reconnect, "give a lower database index"),
    row("MOVED", "", K::Unavailable, NotApplied, Reconnect, "the slot lies elsewhere"),
    row("ASK", "", K::Unavailable, NotApplied, Reconnect, "the slot is being moved"),
    row("CLUSTERDOWN", "", K::Unavailable, NotApplied, Reconnect, ""),
    row("MASTERDOWN", "", K::Unavailable, NotApplied, Reconnect, ""),
    row("ERR Script attempted to access a non local key", "", K::Unavailable, NotApplied, Reconnect, "the slot is being moved"),
    row("ERR max number of clients", "", K::Busy, NotApplied, Reconnect, "raise maxclients"),
    row("ERR Script killed by user", "", K::Busy, NotApplied, Stay, ""),
    row("ERR unknown command", "", K::Unsupported, NotApplied, Stay, "it was renamed, or the server is older than 6"),
    row("ERR Unknown subcommand", "", K::Unsupported, NotApplied, Stay, "the server is older than 6, or is no Redis"),
    row("ERR This instance has cluster support disabled", "", K::InvalidArgument, NotApplied, Reconnect, "name it as one server: redis://HOST:PORT"),
];

/// A text outside the table: nothing is known.
static OTHER: Row = row("", "", K::Unavailable, Unknown, Reconnect, "");

fn find(text: &str) -> &'static Row {
    TABLE.iter().find(|row| text.starts_with(row.native) && text.contains(row.text)).unwrap_or(&OTHER)
}

/// A server's text without what a script put around it. Redis 6 says `ERR Error running script (call to f_..): @user_script:7:
/// @user_script: 7: -OOM command ...`, Redis 7 `OOM command ... script: .., on @user_script:7.`
fn unwrapped(text: &str) -> String {
    let inner = match text.rsplit_once("@user_script:") {
        Some((before, after)) if before.is_empty() || before.contains("@user_script:") || before.ends_with(": ") => {
            after.split_once(": ").map_or(text, |(_, inner)| inner)
        }
        _ => text,
    };
    let inner = inner.strip_prefix('-').unwrap_or(inner);
    // What has no code of its own is an error of the general kind.
    let code = inner.split(' ').next().unwrap_or_default();
    if code.len() > 1 && code.bytes().all(|b| b.is_ascii_uppercase()) {
        inner.to_owned()
    } else {
        format!("ERR {inner}")
    }
}

impl Failure {
    /// What the client library reported about a call to `address`.
    pub(super) fn of(error: RedisError, access: Access, address: &str) -> Self {
        if let Some(text) = server_text(&error) {
            return Self::of_text(&text, access, address).caused_by(error);
        }
        let cause = error.source().and_then(io_error).map(io::Error::kind);
        let (kind, text) = match cause {
            // A server that wants a client certificate says so only after the handshake.
            Some(io::ErrorKind::InvalidData) => (K::Auth, format!("TLS with Redis at {address} failed: {error}")),
            _ => (K::Unavailable, format!("the connection to Redis at {address} broke: {error}")),
        };
        Self::new(kind, access.effect(Unknown), Reconnect, text).caused_by(error)
    }

    /// The text of an error, from a reply or as a script caught it.
    pub(super) fn of_text(text: &str, access: Access, address: &str) -> Self {
        let text = unwrapped(text);
        find(&text).failure(access, &format!("Redis at {address}"), &text)
    }

    /// The first write of a script was refused: nothing was applied, whatever the text.
    pub(super) fn refused(text: &str, address: &str) -> Self {
        let mut failure = Self::of_text(text, Access::Write, address);
        failure.error.effect = NotApplied;
        failure
    }

    /// A write was refused after another had been done.
    pub(super) fn partial(text: &str, address: &str) -> Self {
        let text = format!(
            "Redis at {address} did a part of a transaction and refused the rest: {}; the store is not whole",
            unwrapped(text)
        );
        Self::new(K::Corrupt, Unknown, Stay, text)
    }

    /// A call to `address` that did not end in time. `sent` says whether the request itself had been handed to the connection.
    pub(super) fn timed_out(access: Access, sent: bool, address: &str, after: Duration) -> Self {
        let effect = if sent { access.effect(Unknown) } else { NotApplied };
        Self::new(K::Timeout, effect, Reconnect, format!("Redis at {address} did not answer within {after:?}"))
    }

    /// A reply that is not this request's, or none that a script of ours gives.
    pub(super) fn garbled(access: Access, address: &str, what: &str) -> Self {
        let text = format!("Redis at {address} gave {what}; the connection is dropped");
        Self::new(K::Unavailable, access.effect(Unknown), Reconnect, text)
    }
}

/// The server's own text, if the server answered with an error.
pub(super) fn server_text(error: &RedisError) -> Option<String> {
    let code = error.code()?;
    Some(match error.detail() {
        Some(detail) => format!("{code} {detail}"),
        None => code.to_owned(),
    })
}

/// The I/O error below, which the library keeps in a shared box.
fn io_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a io::Error> {
    let shared = || error.downcast_ref::<Arc<dyn StdError + Send + Sync>>()?.downcast_ref::<io::Error>();
    error.downcast_ref::<io::Error>().or_else(shared)
}

/// Whether the server does not know the script: the proof that it did not run.
pub(super) fn is_unknown_script(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

#[cfg(test)]
mod tests;
