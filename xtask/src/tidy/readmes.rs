//! Owns the rule that every crate explains itself, and that a library's explanation is run as a test.

use super::{Finding, Tree};

const RULE: &str = "readmes";

/// Finds crates without a README, and libraries whose README has no example or is not part of the tested docs.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let manifests = tree.texts("Cargo.toml").filter_map(|(path, _)| path.strip_suffix("/Cargo.toml"));
    for folder in manifests.filter(|folder| folder.starts_with("crates/")) {
        let place = format!("{folder}/README.md");
        let Some(readme) = tree.text(&place) else {
            findings.push(Finding::new(RULE, place, "is missing; say what the crate is for, with an example"));
            continue;
        };
        let Some(lib) = tree.text(&format!("{folder}/src/lib.rs")) else { continue };
        if !readme.contains("```rust") {
            findings.push(Finding::new(RULE, &place, "has no ```rust example"));
        }
        if !lib.contains("include_str!(\"../README.md\")") {
            let message = "must include README.md in its docs, so that the example is compiled";
            findings.push(Finding::new(RULE, format!("{folder}/src/lib.rs"), message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::{Finding, Tree};

    const MANIFEST: (&str, &str) = ("crates/a/Cargo.toml", "");

    fn found(files: &[(&str, &str)]) -> Vec<Finding> {
        let root = tempfile::tempdir().unwrap();
        check(&Tree::fixture(root.path(), files))
    }

    #[test]
    fn a_crate_without_a_readme_is_found() {
        assert!(found(&[MANIFEST])[0].message.contains("is missing"));
    }

    #[test]
    fn a_library_must_run_its_example() {
        let lib = ("crates/a/src/lib.rs", "#![doc = include_str!(\"../README.md\")]");
        assert_eq!(found(&[MANIFEST, lib, ("crates/a/README.md", "```rust\n```")]), []);
        assert!(found(&[MANIFEST, lib, ("crates/a/README.md", "words")])[0].message.contains("no ```rust example"));
        let mute = ("crates/a/src/lib.rs", "//! Nothing of the kind.");
        assert!(found(&[MANIFEST, mute, ("crates/a/README.md", "```rust\n```")])[0].message.contains("must include"));
    }

    #[test]
    fn a_program_needs_no_rust_example() {
        let main = ("crates/a/src/main.rs", "");
        assert_eq!(found(&[MANIFEST, main, ("crates/a/README.md", "words")]), []);
    }
}
