//! Owns `cargo xtask tidy`: the rules of the house that no other tool knows, one file each. A rule must not print or
//! stop; it returns what it found.

mod default_features;
mod file_length;
mod independence;
mod layers;
mod licences;
mod links;
mod module_docs;
mod named_tests;
mod package;
mod readmes;
mod signatures;
mod toolchain;
mod tree;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::Result;

pub(crate) use package::Package;
pub(crate) use tree::Tree;

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    rule: &'static str,
    place: String,
    message: String,
}

impl Finding {
    fn new(rule: &'static str, place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { rule, place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.place, self.message, self.rule)
    }
}

/// The names of our packages.
pub(crate) fn members(root: &Path) -> Result<Vec<String>> {
    Ok(package::load(root)?.into_iter().filter(|p| p.member).map(|p| p.name).collect())
}

/// Checks everything and prints what breaks a rule.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let tree = Tree::load(root)?;
    let packages = package::load(root)?;
    let mut findings = Vec::new();
    let rules: [fn(&Tree) -> Vec<Finding>; 9] = [
        module_docs::check,
        file_length::check,
        links::check,
        named_tests::check,
        words::check,
        readmes::check,
        signatures::check,
        toolchain::check,
        independence::check,
    ];
    for rule in rules {
        findings.extend(rule(&tree));
    }
    findings.extend(layers::check(&packages));
    findings.extend(default_features::check(&packages));
    findings.extend(licences::check(&tree, &packages));
    findings.sort_by(|a, b| (&a.place, &a.message).cmp(&(&b.place, &b.message)));
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} packages, {} findings", tree.files().len(), packages.len(), findings.len());
    Ok(findings.is_empty())
}
