//! Owns the check of a configuration as a whole: every value, then what they say together.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use leadership::LeaderAddress;
use oplog_core::{TakeOver, WriterConfig};
use standby::LegacyConfig;

use super::error::ConfigError;
use super::layers::Layers;
use super::settings::BATCH_MAX_BYTES_RANGE;
use super::{Config, LeadershipSettings, Secret, StandbySettings, TlsFiles};
use crate::store_url::StoreUrl;

impl Layers {
    /// Checks everything. Reads the files it names, opens no store and no port.
    pub(crate) fn build(&self) -> Result<Config, ConfigError> {
        let config = Config {
            node: self.required("node", "give --node NAME, for example --node a")?,
            cluster: self.required("cluster", "give --cluster NAME")?,
            store: self
                .required("store", "give --store sqlite:///PATH, for example --store sqlite:///tmp/plimsoll.db")?,
            accept_lost_writes: self.flag_value("accept_lost_writes")?,
            take_over: self.take_over()?,
            mooncake_quarantine: self.millis("mooncake_quarantine_ms", 0, 3_600_000)?,
            listen: self.required("listen", "give --listen 127.0.0.1:7400")?,
            advertise: self.advertise()?,
            admin_listen: self.required("admin_listen", "give --admin-listen 127.0.0.1:7401")?,
            tls: self.tls()?,
            token: self.token()?,
            oplog_root: self.oplog_root()?,
            legacy: self.legacy()?,
            writer: self.writer()?,
            leadership: self.leadership()?,
            standby: StandbySettings {
                poll_interval: self.millis("standby.poll_interval_ms", 1, 60_000)?,
                campaign_max_lag: self.number("standby.campaign_max_lag", 0, u64::MAX)?,
            },
            drain: self.millis("drain_ms", 1, 600_000)?,
        };
        self.check_addresses(&config)?;
        Ok(config)
    }

    fn parsed<T: FromStr<Err: std::fmt::Display>>(&self, key: &'static str) -> Result<Option<T>, ConfigError> {
        let Some(given) = self.get(key) else { return Ok(None) };
        given.text.parse().map(Some).map_err(|e| ConfigError::new(format!("{key} ({}): {e}", given.source)))
    }

    fn required<T: FromStr<Err: std::fmt::Display>>(&self, key: &'static str, remedy: &str) -> Result<T, ConfigError> {
        match self.get(key) {
            None => Err(ConfigError::new(format!("{key} is not set; {remedy}"))),
            Some(given) => given.text.parse().map_err(|e: T::Err| match key {
                "listen" | "admin_listen" => {
                    let (text, source) = (&given.text, &given.source);
                    ConfigError::new(format!("{key} ({source}) is {text:?}, no IP:PORT address; {remedy}"))
                }
                _ => ConfigError::new(format!("{key} ({}): {e}", given.source)),
            }),
        }
    }

    fn flag_value(&self, key: &'static str) -> Result<bool, ConfigError> {
        match self.get(key) {
            None => Ok(false),
            Some(given) => given.text.parse().map_err(|_| {
                ConfigError::new(format!("{key} ({}) is {:?}; write true or false", given.source, given.text))
            }),
        }
    }

    fn number(&self, key: &'static str, min: u64, max: u64) -> Result<u64, ConfigError> {
        let Some(given) = self.get(key) else { return Err(ConfigError::new(format!("{key} is not set"))) };
        match given.text.parse::<u64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(number),
            _ => Err(ConfigError::new(format!(
                "{key} ({}) is {:?}; give a whole number from {min} to {max}",
                given.source, given.text
            ))),
        }
    }

    fn count(&self, key: &'static str, min: u64, max: u64) -> Result<usize, ConfigError> {
        self.number(key, min, max).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    fn millis(&self, key: &'static str, min: u64, max: u64) -> Result<Duration, ConfigError> {
        self.number(key, min, max).map(Duration::from_millis)
    }

    fn take_over(&self) -> Result<Option<TakeOver>, ConfigError> {
        let old_primary_stopped = self.flag_value("old_primary_stopped")?;
        match self.flag_value("take_over_mooncake")? {
            true => Ok(Some(TakeOver { old_primary_stopped })),
            false if old_primary_stopped => Err(ConfigError::new(
                "old_primary_stopped is set without take_over_mooncake, which it is about; give both or neither",
            )),
            false => Ok(None),
        }
    }

    fn writer(&self) -> Result<WriterConfig, ConfigError> {
        let budget = self.number("oplog_retry_budget_ms", 0, 86_400_000)?;
        let writer = WriterConfig {
            oplog_batch_max_entries: self.count("oplog_batch_max_entries", 1, 65_536)?,
            oplog_batch_max_bytes: self.count(
                "oplog_batch_max_bytes",
                *BATCH_MAX_BYTES_RANGE.start(),
                *BATCH_MAX_BYTES_RANGE.end(),
            )?,
            oplog_batch_compression: self.required("oplog_batch_compression", "give off or zstd")?,
            oplog_batch_compress_min_bytes: self.count("oplog_batch_compress_min_bytes", 0, 64 << 20)?,
            oplog_waiting_max_bytes: self.count("oplog_waiting_max_bytes", 1024, 4 << 30)?,
            oplog_max_seal_delay: Duration::from_micros(self.number("oplog_max_seal_delay_us", 0, 1_000_000)?),
            oplog_retry_min: self.millis("oplog_retry_min_ms", 1, 60_000)?,
            oplog_retry_max: self.millis("oplog_retry_max_ms", 1, 60_000)?,
            oplog_retry_budget: (budget > 0).then(|| Duration::from_millis(budget)),
        };
        if writer.oplog_retry_min > writer.oplog_retry_max {
            return Err(ConfigError::new(
                "oplog_retry_min_ms is above oplog_retry_max_ms; lower it or raise the other",
            ));
        }
        if writer.oplog_waiting_max_bytes < writer.oplog_batch_max_bytes {
            return Err(ConfigError::new(
                "oplog_waiting_max_bytes is below oplog_batch_max_bytes, so no batch could fill; raise it or lower the other",
            ));
        }
        Ok(writer)
    }

    fn legacy(&self) -> Result<Option<LegacyConfig>, ConfigError> {
        let config = LegacyConfig {
            gap_wait: self.millis("oplog.legacy_gap_wait_ms", 1, 600_000)?,
            accept_lost_entries: self.flag_value("oplog.legacy_accept_lost_entries")?,
            ..LegacyConfig::default()
        };
        match self.flag_value("oplog.legacy")? {
            true => Ok(Some(config)),
            false if config.accept_lost_entries => Err(ConfigError::new(
                "oplog.legacy_accept_lost_entries is set and oplog.legacy is not; set both, or neither",
            )),
            false => Ok(None),
        }
    }

    fn leadership(&self) -> Result<LeadershipSettings, ConfigError> {
        let ttl = self.millis("leadership.ttl_ms", 200, 600_000)?;
        let margin = self.millis("leadership.margin_ms", 1, 600_000)?;
        if margin * 2 > ttl {
            return Err(ConfigError::new(
                "leadership.margin_ms is more than half of leadership.ttl_ms, so a leader could hardly serve; lower it",
            ));
        }
        Ok(LeadershipSettings { ttl, margin })
    }

    fn oplog_root(&self) -> Result<String, ConfigError> {
        let root: String = self.required("oplog_root", "give /oplog")?;
        let good = root.starts_with('/') && root.len() > 1 && !root.ends_with('/') && !root.contains("//");
        if !good || root == "/plimsoll" || root.starts_with("/plimsoll/") {
            return Err(ConfigError::new(format!(
                "oplog_root is {root:?}; give a path like /oplog, with a leading and no trailing '/', outside /plimsoll"
            )));
        }
        Ok(root)
    }

    fn advertise(&self) -> Result<Option<String>, ConfigError> {
        let Some(text) = self.parsed::<String>("advertise")? else { return Ok(None) };
        match LeaderAddress::decode(text.as_bytes()) {
            Ok(_) => Ok(Some(text)),
            Err(error) => Err(ConfigError::new(format!(
                "advertise is {text:?}, not HOST:PORT ({error}); write for example 10.0.0.1:7400"
            ))),
        }
    }

    fn tls(&self) -> Result<Option<TlsFiles>, ConfigError> {
        let file = |key| -> Result<Option<PathBuf>, ConfigError> {
            let Some(given) = self.get(key) else { return Ok(None) };
            std::fs::File::open(&given.text)
                .map_err(|e| ConfigError::new(format!("{key} ({}) names {:?}: {e}", given.source, given.text)))?;
            Ok(Some(PathBuf::from(&given.text)))
        };
        match (file("tls.cert")?, file("tls.key")?, file("tls.client_ca")?) {
            (Some(cert), Some(key), client_ca) => Ok(Some(TlsFiles { cert, key, client_ca })),
            (None, None, None) => Ok(None),
            (Some(_), None, _) => {
                Err(ConfigError::new("tls.cert is set and tls.key is not; give both, or neither for plain text"))
            }
            (None, Some(_), _) => {
                Err(ConfigError::new("tls.key is set and tls.cert is not; give both, or neither for plain text"))
            }
            (None, None, Some(_)) => {
                Err(ConfigError::new("tls.client_ca is set without tls.cert and tls.key; give all three"))
            }
        }
    }

    fn token(&self) -> Result<Option<Secret>, ConfigError> {
        let token = match (self.get("token"), self.get("token_file")) {
            (Some(_), Some(_)) => return Err(ConfigError::new("token and token_file are both set; keep one")),
            (None, None) => return Ok(None),
            (Some(given), None) => given.text.clone(),
            (None, Some(given)) => std::fs::read_to_string(&given.text)
                .map_err(|e| ConfigError::new(format!("token_file ({}) names {:?}: {e}", given.source, given.text)))?,
        };
        let token = token.trim();
        if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(ConfigError::new(
                "the token is empty or has other than visible ASCII characters; draw another",
            ));
        }
        Ok(Some(Secret::new(token)))
    }

    fn check_addresses(&self, config: &Config) -> Result<(), ConfigError> {
        let insecure = self.flag_value("insecure")?;
        let open = |address: SocketAddr| !address.ip().is_loopback() && !insecure;
        if open(config.listen) && config.tls.is_none() {
            return Err(ConfigError::new(format!(
                "listen is {}, which other machines reach in plain text; set tls.cert and tls.key, or give --insecure",
                config.listen
            )));
        }
        if open(config.admin_listen) {
            return Err(ConfigError::new(format!(
                "admin_listen is {}, which other machines reach in plain text; use a loopback address, or give --insecure",
                config.admin_listen
            )));
        }
        if config.listen == config.admin_listen && config.listen.port() != 0 {
            return Err(ConfigError::new(format!("listen and admin_listen are both {}; change one", config.listen)));
        }
        if config.listen.ip().is_unspecified() && config.advertise.is_none() {
            return Err(ConfigError::new(format!(
                "listen is {}, which is no address a client could be sent to; set advertise to HOST:PORT",
                config.listen
            )));
        }
        if matches!(config.store, StoreUrl::Etcd(_)) && !cfg!(feature = "etcd") {
            return Err(ConfigError::new(
                "store is an etcd URL, but this plimsoll was built without etcd; build it with `cargo build --features etcd`",
            ));
        }
        if matches!(config.store, StoreUrl::Redis(_)) && !cfg!(feature = "redis") {
            return Err(ConfigError::new(
                "store is a Redis URL, but this plimsoll was built without Redis; build it with `cargo build --features redis`",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
