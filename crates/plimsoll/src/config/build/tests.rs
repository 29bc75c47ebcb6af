//! Bad configurations, each refused with one sentence that names the setting and the remedy.

use super::*;

fn from_toml(text: &str) -> Result<Config, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plimsoll.toml");
    std::fs::write(&path, text).unwrap();
    let mut layers = Layers::defaults();
    layers.file(&path).map_err(|e| e.to_string())?;
    layers.build().map_err(|e| e.to_string())
}

fn minimal() -> Layers {
    let mut layers = Layers::defaults();
    layers.flag("node", "a").unwrap();
    layers.flag("store", "sqlite:/tmp/x.db").unwrap();
    layers
}

#[test]
fn the_least_is_a_node_and_a_store() {
    let config = minimal().build().unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:7400");
    assert_eq!(config.writer.oplog_batch_max_entries, 1024);
    assert_eq!(config.writer.oplog_retry_budget, None);
}

#[test]
fn a_log_of_mooncakes_is_taken_over_only_in_words() {
    let config = minimal().build().unwrap();
    assert_eq!((config.take_over, config.mooncake_quarantine), (None, Duration::from_secs(600)));
    let mut layers = minimal();
    layers.flag("mooncake_quarantine_ms", "40000").unwrap();
    layers.flag("take_over_mooncake", "true").unwrap();
    let config = layers.build().unwrap();
    assert_eq!(config.take_over, Some(TakeOver { old_primary_stopped: false }));
    assert_eq!(config.mooncake_quarantine, Duration::from_secs(40));
    layers.flag("old_primary_stopped", "true").unwrap();
    assert_eq!(layers.build().unwrap().take_over, Some(TakeOver { old_primary_stopped: true }));
    layers.flag("take_over_mooncake", "false").unwrap();
    assert!(layers.build().unwrap_err().to_string().contains("without take_over_mooncake"));
}

#[test]
fn later_layers_win() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    std::fs::write(&path, "node = 'file'\ncluster = 'file'\ndrain_ms = 7\nstore='memory:'").unwrap();
    let mut layers = Layers::defaults();
    layers.file(&path).unwrap();
    layers.env([("PLIMSOLL_CLUSTER".into(), "env".into()), ("PLIMSOLL_NODE".into(), "env".into())]).unwrap();
    layers.flag("node", "flag").unwrap();
    let config = layers.build().unwrap();
    assert_eq!((config.node.as_str(), config.cluster.as_str()), ("flag", "env"));
    assert_eq!(config.drain, Duration::from_millis(7));
}

#[test]
fn bad_files_name_the_key_and_the_remedy() {
    const GOOD: &str = "node='a'\nstore='memory:'\n";
    for (text, thing, remedy) in [
        ("lsiten = '127.0.0.1:1'", "`lsiten`", "did you mean `listen`?"),
        ("[leadership]\nttl = 5", "`leadership.ttl`", "did you mean `leadership.ttl_ms`?"),
        ("[leader]\nttl_ms = 5", "`leader`", "; "),
        ("[tls.more]\ncert = 'x'", "`tls.more`", "; "),
        ("frobnicate = 1", "`frobnicate`", "config check --list"),
        ("listen = 7400", "listen", "127.0.0.1:7400"),
        ("listen = '127.0.0.1'", "\"127.0.0.1\"", "IP:PORT"),
        ("listen = ['a']", "listen", "write a text"),
        ("listen = '0.0.0.0:7400'", "0.0.0.0:7400", "--insecure"),
        ("listen = '0.0.0.0:7400'\ninsecure = true", "0.0.0.0:7400", "set advertise"),
        ("admin_listen = '0.0.0.0:7400'", "admin_listen", "--insecure"),
        ("admin_listen = '127.0.0.1:7400'", "both 127.0.0.1:7400", "change one"),
        ("insecure = 'yes'", "insecure", "true or false"),
        ("advertise = 'http://x:1'", "advertise", "10.0.0.1:7400"),
        ("oplog_batch_max_entries = 0", "oplog_batch_max_entries", "from 1 to"),
        ("oplog_batch_max_entries = -1", "oplog_batch_max_entries", "from 1 to"),
        ("oplog_batch_max_bytes = 99999999999", "oplog_batch_max_bytes", "to 67108864"),
        ("oplog_batch_compression = 'gzip'", "oplog_batch_compression", "\"off\" or \"zstd\""),
        ("oplog_batch_compression = true", "oplog_batch_compression", "\"off\" or \"zstd\""),
        ("oplog_batch_compress_min_bytes = -1", "oplog_batch_compress_min_bytes", "from 0 to"),
        ("oplog_waiting_max_bytes = 2048", "oplog_waiting_max_bytes", "raise it"),
        ("oplog_retry_min_ms = 2000", "oplog_retry_min_ms", "lower it"),
        ("[leadership]\nmargin_ms = 2000", "leadership.margin_ms", "lower it"),
        ("oplog_root = 'oplog'", "oplog_root", "/oplog"),
        ("oplog_root = '/plimsoll/x'", "oplog_root", "outside /plimsoll"),
        ("cluster = ''", "cluster", "1 to 128"),
        ("cluster = 'a/b'", "cluster", "allowed"),
        ("node = 'a b'", "node", "allowed"),
        ("store = 'sqllite:///x'", "store", "did you mean `sqlite`?"),
        ("[tls]\ncert = '/no/such/file'", "tls.cert", "No such file"),
        ("[tls]\ncert = '/dev/null'", "tls.key", "give both"),
        ("[tls]\nkey = '/dev/null'", "tls.cert", "give both"),
        ("[tls]\nclient_ca = '/dev/null'", "tls.client_ca", "all three"),
        ("token = 'x'\ntoken_file = '/dev/null'", "token", "keep one"),
        ("token_file = '/dev/null'", "token", "draw another"),
        ("token_file = '/no/such/file'", "token_file", "No such file"),
        ("= 3", "line 1", "no TOML"),
    ] {
        let key = text.split([' ', '=']).next().unwrap_or_default();
        let base: String =
            GOOD.lines().filter(|l| !l.starts_with(&format!("{key}="))).map(|l| format!("{l}\n")).collect();
        let whole = if text.starts_with('[') { format!("{base}{text}") } else { format!("{text}\n{base}") };
        let error = from_toml(&whole).expect_err(text);
        assert!(error.contains(thing) && error.contains(remedy), "{text}: {error}");
        assert!(!error.contains('\n'), "{text}: {error}");
    }
    for (missing, remedy) in [("store='memory:'", "--node"), ("node='a'", "--store")] {
        let error = from_toml(missing).unwrap_err();
        assert!(error.contains("is not set") && error.contains(remedy), "{error}");
    }
}

#[test]
fn an_unknown_variable_is_refused_and_foreign_ones_are_not() {
    let unknown = minimal().env([("PLIMSOLL_LSITEN".into(), "x".into())]).unwrap_err().to_string();
    assert!(unknown.contains("did you mean `PLIMSOLL_LISTEN`?"), "{unknown}");
    let foreign = ["PLIMSOLL_SERVICE_HOST", "PLIMSOLL_PORT_7400_TCP", "PLIMSOLL_ENDPOINTS", "PATH"];
    minimal().env(foreign.map(|n| (n.to_owned(), "x".to_owned()))).unwrap();
}

#[test]
fn secrets_are_never_shown_and_never_flags() {
    let mut layers = minimal();
    layers.env([("PLIMSOLL_TOKEN".into(), "hunter2".into())]).unwrap();
    let config = layers.build().unwrap();
    assert!(config.token.as_ref().is_some_and(|t| t.matches(b"hunter2")));
    assert!(!format!("{config:?} {:?}", layers.report()).contains("hunter2"));
    let error = layers.flag("token", "hunter2").unwrap_err().to_string();
    assert!(error.contains("token_file") && !error.contains("hunter2"), "{error}");
    layers.flag("store", "etcd://u:hunter2@h:1").unwrap();
    let error = layers.build().unwrap_err().to_string();
    assert!(!format!("{error} {:?}", layers.report()).contains("hunter2"), "{error}");
}

#[cfg(not(feature = "etcd"))]
#[test]
fn an_etcd_url_without_etcd_names_the_build_flag() {
    let mut layers = minimal();
    layers.flag("store", "etcd://127.0.0.1:2379").unwrap();
    assert!(layers.build().unwrap_err().to_string().contains("--features etcd"));
}

#[cfg(not(feature = "redis"))]
#[test]
fn a_redis_url_without_redis_names_the_build_flag() {
    let mut layers = minimal();
    layers.flag("store", "redis://127.0.0.1:6379").unwrap();
    assert!(layers.build().unwrap_err().to_string().contains("--features redis"));
}
