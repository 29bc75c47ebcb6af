//! The pages for machines and people.

use crate::kit::{Place, http, mount, must};

fn metric(text: &str, name: &str) -> u64 {
    let line =
        text.lines().find(|l| l.split(['{', ' ']).next() == Some(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn figures_are_there_on_every_role() {
    let place = Place::new(5000);
    let (a, b) = place.pair();
    mount(&[&a], "seg-1");
    for n in 0..5 {
        must(&[&a], &["put", &format!("k{n}"), "--size", "10"]);
    }
    let of = |node: &crate::kit::Node| http(&node.admin, "/metrics").1.as_str().unwrap().to_owned();
    let leader = of(&a);
    for (name, value) in [
        ("plimsoll_leadership_held", 1),
        ("plimsoll_writer_accepting", 1),
        ("plimsoll_writer_durable_total", 6),
        ("plimsoll_log_entries", 6),
        ("plimsoll_log_durable_seq", 6),
        ("plimsoll_objects", 5),
        ("plimsoll_segments", 1),
    ] {
        assert_eq!(metric(&leader, name), value, "{name}");
    }
    assert!(metric(&leader, "plimsoll_log_bytes") > 100);
    assert!(
        leader.contains("plimsoll_role{node=\"a\",cluster=\"default\",role=\"leader\"} 1")
            || leader.contains("role=\"leader\""),
        "{leader}"
    );
    let labelled = |name: &str, labels: &[&str]| -> u64 {
        let has =
            |line: &&str| line.starts_with(&format!("{name}{{")) && labels.iter().all(|label| line.contains(label));
        let line = leader.lines().find(has).unwrap_or_else(|| panic!("{name} {labels:?}: {leader}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    for stage in ["waiting", "transaction", "notifying", "calling_back"] {
        let stage = &format!("stage=\"{stage}\"");
        let all = labelled("plimsoll_writer_stage_seconds_count", &[stage]);
        assert!((1..=6).contains(&all), "{leader}");
        assert_eq!(labelled("plimsoll_writer_stage_seconds_bucket", &[stage, "le=\"+Inf\""]), all, "{leader}");
        assert!(labelled("plimsoll_writer_stage_seconds_bucket", &[stage, "le=\"0.00005\""]) <= all);
    }
    assert!(leader.contains("# TYPE plimsoll_writer_stage_seconds histogram"), "{leader}");
    assert_eq!(labelled("plimsoll_writer_closed", &["reason=\"no_space\"", "class=\"operator\""]), 0);
    assert_eq!(labelled("plimsoll_writer_refused_total", &["reason=\"queue_entries\""]), 0);
    assert_eq!(labelled("plimsoll_writer_phase", &["phase=\"idle\""]), 1);
    assert!(leader.contains("nothing truncates the log yet"));
    assert!(leader.ends_with("# EOF\n"));
    let standby = crate::kit::eventually("the standby to replay", || {
        Some(of(&b)).filter(|t| metric(t, "plimsoll_log_entries") == 6)
    });
    for (name, value) in [
        ("plimsoll_leadership_held", 0),
        ("plimsoll_writer_accepting", 0),
        ("plimsoll_standby_healthy", 1),
        ("plimsoll_standby_lag_entries", 0),
        ("plimsoll_standby_applied_seq", 6),
    ] {
        assert_eq!(metric(&standby, name), value, "{name}");
    }
    assert_eq!(
        metric(&standby, "plimsoll_log_bytes"),
        metric(&leader, "plimsoll_log_bytes"),
        "both know the log's size"
    );
}

#[test]
fn pages_answer() {
    let place = Place::new(5000);
    let (a, b) = place.pair();
    let (code, role) = http(&b.admin, "/role");
    assert_eq!(code, 200);
    assert_eq!((role["role"].as_str(), role["leader"].as_str()), (Some("standby"), Some(a.grpc.as_str())));
    assert_eq!(role["node"], "b");
    for node in [&a, &b] {
        assert_eq!(http(&node.admin, "/health").0, 200);
        assert_eq!(http(&node.admin, "/ready").0, 200);
        let (code, page) = http(&node.admin, "/");
        assert_eq!(code, 200);
        assert!(page.as_str().unwrap().contains("nothing truncates the log yet"));
        assert_eq!(http(&node.admin, "/nothing").0, 404);
    }
}
