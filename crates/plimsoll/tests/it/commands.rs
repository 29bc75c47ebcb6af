//! The client commands: what they print, and which exit code says what.

use crate::kit::{Place, ask, mount, must, refused, run};

#[test]
fn objects_from_put_to_remove() {
    let place = Place::new(5000);
    let a = place.node("a");
    a.wait_for_role("leader");
    let none = ask(&[&a], &["put", "k", "--size", "5"]);
    assert_eq!((none.code, none.json()["error"]["code"].as_str()), (1, Some("NO_AVAILABLE_SPACE")), "{none:?}");
    mount(&[&a], "seg-1");
    let put = must(&[&a], &["put", "k", "--size", "5"]);
    assert_eq!((put["durability"].as_str(), put["size"].as_u64()), (Some("durable"), Some(5)));
    let range = &put["replicas"][0];
    assert_eq!((range["segment"].as_str(), range["endpoint"].as_str()), (Some("seg-1"), Some("seg-1.host:9000")));
    let get = must(&[&a], &["get", "k"]);
    assert_eq!(get["replicas"], put["replicas"]);
    assert_eq!(get["incarnation"], put["incarnation"]);
    let accepted = must(&[&a], &["put", "--hex", "00ff", "--size", "7", "--accepted"]);
    assert_eq!(accepted["durability"], "accepted");
    let keys: Vec<_> =
        must(&[&a], &["ls"])["objects"].as_array().unwrap().iter().map(|o| o["key"]["hex"].clone()).collect();
    assert_eq!(keys, ["00ff", "6b"], "in byte order");
    let after = must(&[&a], &["ls", "--hex", "--after", "00ff"]);
    assert_eq!(after["objects"].as_array().unwrap().len(), 1);
    assert_eq!(must(&[&a], &["ls", "--tenant", "other"])["objects"], serde_json::json!([]));

    let partly = ask(&[&a], &["remove", "k", "nothing"]);
    assert_eq!(partly.code, 6, "{partly:?}");
    let results = partly.json()["results"].clone();
    assert_eq!((&results[0]["removed"], &results[1]["error"]["code"]), (&true.into(), &"OBJECT_NOT_FOUND".into()));
    for absent in [vec!["get", "k"], vec!["remove", "k"], vec!["segment", "unmount", "nothing"]] {
        assert_eq!(ask(&[&a], &absent).code, 5, "{absent:?}");
    }
    must(&[&a], &["segment", "update", "seg-1", "--endpoint", "elsewhere:1"]);
    let segments = must(&[&a], &["segment", "ls"]);
    assert_eq!(segments["segments"][0]["endpoint"], "elsewhere:1");
    must(&[&a], &["segment", "unmount", "seg-1"]);
    assert_eq!(must(&[&a], &["ls"])["objects"], serde_json::json!([]));
}

#[test]
fn text_for_people_names_what_happened() {
    let place = Place::new(5000);
    let a = place.node("a");
    a.wait_for_role("leader");
    let say = |args: &[&str]| {
        let mut all = args.to_vec();
        all.extend(["--endpoints", &a.grpc]);
        run(&all)
    };
    let mounted = say(&["segment", "mount", "seg-1", "--size", "1000", "--base", "4096", "--endpoint", "h:1"]);
    assert_eq!((mounted.code, mounted.out.as_str()), (0, "mounted segment seg-1: durable\n"));
    let put = say(&["put", "k", "--size", "5"]);
    for word in ["put k (5 bytes): durable", "seg-1", "h:1", "4096"] {
        assert!(put.out.contains(word), "{word}: {}", put.out);
    }
    refused(&say(&["put", "k", "--size", "5"]), 1, "k", "remove it first");
    refused(&say(&["get", "absent"]), 5, "absent", "does not exist");
    assert!(say(&["ls"]).out.contains('k'));
    assert!(say(&["remove", "k"]).out.contains("removed k: durable"));
    assert!(say(&["status"]).out.contains("leader"));
    assert!(say(&["policy"]).out.contains("put_grant_ms"));
}

#[test]
fn the_clusters_times_are_changed_and_kept() {
    let place = Place::new(1000);
    let (a, b) = place.pair();
    let policy = must(&[&a], &["policy", "--put-grant-ms", "1234"]);
    assert_eq!(policy["put_grant_ms"], 1234);
    let logged = || must(&[&a], &["status"])["nodes"][0]["durable"]["seq"].as_u64().unwrap();
    let before = logged();
    assert_eq!(must(&[&a], &["policy"])["put_grant_ms"], 1234);
    assert_eq!(logged(), before, "a question is not logged");
    must(&[&a], &["policy", "--put-grant-ms", "1234"]);
    assert_eq!(logged(), before + 1, "naming it again is how the next quarantine shrinks, so it is");
    let wrong = ask(&[&a], &["policy", "--put-grant-ms", "1"]);
    assert_eq!((wrong.code, wrong.json()["error"]["code"].as_str()), (1, Some("INVALID")));
    a.kill_9();
    b.wait_for_role("leader");
    assert_eq!(must(&[&b], &["policy"])["put_grant_ms"], 1234, "it is in the log");
}

#[test]
fn nobody_there_ends_with_3_and_wrong_usage_with_2() {
    let nobody = run(&["put", "k", "--size", "5", "--endpoints", "127.0.0.1:1", "--timeout-ms", "3000"]);
    refused(&nobody, 3, "127.0.0.1:1", "nothing was done");
    refused(&run(&["get", "k", "--endpoints", "http://127.0.0.1:1"]), 2, "http://127.0.0.1:1", "HOST:PORT");
    refused(&run(&["get", "xyz", "--hex"]), 2, "\"xyz\"", "even number");
    refused(&run(&["ls", "--token-file", "/no/such/file"]), 2, "/no/such/file", "cannot be read");
    for wrong in [&["put", "k"][..], &["frobnicate"], &["remove"], &["put", "k", "--size", "-1"]] {
        assert_eq!(run(wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn help_teaches_with_examples() {
    let help = run(&["--help"]);
    assert_eq!(help.code, 0);
    for word in ["plimsoll demo", "plimsoll serve --node a", "PLIMSOLL_ENDPOINTS", "Exit codes", "oplog inspect"] {
        assert!(help.out.contains(word), "{word}");
    }
    assert!(help.out.starts_with("The metadata of a KV-cache store"), "{}", help.out);
    for command in [
        &["demo"][..],
        &["serve"],
        &["put"],
        &["get"],
        &["remove"],
        &["ls"],
        &["segment", "mount"],
        &["oplog", "inspect"],
        &["policy"],
        &["config", "check"],
    ] {
        let help = run(&[command, &["--help"]].concat()).out;
        let example = format!("\n  plimsoll {}", command.join(" "));
        assert!(help.contains(&example), "{command:?} has no example: {help}");
    }
}

#[test]
fn config_check_prints_all_layers_and_hides_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("p.toml");
    std::fs::write(&file, "node = 'a'\nstore = 'memory:'\ntoken = 'hunter2'\n[leadership]\nttl_ms = 4000\n").unwrap();
    let file = file.to_str().unwrap();
    let checked = run(&["config", "check", "--config", file, "--cluster", "c", "--json"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let json = checked.json();
    let of = |key: &str| json["settings"][key].clone();
    assert_eq!(of("leadership.ttl_ms"), serde_json::json!({ "value": "4000", "from": file }));
    assert_eq!(of("cluster"), serde_json::json!({ "value": "c", "from": "command line" }));
    assert_eq!(of("oplog_batch_max_entries"), serde_json::json!({ "value": "1024", "from": "default" }));
    assert_eq!(of("token")["value"], "(hidden)");
    let text = run(&["config", "check", "--config", file]);
    assert!(!format!("{checked:?}{text:?}").contains("hunter2"));
    assert!(run(&["config", "check", "--list"]).out.contains("PLIMSOLL_LEADERSHIP_TTL_MS"));
    let wrong = run(&["config", "check", "--config", file, "--set", "drain_ms=soon"]);
    refused(&wrong, 2, "drain_ms", "whole number");
}
