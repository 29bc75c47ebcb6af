//! Owns the judgement whether a server keeps what it acknowledged. It asks nothing; what could not be read counts as no.

use std::collections::BTreeMap;

use super::options::RedisServers;
use crate::DurableAck;

/// The settings that decide, as `CONFIG GET` names them.
pub(super) const SETTINGS: [&str; 7] = [
    "appendonly",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "maxmemory-policy",
    "maxmemory",
    // These decide nothing about durability, but how large a request may be.
    "proto-max-bulk-len",
    "client-query-buffer-limit",
];

/// What a server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// The lines of `INFO`; `None` if it cannot be read.
    pub(super) info: Option<BTreeMap<String, String>>,
    /// The settings that could be read.
    pub(super) settings: BTreeMap<&'static str, String>,
    /// Why the others could not.
    pub(super) unreadable: Option<String>,
}

impl Facts {
    /// A line of `INFO`.
    pub(super) fn info(&self, name: &str) -> Option<&str> {
        self.info.as_ref()?.get(name).map(String::as_str)
    }

    fn setting(&self, name: &'static str) -> Result<&str, String> {
        let why = || self.unreadable.as_deref().unwrap_or("the server does not know it");
        self.settings
            .get(name)
            .map(String::as_str)
            .ok_or_else(|| format!("the setting {name} cannot be read ({}); allow CONFIG GET to this user", why()))
    }

    fn require(&self, name: &'static str, wanted: &str) -> Result<(), String> {
        match self.setting(name)? {
            found if found == wanted => Ok(()),
            found => Err(format!("{name} is {found}; set it to {wanted}")),
        }
    }

    /// Whether an answered write survives.
    pub(super) fn durable_ack(&self, servers: &RedisServers) -> DurableAck {
        match self.obstacle(servers) {
            Ok(()) => DurableAck::Yes,
            Err(reason) => DurableAck::No { reason },
        }
    }

    fn obstacle(&self, servers: &RedisServers) -> Result<(), String> {
        match servers {
            RedisServers::Sentinel { .. } => {
                return Err("a failover by Sentinel loses what was acknowledged; use one server without it".into());
            }
            RedisServers::Cluster(_) => {
                return Err("a failover in a cluster loses what was acknowledged; use one server outside it".into());
            }
            RedisServers::Single(_) => {}
        }
        for (name, wanted, why) in [
            ("role", "master", "only a master may be written to"),
            ("redis_mode", "standalone", "only one server outside a cluster keeps what it acknowledged"),
            ("connected_slaves", "0", "a replica may take over without what was acknowledged; detach it"),
        ] {
            match self.info(name) {
                Some(found) if found == wanted => {}
                Some(found) => return Err(format!("INFO says {name}:{found}; {why}")),
                None => return Err(format!("INFO does not say {name}; allow INFO to this user")),
            }
        }
        self.require("appendonly", "yes")?;
        self.require("appendfsync", "always")?;
        self.require("no-appendfsync-on-rewrite", "no")?;
        if self.setting("maxmemory")? != "0" {
            self.require("maxmemory-policy", "noeviction")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single() -> RedisServers {
        RedisServers::Single("h:1".into())
    }

    fn good() -> Facts {
        let info = [("role", "master"), ("redis_mode", "standalone"), ("connected_slaves", "0")];
        let settings = ["yes", "always", "no", "noeviction", "0", "536870912", "1073741824"];
        Facts {
            info: Some(info.map(|(name, value)| (name.into(), value.into())).into()),
            settings: SETTINGS.into_iter().zip(settings.map(String::from)).collect(),
            unreadable: None,
        }
    }

    fn reason(facts: &Facts) -> String {
        match facts.durable_ack(&single()) {
            DurableAck::No { reason } => reason,
            DurableAck::Yes => panic!("{facts:?} is said to be durable"),
        }
    }

    #[test]
    fn r1_every_setting_decides() {
        assert_eq!(good().durable_ack(&single()), DurableAck::Yes);
        for (name, value) in [("appendonly", "no"), ("appendfsync", "everysec"), ("no-appendfsync-on-rewrite", "yes")] {
            let mut facts = good();
            facts.settings.insert(name, value.into());
            assert!(reason(&facts).contains(name) && reason(&facts).contains(value), "{}", reason(&facts));
        }
        let mut facts = good();
        facts.settings.insert("maxmemory-policy", "allkeys-lru".into());
        assert_eq!(facts.durable_ack(&single()), DurableAck::Yes, "nothing is evicted without a limit");
        facts.settings.insert("maxmemory", "1000000".into());
        assert!(reason(&facts).contains("allkeys-lru"));
        facts.settings.insert("maxmemory-policy", "noeviction".into());
        assert_eq!(facts.durable_ack(&single()), DurableAck::Yes);
    }

    #[test]
    fn r3_a_replica_is_never_durable() {
        for (name, value) in [("role", "slave"), ("redis_mode", "cluster"), ("connected_slaves", "1")] {
            let mut facts = good();
            facts.info.as_mut().unwrap().insert(name.into(), value.into());
            assert!(reason(&facts).contains(name), "{}", reason(&facts));
        }
    }

    #[test]
    fn r1_what_cannot_be_read_is_no() {
        for name in &SETTINGS[..5] {
            let mut facts = good();
            facts.settings.insert("maxmemory", "1".into());
            facts.settings.remove(name);
            facts.unreadable = Some("NOPERM".into());
            assert!(reason(&facts).contains(name) && reason(&facts).contains("NOPERM"), "{}", reason(&facts));
        }
        assert!(reason(&Facts { info: None, ..good() }).contains("INFO"));
    }

    #[test]
    fn r2_sentinel_and_cluster_are_never_durable() {
        let sentinel = RedisServers::Sentinel { sentinels: vec![], master: "m".into(), credentials: None };
        for servers in [sentinel, RedisServers::Cluster(vec![])] {
            assert!(!good().durable_ack(&servers).is_yes(), "{servers:?}");
        }
    }
}
