//! Owns the rule that everybody builds with one compiler, named to the last digit.

use super::{Finding, Tree};

const RULE: &str = "toolchain";
const PATH: &str = "rust-toolchain.toml";
const CHANNEL: &str = "1.95.0";
const COMPONENTS: &[&str] = &["clippy", "rustfmt"];

/// Finds a toolchain file that is missing, loose or without a component that `ci` needs.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(PATH) else {
        return vec![Finding::new(RULE, PATH, "is missing")];
    };
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return vec![Finding::new(RULE, PATH, format!("does not parse: {error}"))],
    };
    let toolchain = table.get("toolchain");
    let mut findings = Vec::new();
    let channel = toolchain.and_then(|t| t.get("channel")).and_then(toml::Value::as_str);
    if channel != Some(CHANNEL) {
        findings.push(Finding::new(RULE, PATH, format!("the channel must be {CHANNEL:?}, found {channel:?}")));
    }
    let components = toolchain.and_then(|t| t.get("components")).and_then(toml::Value::as_array);
    for wanted in COMPONENTS {
        if !components.is_some_and(|found| found.iter().any(|c| c.as_str() == Some(wanted))) {
            findings.push(Finding::new(RULE, PATH, format!("the component {wanted:?} is missing")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{PATH, check};
    use crate::tidy::{Finding, Tree};

    fn found(text: &str) -> Vec<Finding> {
        let root = tempfile::tempdir().unwrap();
        check(&Tree::fixture(root.path(), &[(PATH, text)]))
    }

    #[test]
    fn only_the_exact_channel_with_both_components_passes() {
        assert_eq!(found("[toolchain]\nchannel = \"1.95.0\"\ncomponents = [\"clippy\", \"rustfmt\"]\n"), []);
        assert_eq!(found("[toolchain]\nchannel = \"1.95\"\ncomponents = [\"clippy\", \"rustfmt\"]\n").len(), 1);
        assert_eq!(found("[toolchain]\nchannel = \"1.95.0\"\ncomponents = [\"clippy\"]\n").len(), 1);
        assert_eq!(found("no toml at all").len(), 1);
        let root = tempfile::tempdir().unwrap();
        assert_eq!(check(&Tree::fixture(root.path(), &[])).len(), 1);
    }
}
