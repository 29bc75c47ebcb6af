//! Owns what a new connection is asked before it is used: who we are, which database, what the server is. It changes nothing.

use std::collections::BTreeMap;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use super::answer::bytes;
use super::durability::{Facts, SETTINGS};
use super::error::{Access, Failure, FollowUp, server_text};
use super::options::{RedisCredentials, RedisOptions, RedisServers};
use crate::{Effect, ErrorClass, KvErrorKind};

/// The oldest server that is known to work.
const OLDEST: u32 = 6;

/// One request of the admission. Its errors changed nothing.
pub(super) async fn ask(
    connection: &mut MultiplexedConnection,
    command: &Cmd,
    address: &str,
) -> Result<Value, Failure> {
    command.query_async(connection).await.map_err(|e| Failure::of(e, Access::Read, address))
}

/// Authenticates, if there is a user.
pub(super) async fn authenticate(
    connection: &mut MultiplexedConnection,
    credentials: Option<&RedisCredentials>,
    address: &str,
) -> Result<(), Failure> {
    let Some(credentials) = credentials else { return Ok(()) };
    let mut auth = redis::cmd("AUTH");
    if let Some(user) = &credentials.user {
        auth.arg(user);
    }
    auth.arg(credentials.password.expose());
    ask(connection, &auth, address).await.map(drop)
}

/// Authenticates, chooses the database, and reads what the server says of itself. A server that cannot be used as it is is refused.
pub(super) async fn admit(
    connection: &mut MultiplexedConnection,
    options: &RedisOptions,
    address: &str,
) -> Result<Facts, Failure> {
    authenticate(connection, options.credentials.as_ref(), address).await?;
    let mut facts = Facts { info: info(connection, address).await?, ..Facts::default() };
    check_server(&facts, &options.servers, address)?;
    if options.database != 0 {
        let mut select = redis::cmd("SELECT");
        ask(connection, select.arg(options.database), address).await?;
    }
    for name in SETTINGS {
        let mut config = redis::cmd("CONFIG");
        match config.arg("GET").arg(name).query_async(connection).await {
            Ok(Value::Array(pair)) => {
                let value = bytes(pair.into_iter().nth(1)).and_then(|value| String::from_utf8(value.into()).ok());
                facts.settings.extend(value.map(|value| (name, value)));
            }
            Ok(_) => {}
            // A refusal, because it is forbidden or renamed, counts as no; that the server or the way to it fails does not.
            Err(error) => match refusal(error, address) {
                Ok(text) => facts.unreadable = Some(text),
                Err(failure) => return Err(failure),
            },
        }
    }
    check_value_limit(&facts, options, address)?;
    Ok(facts)
}

async fn info(
    connection: &mut MultiplexedConnection,
    address: &str,
) -> Result<Option<BTreeMap<String, String>>, Failure> {
    let answer: Result<Value, _> = redis::cmd("INFO").query_async(connection).await;
    match answer {
        Ok(value) => {
            let text = bytes(Some(value)).and_then(|text| String::from_utf8(text.into()).ok()).unwrap_or_default();
            let lines = text.lines().filter_map(|line| line.split_once(':'));
            Ok(Some(lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
        }
        Err(error) => refusal(error, address).map(|_| None),
    }
}

/// What the server says if it will not answer this question to this client. That it cannot now, or not before a password, is a failure.
fn refusal(error: redis::RedisError, address: &str) -> Result<String, Failure> {
    let Some(text) = server_text(&error) else { return Err(Failure::of(error, Access::Read, address)) };
    // Words outside the table prove nothing about a write; about a question they say that it was not answered.
    let failure = Failure::of_text(&text, Access::Write, address);
    let known = failure.error.effect == Effect::NotApplied;
    let passes = failure.error.class() == ErrorClass::Transient || failure.follow_up == FollowUp::Reconnect;
    if known && passes { Err(failure.caused_by(error)) } else { Ok(text) }
}

/// Refuses a server that is loading, too old, a replica, or not of the form that the address says.
fn check_server(facts: &Facts, servers: &RedisServers, address: &str) -> Result<(), Failure> {
    let refuse = |kind, sentence: String| {
        Err(Failure::new(kind, Effect::NotApplied, FollowUp::Reconnect, format!("Redis at {address} {sentence}")))
    };
    if facts.info("loading") == Some("1") {
        return refuse(KvErrorKind::Busy, "is loading its data from disk".into());
    }
    if let Some(version) = facts.info("redis_version") {
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < OLDEST) {
            return refuse(KvErrorKind::Unsupported, format!("has version {version}; {OLDEST} or later is needed"));
        }
    }
    let cluster = matches!(servers, RedisServers::Cluster(_));
    match facts.info("redis_mode") {
        Some("sentinel") => {
            let remedy = "name it as redis-sentinel://HOST:PORT/MASTER";
            return refuse(KvErrorKind::InvalidArgument, format!("is a sentinel; {remedy}"));
        }
        Some("cluster") if !cluster => {
            let remedy = "name it as redis-cluster://HOST:PORT, without a database index";
            return refuse(KvErrorKind::InvalidArgument, format!("is a node of a cluster; {remedy}"));
        }
        Some("standalone") if cluster => {
            return refuse(
                KvErrorKind::InvalidArgument,
                "is no node of a cluster; name it as redis://HOST:PORT".into(),
            );
        }
        _ => {}
    }
    match facts.info("role") {
        Some("slave") => refuse(KvErrorKind::ReadOnly, "is a replica; name its master".into()),
        _ => Ok(()),
    }
}

/// What a request needs beside keys and values.
const REQUEST_OVERHEAD_BYTES: usize = 1 << 20;

/// Refuses a server that takes smaller requests than may be sent: it would end the connection in place of answering.
fn check_value_limit(facts: &Facts, options: &RedisOptions, address: &str) -> Result<(), Failure> {
    let most = options.max_txn_bytes;
    for (name, needed) in
        [("proto-max-bulk-len", most), ("client-query-buffer-limit", most.saturating_add(REQUEST_OVERHEAD_BYTES))]
    {
        let limit = facts.settings.get(name).and_then(|limit| limit.parse::<usize>().ok());
        if let Some(limit) = limit.filter(|limit| *limit < needed) {
            let text = format!(
                "Redis at {address} has {name} {limit}, too little for max_txn_bytes {most}; raise it, or lower max_txn_bytes"
            );
            return Err(Failure::new(KvErrorKind::TooLarge, Effect::NotApplied, FollowUp::Reconnect, text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(info: &[(&str, &str)]) -> Facts {
        let info = info.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Facts { info: Some(info), ..Facts::default() }
    }

    #[test]
    fn a_server_that_cannot_be_used_is_refused_with_the_remedy() {
        let single = RedisServers::Single("h:1".into());
        let cluster = RedisServers::Cluster(vec!["h:1".into()]);
        for (line, servers, kind, remedy) in [
            (("loading", "1"), &single, KvErrorKind::Busy, "loading"),
            (("redis_version", "5.0.14"), &single, KvErrorKind::Unsupported, "6 or later"),
            (("redis_version", "six"), &single, KvErrorKind::Unsupported, "six"),
            (("redis_mode", "sentinel"), &single, KvErrorKind::InvalidArgument, "redis-sentinel://"),
            (("redis_mode", "cluster"), &single, KvErrorKind::InvalidArgument, "redis-cluster://"),
            (("redis_mode", "standalone"), &cluster, KvErrorKind::InvalidArgument, "redis://HOST"),
            (("role", "slave"), &single, KvErrorKind::ReadOnly, "master"),
        ] {
            let error = check_server(&facts(&[line]), servers, "r:1").unwrap_err().error;
            assert_eq!((error.kind, error.effect), (kind, Effect::NotApplied), "{error}");
            assert!(error.message.contains(remedy) && error.message.contains("r:1"), "{error}");
        }
        let good =
            facts(&[("loading", "0"), ("redis_version", "7.0.15"), ("redis_mode", "standalone"), ("role", "master")]);
        assert!(check_server(&good, &single, "r:1").is_ok());
        assert!(
            check_server(&Facts::default(), &single, "r:1").is_ok(),
            "what cannot be read is judged as not durable"
        );
    }

    #[test]
    fn a_smaller_value_limit_is_found_before_it_is_met() {
        let mut facts = Facts::default();
        let options = RedisOptions::single("h:1");
        assert!(check_value_limit(&facts, &options, "r").is_ok());
        facts.settings.insert("proto-max-bulk-len", "1048576".into());
        let error = check_value_limit(&facts, &options, "r").unwrap_err().error;
        assert_eq!(error.kind, KvErrorKind::TooLarge);
        assert!(error.message.contains("proto-max-bulk-len 1048576"), "{error}");
        facts.settings.insert("proto-max-bulk-len", options.max_txn_bytes.to_string());
        assert!(check_value_limit(&facts, &options, "r").is_ok());
        facts.settings.insert("client-query-buffer-limit", options.max_txn_bytes.to_string());
        let error = check_value_limit(&facts, &options, "r").unwrap_err().error;
        assert!(error.message.contains("client-query-buffer-limit"), "{error}");
    }

    #[test]
    fn only_a_refusal_for_good_is_unreadable() {
        let said =
            |code: &str, detail: &str| refusal(redis::make_extension_error(code.into(), Some(detail.into())), "r");
        for (code, detail) in
            [("NOPERM", "this user has no permissions"), ("ERR", "unknown command 'CONFIG'"), ("WHAT", "new")]
        {
            assert!(said(code, detail).is_ok(), "{code}");
        }
        for (code, detail) in [("BUSY", "Redis is busy running a script."), ("NOAUTH", "Authentication required.")] {
            assert!(said(code, detail).is_err(), "{code}");
        }
        assert!(refusal(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into(), "r").is_err());
    }
}
