//! Owns the table of settings: the only list of keys, environment variables, flags and defaults.

use std::ops::RangeInclusive;

/// One setting. Its flag is its key with `-` for `_` and `.`, its environment variable is `PLIMSOLL_` and the key in capitals
/// with `_` for `.`.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The key in the TOML file; a dot is a table.
    pub(crate) key: &'static str,
    /// What holds if nobody says otherwise.
    pub(crate) default: Option<&'static str>,
    /// Whether its value is never shown, and never taken from a flag.
    pub(crate) secret: bool,
    /// What it is, in one line.
    pub(crate) help: &'static str,
}

/// The default of `oplog_batch_max_bytes`, which commands beside `serve` take too.
pub(crate) const BATCH_MAX_BYTES: &str = "1048576";
/// What `oplog_batch_max_bytes` may be.
pub(crate) const BATCH_MAX_BYTES_RANGE: RangeInclusive<u64> = 1024..=64 << 20;

const fn setting(key: &'static str, default: Option<&'static str>, help: &'static str) -> Setting {
    Setting { key, default, secret: false, help }
}

/// All settings of `serve`.
pub(crate) const SETTINGS: &[Setting] = &[
    setting("node", None, "name of this node, unique in its cluster"),
    setting("cluster", Some("default"), "cluster id, 1 to 128 letters, digits, '_', '.' or '-'"),
    setting("store", None, "sqlite:///PATH, etcd://HOST:PORT[,...], redis://HOST:PORT or memory:"),
    setting("accept_lost_writes", Some("false"), "take a store that may lose acknowledged writes"),
    setting("take_over_mooncake", Some("false"), "take a log over that Mooncake writes; there is no way back"),
    setting("old_primary_stopped", Some("false"), "Mooncake's primary has stopped, whatever its keys say"),
    setting("mooncake_quarantine_ms", Some("600000"), "how long Mooncake's clients may use what it granted them"),
    setting("listen", Some("127.0.0.1:7400"), "address of the gRPC server; port 0 picks a free one"),
    setting("advertise", None, "HOST:PORT under which clients reach the gRPC server"),
    setting("admin_listen", Some("127.0.0.1:7401"), "address of the admin HTTP server; port 0 picks a free one"),
    setting("insecure", Some("false"), "allow plain text on addresses other than loopback"),
    setting("tls.cert", None, "PEM file with the gRPC server's certificate chain"),
    setting("tls.key", None, "PEM file with its key"),
    setting("tls.client_ca", None, "PEM file with what signs client certificates; makes them mandatory"),
    setting("token_file", None, "file with the token that every gRPC call must carry"),
    Setting { key: "token", default: None, secret: true, help: "the token itself (environment or file only)" },
    setting("oplog_root", Some("/oplog"), "root of the log's keys in the store"),
    setting("oplog.legacy", Some("false"), "follow a legacy per-entry log too; nobody leads before it is cut over"),
    setting("oplog.legacy_gap_wait_ms", Some("3000"), "how long a missing legacy entry is waited for"),
    setting("oplog.legacy_accept_lost_entries", Some("false"), "go on behind legacy entries that stayed away"),
    setting("oplog_batch_max_entries", Some("1024"), "most entries waiting for the next batch"),
    setting("oplog_batch_max_bytes", Some(BATCH_MAX_BYTES), "a batch seals at so many bytes, before compression"),
    setting("oplog_batch_compression", Some("off"), "off, or zstd once every reader of the log can read it"),
    setting("oplog_batch_compress_min_bytes", Some("4096"), "shorter batches stay uncompressed"),
    setting("oplog_waiting_max_bytes", Some("67108864"), "most bytes waiting for the log"),
    setting("oplog_max_seal_delay_us", Some("200"), "longest wait of a seal right after a batch; 0 is the RFC's rule"),
    setting("oplog_retry_min_ms", Some("1"), "first pause before a transaction is sent again"),
    setting("oplog_retry_max_ms", Some("1000"), "longest such pause"),
    setting("oplog_retry_budget_ms", Some("0"), "how long one batch is tried; 0 is for ever"),
    setting("leadership.ttl_ms", Some("3000"), "how long leadership outlives the last keep-alive"),
    setting("leadership.margin_ms", Some("500"), "how much earlier a leader stops by its own clock"),
    setting("standby.poll_interval_ms", Some("100"), "pause between two looks at the log when no hint comes"),
    setting("standby.campaign_max_lag", Some("10000"), "a standby campaigns only when at most so many entries behind"),
    setting("drain_ms", Some("5000"), "most time from SIGTERM or step-down to the end of the last call"),
];

/// The setting `key`.
pub(super) fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|s| s.key == key)
}

impl Setting {
    /// Its environment variable.
    pub(crate) fn env(&self) -> String {
        format!("PLIMSOLL_{}", self.key.replace('.', "_").to_ascii_uppercase())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_and_variables_are_unique() {
        let keys: BTreeSet<_> = SETTINGS.iter().map(|s| s.key).collect();
        let variables: BTreeSet<_> = SETTINGS.iter().map(Setting::env).collect();
        assert_eq!((keys.len(), variables.len()), (SETTINGS.len(), SETTINGS.len()));
    }
}
