//! Owns the check that every feature of every crate compiles by itself, without warnings. Which features there are is read from
//! cargo, never written down here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use cargo_metadata::MetadataCommand;

use super::outcome::Outcome;
use super::runner;
use crate::cargo;
use crate::servers::{Found, Server};

/// The dependency whose build runs `protoc`.
const NEEDS_PROTOC: &str = "dep:etcd-client";

/// The features of all our crates by crate, each with what it turns on.
type Features = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// One crate with features.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) name: String,
    features: Vec<Feature>,
}

#[derive(Debug, PartialEq, Eq)]
struct Feature {
    name: String,
    needs_protoc: bool,
}

/// The libraries that have features. Those of the program and of the tests are the backends, which other steps build; the fuzz
/// targets' runtime is built by `proof fuzz`.
pub(super) fn load(root: &Path) -> Result<Vec<Package>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .other_options(vec!["--locked".into()])
        .exec()
        .context("cargo metadata failed")?;
    let all = metadata.packages.iter().map(|p| (p.name.to_string(), p.features.clone())).collect();
    let has_library = |p: &&cargo_metadata::Package| p.targets.iter().any(cargo_metadata::Target::is_lib);
    let ours = metadata.workspace_default_packages();
    let ours = ours.into_iter().filter(|p| has_library(p) && *p.name != *"plimsoll-tests").map(|p| p.name.to_string());
    Ok(packages(&all, ours))
}

fn packages(all: &Features, names: impl Iterator<Item = String>) -> Vec<Package> {
    let of = |name: String| {
        let own = all.get(&name)?.keys().filter(|feature| *feature != "default");
        let features: Vec<_> =
            own.map(|f| Feature { name: f.clone(), needs_protoc: turns_on(all, &name, f, NEEDS_PROTOC) }).collect();
        (!features.is_empty()).then_some(Package { name, features })
    };
    names.filter_map(of).collect()
}

/// Whether a feature turns on `wanted`, by itself or by way of other features of ours.
fn turns_on(all: &Features, package: &str, feature: &str, wanted: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![(package, feature)];
    while let Some((package, feature)) = open.pop() {
        if feature == wanted {
            return true;
        }
        if !seen.insert((package, feature)) {
            continue;
        }
        let Some(on) = all.get(package).and_then(|features| features.get(feature)) else { continue };
        open.extend(on.iter().map(|on| on.split_once('/').unwrap_or((package, on))));
    }
    false
}

impl Package {
    /// Checks each feature with no other of this crate. Clippy, because a warning is a failure there; what it finds in the
    /// dependencies is shared by all of them.
    pub(super) fn check(&self, root: &Path, found: &Found) -> Result<Outcome> {
        let mut sum = Outcome::default();
        for feature in &self.features {
            let name = format!("{}/{}", self.name, feature.name);
            if feature.needs_protoc && found.path(Server::Protoc).is_none() {
                sum.skipped.push(format!("{}: {name} alone", Server::Protoc.name()));
                continue;
            }
            println!("--- {name}");
            let mut check = cargo::command(root, "clippy");
            check.args(["--package", &self.name, "--no-default-features", "--features", &feature.name]);
            let one = runner::run(check.args(["--", "-D", "warnings"]).envs(found.environment()))?;
            sum.passed += one.passed;
            sum.failed += one.failed;
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::{Features, load, packages, turns_on};
    use crate::workspace;

    fn features(of: &[(&str, &str, &[&str])]) -> Features {
        let mut all = Features::new();
        for (package, feature, on) in of {
            let on = on.iter().map(|on| (*on).to_owned()).collect();
            all.entry((*package).into()).or_default().insert((*feature).into(), on);
        }
        all
    }

    #[test]
    fn what_a_feature_turns_on_is_followed_through_our_crates() {
        let all = features(&[
            ("kv", "etcd", &["dep:etcd-client"]),
            ("kv", "all", &["etcd", "all"]),
            ("kv", "redis", &["dep:redis", "tokio/net"]),
            ("log", "bench", &["kv/all"]),
        ]);
        for (package, feature, wanted) in
            [("kv", "etcd", true), ("kv", "all", true), ("log", "bench", true), ("kv", "redis", false)]
        {
            assert_eq!(turns_on(&all, package, feature, "dep:etcd-client"), wanted, "{package}/{feature}");
        }
    }

    #[test]
    fn the_default_is_no_feature_of_its_own() {
        let all = features(&[("kv", "default", &[]), ("types", "default", &[]), ("types", "kit", &[])]);
        let found = packages(&all, ["kv".to_owned(), "types".to_owned()].into_iter());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].features.len(), 1, "{found:?}");
    }

    #[test]
    fn the_features_of_this_workspace_are_found() {
        let found = load(&workspace::root().unwrap()).unwrap();
        let of = |package: &str, feature: &str| {
            let package = found.iter().find(|p| p.name == package)?;
            package.features.iter().find(|f| f.name == feature).map(|f| f.needs_protoc)
        };
        assert_eq!(of("ha-kv", "etcd"), Some(true));
        assert_eq!(of("plimsoll", "etcd"), None, "the program is no library");
        assert_eq!(of("ha-kv", "sqlite"), Some(false));
    }
}
