//! Owns the rule that a crate brings in nothing unless asked: default features are empty in all crates of ours.

use super::{Finding, Package};

/// Finds members whose feature `default` turns something on.
pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let loaded = packages.iter().filter(|p| p.member && p.name != "plimsoll" && !p.default_features.is_empty());
    loaded
        .map(|p| {
            let message = format!("default features must be empty, found {:?}", p.default_features);
            Finding::new("default-features", &p.name, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::Package;

    #[test]
    fn a_default_feature_below_the_program_is_found() {
        let package = |name: &str, member, features: &[&str]| Package {
            name: name.into(),
            member,
            default_features: features.iter().map(|f| (*f).into()).collect(),
            ..Package::default()
        };
        let packages = [
            package("ha-kv", true, &["etcd"]),
            package("ha-types", true, &[]),
            package("plimsoll", true, &["sqlite"]),
            package("serde", false, &["std"]),
        ];
        let found = check(&packages);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "ha-kv");
    }
}
