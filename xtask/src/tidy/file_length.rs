//! Owns the rule that no file of ours grows past what one can read: 600 lines at most, 300 aimed at.

use super::{Finding, Tree};

const MAX_LINES: usize = 600;

/// Finds files that are too long. Written by machines or by lawyers is exempt.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let counted = tree.texts("").filter(|(path, _)| *path != "LICENSE" && !is_lock_file(path));
    let long = counted.map(|(path, text)| (path, text.lines().count())).filter(|(_, lines)| *lines > MAX_LINES);
    long.map(|(path, lines)| {
        Finding::new("file-length", path, format!("has {lines} lines; split it, at most {MAX_LINES} are allowed"))
    })
    .collect()
}

/// Of any workspace of the tree.
fn is_lock_file(path: &str) -> bool {
    path.rsplit('/').next() == Some("Cargo.lock")
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::Tree;

    #[test]
    fn the_first_line_too_many_is_found() {
        let root = tempfile::tempdir().unwrap();
        let (fits, long) = ("x\n".repeat(600), "x\n".repeat(601));
        let texts = [("a.rs", &fits), ("b.md", &long), ("Cargo.lock", &long), ("other/Cargo.lock", &long)];
        let tree = Tree::fixture(root.path(), &texts.map(|(path, text)| (path, text.as_str())));
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "b.md");
    }
}
