//! Owns the reading of `deny.toml` where `cargo deny` is not at hand: allowed licences and banned packages, offline.

use serde::Deserialize;

use super::{Finding, Package, Tree};

const RULE: &str = "licences";
const PATH: &str = "deny.toml";

#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    package: String,
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    #[serde(default)]
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    package: String,
    reason: String,
}

/// Finds packages under a licence that is not allowed, without one, or banned.
pub(super) fn check(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    let deny: Deny = match tree.text(PATH).map(toml::from_str) {
        Some(Ok(deny)) => deny,
        Some(Err(error)) => return vec![Finding::new(RULE, PATH, format!("does not parse: {error}"))],
        None => return vec![Finding::new(RULE, PATH, "is missing")],
    };
    let mut findings = Vec::new();
    for package in packages {
        let place = format!("{} {}", package.name, package.version);
        if let Some(ban) = deny.bans.deny.iter().find(|ban| ban.package == package.name) {
            findings.push(Finding::new(RULE, &place, format!("is banned: {}", ban.reason)));
        }
        if let Some(message) = refusal(&deny.licenses, package) {
            findings.push(Finding::new(RULE, place, message));
        }
    }
    findings
}

fn refusal(licenses: &Licenses, package: &Package) -> Option<String> {
    let Some(text) = &package.licence else {
        return Some("names no licence".into());
    };
    let expression = match spdx::Expression::parse_mode(text, spdx::ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => return Some(format!("its licence {text:?} is no SPDX expression: {}", error.reason)),
    };
    let excepted = licenses.exceptions.iter().filter(|e| e.package == package.name).flat_map(|e| &e.allow);
    let allowed: Vec<&String> = licenses.allow.iter().chain(excepted).collect();
    let fits = expression.evaluate(|required| allowed.iter().any(|a| **a == required.to_string()));
    (!fits).then(|| format!("its licence {text:?} is not allowed by {PATH}"))
}

#[cfg(test)]
mod tests {
    use super::{PATH, check};
    use crate::tidy::{Package, Tree};

    const DENY: &str = "[licenses]\nallow = [\"MIT\", \"Apache-2.0\"]\n\
                        exceptions = [{ crate = \"odd\", allow = [\"ISC\"] }]\n\
                        [bans]\ndeny = [{ crate = \"openssl\", reason = \"use rustls\" }]\n";

    fn found(name: &str, licence: Option<&str>) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let package = Package {
            name: name.into(),
            version: "1.0.0".into(),
            licence: licence.map(Into::into),
            ..Package::default()
        };
        let tree = Tree::fixture(root.path(), &[(PATH, DENY)]);
        check(&tree, &[package]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_allowed_alternative_is_enough_and_every_conjunct_is_needed() {
        assert_eq!(found("a", Some("MIT OR GPL-3.0-only")), Vec::<String>::new());
        assert_eq!(found("a", Some("MIT/Apache-2.0")), Vec::<String>::new());
        assert_eq!(found("a", Some("MIT AND GPL-3.0-only")).len(), 1);
        assert_eq!(found("a", Some("GPL-3.0-only")).len(), 1);
    }

    #[test]
    fn an_exception_holds_for_its_package_only() {
        assert_eq!(found("odd", Some("ISC")), Vec::<String>::new());
        assert_eq!(found("other", Some("ISC")).len(), 1);
    }

    #[test]
    fn no_licence_nonsense_and_a_ban_are_found() {
        assert!(found("a", None)[0].contains("names no licence"));
        assert!(found("a", Some("what I like"))[0].contains("no SPDX expression"));
        assert!(found("openssl", Some("Apache-2.0"))[0].contains("is banned: use rustls"));
    }

    #[test]
    fn a_missing_or_broken_file_is_found() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(check(&Tree::fixture(root.path(), &[]), &[]).len(), 1);
        assert_eq!(check(&Tree::fixture(root.path(), &[(PATH, "licenses = 1")]), &[]).len(), 1);
    }
}
