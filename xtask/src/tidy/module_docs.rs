//! Owns the rule that the first line of a source file says what it owns.

use super::{Finding, Tree};

const RULE: &str = "module-docs";
const MIN_WORDS: usize = 4;

/// Finds source files whose first line is no `//!` sentence.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let judged = tree.texts(".rs").filter_map(|(path, text)| {
        let first = text.lines().next().unwrap_or_default();
        let message = match first.strip_prefix("//! ") {
            None => "its first line must be `//!` and say what the file owns",
            Some(said) if said.split_whitespace().count() < MIN_WORDS => "its first line must say what the file owns",
            Some(_) => return None,
        };
        Some(Finding::new(RULE, path, message))
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::Tree;

    #[test]
    fn a_file_that_does_not_say_what_it_owns_is_found() {
        let root = tempfile::tempdir().unwrap();
        let files = [
            ("good.rs", "//! Owns the answer to everything.\n"),
            ("late.rs", "use std::fmt;\n//! Owns the answer to everything.\n"),
            ("empty.rs", ""),
            ("mute.rs", "//! .\n"),
            ("text.md", "no source\n"),
        ];
        let found: Vec<_> = check(&Tree::fixture(root.path(), &files)).into_iter().map(|f| f.place).collect();
        assert_eq!(found, ["late.rs", "empty.rs", "mute.rs"]);
    }
}
