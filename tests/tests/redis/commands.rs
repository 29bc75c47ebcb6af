//! The program on real Redis: the audit, and what `serve` says to a server that may lose what it acknowledged.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use plimsoll_tests::{Plimsoll, ProcessGuard, RedisServer, audit_a_sound_and_a_damaged_log, plimsoll};

use crate::support::{connect, redis_or_skip, start, start_with};

fn url(server: &RedisServer) -> String {
    format!("redis://{}", server.address())
}

#[tokio::test]
async fn an_audit_tells_a_sound_log_from_a_damaged_one() {
    let program = redis_or_skip!("an_audit_tells_a_sound_log_from_a_damaged_one");
    let Some(plimsoll) = plimsoll("an_audit_tells_a_sound_log_from_a_damaged_one") else { return };
    let server = start(&program).await;
    audit_a_sound_and_a_damaged_log(&plimsoll, connect(&server).await, &url(&server)).await;
}

const SERVE: &[&str] =
    &["serve", "--node", "a", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log", "error"];

/// Whether a node starts: it says where it listens, in one line.
fn serves(plimsoll: &Plimsoll, store: &str, more: &[&str]) {
    let mut command = plimsoll.command(&[SERVE, &["--store", store], more].concat());
    let node = ProcessGuard::start(command.stdout(Stdio::piped())).unwrap();
    let output = node.with_child(|child| child.stdout.take()).unwrap();
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    assert!(line.contains("\"grpc\""), "{line}");
}

#[tokio::test]
async fn a_server_that_may_lose_what_it_acknowledged_is_refused_with_the_cure_and_the_word() {
    const TEST: &str = "a_server_that_may_lose_what_it_acknowledged_is_refused_with_the_cure_and_the_word";
    let program = redis_or_skip!("a_server_that_may_lose_what_it_acknowledged_is_refused_with_the_cure_and_the_word");
    let Some(plimsoll) = plimsoll(TEST) else { return };
    let sentence = |why: &str| {
        format!(
            "plimsoll: the redis store may lose writes that it has acknowledged: {why}; cure it, or accept lost writes in \
             words (--accept-lost-writes)\n"
        )
    };
    for (settings, why) in [
        (&[("appendonly", "no")][..], "appendonly is no; set it to yes"),
        (&[("appendonly", "yes"), ("appendfsync", "everysec")], "appendfsync is everysec; set it to always"),
        (
            &[
                ("appendonly", "yes"),
                ("appendfsync", "always"),
                ("maxmemory", "100mb"),
                ("maxmemory-policy", "allkeys-lru"),
            ],
            "maxmemory-policy is allkeys-lru; set it to noeviction",
        ),
    ] {
        let server = start_with(&program, settings).await;
        let store = url(&server);
        let refused = plimsoll.run(&[SERVE, &["--store", &store]].concat()).await;
        assert_eq!((refused.code, refused.out.as_str(), refused.err), (1, "", sentence(why)));
        for look in [&["--check"][..], &[]] {
            let cutover = plimsoll.run(&[&["oplog", "cutover", "--store", &store], look].concat()).await;
            assert_eq!((cutover.code, cutover.err), (1, sentence(why)));
        }
        assert_eq!(server.cli(&["DBSIZE"]).await.unwrap(), "0", "nothing was written");
    }
    let server = start_with(&program, &[("appendonly", "no")]).await;
    serves(&plimsoll, &url(&server), &["--accept-lost-writes"]);
    serves(&plimsoll, &url(&start(&program).await), &[]);
}
