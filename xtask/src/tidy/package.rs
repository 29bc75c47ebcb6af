//! Owns what the rules know of a package: a small extract of `cargo metadata` that a test can write by hand.

use std::path::Path;

use anyhow::{Context as _, Result};
use cargo_metadata::{Dependency, DependencyKind, MetadataCommand};

/// One package of the dependency graph.
#[derive(Debug, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Whether it is one of ours.
    pub(crate) member: bool,
    /// Its SPDX expression.
    pub(crate) licence: Option<String>,
    /// What its feature `default` turns on.
    pub(crate) default_features: Vec<String>,
    /// Names of normal and build dependencies.
    pub(crate) dependencies: Vec<String>,
    /// Those of them that it has under the schedule checker's setting only.
    pub(crate) under_schedules: Vec<String>,
    /// Names of dependencies of its tests, examples and benches.
    pub(crate) dev_dependencies: Vec<String>,
}

/// The setting under which the schedule checker's primitives stand for production's.
const SCHEDULES: &str = "cfg(oplog_schedules)";

/// All packages that any feature of the workspace can bring in.
pub(crate) fn load(root: &Path) -> Result<Vec<Package>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .features(cargo_metadata::CargoOpt::AllFeatures)
        .other_options(vec!["--locked".into()])
        .exec()
        .context("cargo metadata failed")?;
    let members = &metadata.workspace_members;
    let extract = |package: &cargo_metadata::Package| {
        let names = |wanted: fn(&Dependency) -> bool| {
            package.dependencies.iter().filter(|d| wanted(d)).map(|d| d.name.clone()).collect()
        };
        Package {
            name: package.name.to_string(),
            version: package.version.to_string(),
            member: members.contains(&package.id),
            licence: package.license.clone(),
            default_features: package.features.get("default").cloned().unwrap_or_default(),
            dependencies: names(|d| d.kind != DependencyKind::Development),
            under_schedules: names(|d| {
                let target = d.target.as_ref().map(ToString::to_string);
                d.kind != DependencyKind::Development && target.as_deref() == Some(SCHEDULES)
            }),
            dev_dependencies: names(|d| d.kind == DependencyKind::Development),
        }
    };
    Ok(metadata.packages.iter().map(extract).collect())
}
