//! The runbook `docs/runbooks/upgrade-from-legacy.md`, walked on real processes over SQLite: an old primary with Mooncake's payloads,
//! readers first, the cutover, then a primary in batch records. Every step that the page shows is done here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::kit::{Node, Place, Ran, ask, eventually, http, mount, must, run};
use crate::old_primary::{ENDPOINT, OldPrimary};

/// No pause of the machine ends a leader's term in mid-test; the one failover waits for it once.
const TTL_MS: u64 = 8000;

/// Short, so that the first leader's quarantine does not hold the test up.
const READER: [&str; 3] = ["--legacy", "--set", "mooncake_quarantine_ms=1"];

fn cutover(place: &Place, more: &[&str]) -> Ran {
    let store = place.store();
    let mut args = vec!["oplog", "cutover", "--store", &store, "--json"];
    args.extend(more);
    run(&args)
}

fn applied(node: &Node, seq: u64) {
    eventually(&format!("the reader to apply {seq}"), || (node.role()["applied_seq"] == seq).then_some(()));
}

fn leader<'a>(nodes: &[&'a Node]) -> &'a Node {
    eventually("a leader", || nodes.iter().find(|n| n.role()["role"] == "leader").copied())
}

fn figure(node: &Node, name: &str) -> Option<String> {
    let (_, page) = http(&node.admin, "/metrics");
    let text = page.as_str()?.to_owned();
    let line = text.lines().find(|l| l.starts_with(&format!("plimsoll_{name}{{")))?;
    line.rsplit(' ').next().map(ToOwned::to_owned)
}

#[test]
fn the_runbook_readers_first_then_the_primary() {
    let place = Place::new(TTL_MS);

    // The cluster as it is: an old primary that writes.
    let (mut old, said) = OldPrimary::start(&place);
    assert_eq!(said, "primary 0");
    old.durable("mount");
    for n in 1..=20 {
        old.durable(&format!("put k{n}"));
    }
    let last = old.durable("remove k20");

    // 1. Readers first.
    let (b, c) = (place.node_with("b", &READER), place.node_with("c", &READER));
    for reader in [&b, &c] {
        reader.wait_for_role("standby");
        applied(reader, last);
        let role = reader.role();
        let reason = role["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("follows the legacy log") && reason.contains("plimsoll oplog cutover"), "{role}");
        assert_eq!(figure(reader, "standby_legacy_following").as_deref(), Some("1"));
        assert_eq!(http(&reader.admin, "/ready").0, 200);
    }

    // 2. Look, while it writes: refused, and it says why.
    let writing = Arc::new(AtomicBool::new(true));
    let writer = std::thread::spawn({
        let writing = Arc::clone(&writing);
        move || {
            for n in 0.. {
                if !writing.load(Ordering::SeqCst) {
                    break;
                }
                old.durable(&format!("put later-{n}"));
                std::thread::sleep(Duration::from_millis(50));
            }
            old
        }
    });
    let looked = cutover(&place, &["--check"]);
    assert_eq!(looked.code, 1, "{looked:?}");
    let looked = looked.json();
    assert_eq!(
        (&looked["outcome"], &looked["latest_moves"]),
        (&Value::from("refused"), &Value::from(true)),
        "{looked}"
    );
    assert_eq!(looked["election_key"]["value"], "10.0.0.1:50051");
    assert!(looked["error"].as_str().unwrap().contains("stop the old primary"), "{looked}");
    let refused = cutover(&place, &[]);
    assert_eq!(refused.code, 1, "and not done either: {refused:?}");
    writing.store(false, Ordering::SeqCst);
    let mut old = writer.join().unwrap();

    // 3. Stop the old primary.
    let base = old.durable("put last-one");
    old.stop();
    for reader in [&b, &c] {
        applied(reader, base);
        assert_eq!(reader.role()["role"], "standby", "nobody leads before the cutover");
    }
    let looked = cutover(&place, &["--check"]);
    assert_eq!(looked.code, 0, "{looked:?}");
    let looked = looked.json();
    assert_eq!((looked["outcome"].as_str(), looked["base"].as_u64()), (Some("ready"), Some(base)), "{looked}");
    assert_eq!((looked["entries"].as_u64(), looked["latest_moves"].as_bool()), (Some(base), Some(false)), "{looked}");
    assert_eq!(
        (&looked["holes"], &looked["above"], &looked["prefix"]),
        (&Value::Array(vec![]), &Value::Null, &Value::Null)
    );

    // 4. Cut over; and once more, which changes nothing.
    let done = cutover(&place, &[]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!((done.json()["outcome"].as_str(), done.json()["base"].as_u64()), (Some("created"), Some(base)));
    let again = cutover(&place, &[]).json();
    assert_eq!((again["outcome"].as_str(), again["base"].as_u64()), (Some("found"), Some(base)), "{again}");

    // 5. A node leads by itself, with everything that was there.
    let first = leader(&[&b, &c]);
    let role = first.role();
    assert!(role["epoch"].as_u64() >= Some(1) && role["reason"].is_null(), "{role}");
    let got = must(&[&b, &c], &["get", "k7"]);
    assert!(got.to_string().contains(ENDPOINT), "the old memory: {got}");
    assert_eq!(ask(&[&b, &c], &["get", "k20"]).code, 5, "removed before the cutover");
    must(&[&b, &c], &["remove", "k7"]);
    mount(&[&b, &c], "seg-new");
    must(&[&b, &c], &["put", "new", "--size", "64"]);

    // It is done: the log goes on in batches from the base, and `latest` stays.
    let inspected = run(&["oplog", "inspect", "--store", &place.store(), "--json"]);
    assert_eq!(inspected.code, 0, "{inspected:?}");
    let batches: Vec<Value> = inspected.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let batch = batches.iter().find(|l| l["kind"] == "batch").unwrap();
    assert_eq!((batch["batch_id"].as_u64(), batch["first_seq"].as_u64()), (Some(1), Some(base + 1)));
    assert_eq!(cutover(&place, &["--check"]).json()["latest"], base.to_string());

    // An old primary that comes back is refused by the prefix.
    let (back, said) = OldPrimary::start(&place);
    assert!(said.starts_with("refused") && said.contains("cut over"), "{said}");
    back.kill_9();

    // New nodes read through the base; one without the switch says what it needs.
    let d = place.node_with("d", &READER);
    d.wait_for_role("standby");
    let durable = first.role()["durable"]["seq"].as_u64().unwrap();
    applied(&d, durable);
    let without = place.node("e");
    let role = without.wait_for_role("unhealthy");
    assert!(role["reason"].as_str().unwrap().contains("base_not_held"), "{role}");
    drop(without);

    // And a failover among them keeps all of it.
    let (killed, stays) = if std::ptr::eq(first, &b) { (b, c) } else { (c, b) };
    killed.kill_9();
    leader(&[&stays, &d]);
    must(&[&stays, &d], &["get", "k8"]);
    must(&[&stays, &d], &["get", "new"]);
    assert_eq!(ask(&[&stays, &d], &["get", "k7"]).code, 5);
}

/// What cannot be fenced: the original writes on after the cutover. A reader raises the alarm, and applies nothing of it.
#[test]
fn an_entry_above_the_base_is_an_alarm_that_names_it() {
    let place = Place::new(TTL_MS);
    let (mut old, _) = OldPrimary::start(&place);
    old.durable("mount");
    let base = old.durable("put k1");
    let done = cutover(&place, &["--old-primary-stopped"]);
    assert_eq!((done.code, done.json()["outcome"].as_str()), (0, Some("created")), "{done:?}");
    let said = old.tell("put k2");
    assert!(said == "Never" || said.starts_with("refused"), "a primary of ours is fenced: {said}");
    old.tell(&format!("stray {}", base + 1));
    let a = place.node_with("a", &READER);
    a.wait_for_role("leader");
    let b = place.node_with("b", &READER);
    let role = eventually("the alarm", || {
        Some(b.role()).filter(|r| r["reason"].as_str().is_some_and(|r| r.contains("too-late")))
    });
    assert_eq!(role["role"], "standby");
    assert!(role["reason"].as_str().unwrap().contains(&format!("above the base {base}")), "{role}");
    assert_eq!(figure(&b, "standby_legacy_entry_above_base").as_deref(), Some("1"));
    assert_eq!(http(&b.admin, "/ready").0, 200, "the log itself is as it must be");
    assert_eq!(ask(&[&a, &b], &["get", "too-late"]).code, 5);
    let looked = cutover(&place, &["--check"]).json();
    assert_eq!(looked["base"].as_u64(), Some(base), "{looked}");
}
