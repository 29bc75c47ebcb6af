//! Owns the one table of who may depend on whom (ARCHITECTURE.md, "Layers"). An arrow points down only.

use super::{Finding, Package};

const RULE: &str = "layers";

/// One of our crates.
struct Layer {
    name: &'static str,
    /// How high it lies; a test may reach anything of ours that lies lower, but for `never`.
    height: u8,
    /// The only crates of ours that it may use.
    may_use: &'static [&'static str],
    /// What not even its tests may use.
    never: &'static [&'static str],
}

const LAYERS: &[Layer] = &[
    Layer { name: "ha-types", height: 0, may_use: &[], never: &[] },
    Layer { name: CHECKER, height: 0, may_use: &[], never: &[] },
    Layer { name: "ha-kv", height: 1, may_use: &["ha-types"], never: &[] },
    Layer { name: "bucket-store", height: 1, may_use: &["ha-types", CHECKER], never: &[] },
    Layer { name: "oplog-core", height: 2, may_use: &["ha-types", "ha-kv", CHECKER], never: &["leadership"] },
    Layer { name: "leadership", height: 2, may_use: &["ha-types", "ha-kv"], never: &["oplog-core"] },
    Layer { name: "standby", height: 3, may_use: &["ha-types", "ha-kv", "oplog-core"], never: &["master"] },
    Layer { name: "master", height: 3, may_use: &["ha-types", "oplog-core"], never: &["standby"] },
    Layer { name: "ha-rpc", height: 3, may_use: &[], never: &["standby", "master"] },
    Layer { name: "plimsoll", height: 4, may_use: ALL, never: &["plimsoll-tests"] },
    Layer { name: "ha-sim", height: 4, may_use: &["ha-types", "ha-kv", "oplog-core", "bucket-store"], never: &[] },
    Layer { name: "plimsoll-tests", height: 5, may_use: ALL, never: &[] },
    Layer { name: "plimsoll-fuzz", height: 5, may_use: ALL, never: &[] },
    Layer { name: "xtask", height: 0, may_use: &[], never: &[] },
];

const ALL: &[&str] = &["ha-types", "ha-kv", "bucket-store", "oplog-core", "leadership", "standby", "master", "ha-rpc"];

/// What replaces production's locks, and may be there under its own setting only.
const CHECKER: &str = "ha-schedules";

/// Clients of a store, and the only crate that may use them.
const STORE_CLIENTS: &[&str] = &["etcd-client", "rusqlite", "libsqlite3-sys", "redis"];
const STORE_CRATE: &str = "ha-kv";

/// Finds edges that point up or sideways, and crates that the table does not know.
pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages.iter().filter(|p| p.member) {
        let Some(layer) = LAYERS.iter().find(|l| l.name == package.name) else {
            let message = "has no layer; add it to LAYERS in xtask/src/tidy/layers.rs and to ARCHITECTURE.md";
            findings.push(Finding::new(RULE, &package.name, message));
            continue;
        };
        for used in ours(packages, &package.dependencies) {
            if !layer.may_use.contains(&used) {
                findings.push(Finding::new(RULE, layer.name, format!("may not depend on {used}")));
            }
        }
        let mut always = package.dependencies.iter().filter(|used| !package.under_schedules.contains(used));
        if always.any(|used| used == CHECKER) {
            let message = format!("may depend on {CHECKER} under `cfg(oplog_schedules)` only");
            findings.push(Finding::new(RULE, layer.name, message));
        }
        for used in ours(packages, &package.dev_dependencies) {
            let below =
                LAYERS.iter().any(|l| l.name == used && l.height < layer.height) || layer.may_use.contains(&used);
            if used != layer.name && (!below || layer.never.contains(&used)) {
                findings.push(Finding::new(RULE, layer.name, format!("may not use {used} even in its tests")));
            }
        }
        if layer.name != STORE_CRATE {
            let all = package.dependencies.iter().chain(&package.dev_dependencies);
            for client in all.filter(|used| STORE_CLIENTS.contains(&used.as_str())) {
                let message = format!("may not depend on {client}; only {STORE_CRATE} talks to a store");
                findings.push(Finding::new(RULE, layer.name, message));
            }
        }
    }
    findings
}

fn ours<'a>(packages: &'a [Package], used: &'a [String]) -> impl Iterator<Item = &'a str> {
    used.iter().map(String::as_str).filter(|name| packages.iter().any(|p| p.member && p.name == *name))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::Package;

    fn member(name: &str, dependencies: &[&str], dev_dependencies: &[&str]) -> Package {
        Package {
            name: name.into(),
            member: true,
            dependencies: dependencies.iter().map(|d| (*d).into()).collect(),
            dev_dependencies: dev_dependencies.iter().map(|d| (*d).into()).collect(),
            ..Package::default()
        }
    }

    fn messages(packages: &[Package]) -> Vec<String> {
        check(packages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_that_point_down_pass() {
        let packages = [
            member("ha-types", &["thiserror"], &[]),
            member("ha-kv", &["ha-types", "rusqlite"], &["ha-types"]),
            member("oplog-core", &["ha-kv", "ha-types"], &["ha-kv"]),
            member("master", &["oplog-core", "ha-types"], &["ha-kv"]),
        ];
        assert_eq!(messages(&packages), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_up_or_sideways_is_found() {
        let packages = [
            member("ha-types", &["ha-kv"], &[]),
            member("ha-kv", &[], &[]),
            member("master", &["standby", "ha-kv"], &[]),
            member("standby", &[], &["master"]),
        ];
        assert_eq!(
            messages(&packages),
            [
                "ha-types: may not depend on ha-kv [layers]",
                "master: may not depend on standby [layers]",
                "master: may not depend on ha-kv [layers]",
                "standby: may not use master even in its tests [layers]",
            ]
        );
    }

    #[test]
    fn a_store_client_outside_the_store_crate_is_found() {
        let packages = [member("oplog-core", &["etcd-client"], &["rusqlite"])];
        assert_eq!(messages(&packages).len(), 2);
        assert!(messages(&packages)[0].contains("only ha-kv talks to a store"));
    }

    #[test]
    fn a_build_that_always_has_the_schedule_checker_is_found() {
        let checker = member("ha-schedules", &["shuttle"], &[]);
        let mut log = member("oplog-core", &["ha-schedules"], &[]);
        log.under_schedules = log.dependencies.clone();
        assert_eq!(messages(&[checker, log]), Vec::<String>::new());
        let packages = [member("ha-schedules", &[], &[]), member("oplog-core", &["ha-schedules"], &[])];
        assert_eq!(
            messages(&packages),
            ["oplog-core: may depend on ha-schedules under `cfg(oplog_schedules)` only [layers]"]
        );
    }

    #[test]
    fn an_unknown_crate_is_found() {
        assert!(messages(&[member("new-crate", &[], &[])])[0].contains("has no layer"));
    }
}
