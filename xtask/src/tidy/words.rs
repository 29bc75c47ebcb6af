//! Owns the rule that nothing unfinished lands: markers and macros that mean "later" are refused.

use super::{Finding, Tree};

/// Found in any text. Spelled in two halves, so that this file passes its own rule.
const ANYWHERE: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("<<<<", "<<<"),
    concat!(">>>>", ">>>"),
    concat!("Lorem", " ipsum"),
];

/// Found in source only.
const IN_SOURCE: &[&str] =
    &[concat!("to", "do!("), concat!("unimple", "mented!("), concat!("db", "g!("), concat!("#[ign", "ore")];

/// Finds forbidden words, with their lines.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts("").filter(|(path, _)| *path != "LICENSE") {
        let source: &[&str] = if path.ends_with(".rs") { IN_SOURCE } else { &[] };
        for (number, line) in text.lines().enumerate() {
            for word in ANYWHERE.iter().chain(source).filter(|word| line.contains(**word)) {
                let place = format!("{path}:{}", number + 1);
                findings.push(Finding::new(
                    "words",
                    place,
                    format!("`{word}` must not land; finish it or leave it out"),
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{ANYWHERE, IN_SOURCE, check};
    use crate::tidy::Tree;

    #[test]
    fn each_word_is_found_with_its_line() {
        for word in ANYWHERE.iter().chain(IN_SOURCE) {
            let root = tempfile::tempdir().unwrap();
            let found = check(&Tree::fixture(root.path(), &[("a.rs", &format!("fine\n    {word} x\n"))]));
            assert_eq!(found.len(), 1, "{word}");
            assert_eq!(found[0].place, "a.rs:2");
        }
    }

    #[test]
    fn macros_may_be_spoken_of_in_documents() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(check(&Tree::fixture(root.path(), &[("a.md", &format!("no `{}`", IN_SOURCE[0]))])), []);
    }
}
