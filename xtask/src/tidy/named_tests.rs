//! Owns the rule that the tables of invariants and failures and the tests agree: what a table names is a test, named once a
//! section, and a test that is named after a row or an invariant stands in a table. What the RFCs' coverage names is a test, too.

use std::collections::BTreeSet;

use super::{Finding, Tree};

const RULE: &str = "named tests";

/// The documents whose `path::test` spans are promises.
const TABLES: &[&str] =
    &["docs/failures.md", "docs/failures-bucket-store.md", "docs/invariants.md", "docs/invariants-bucket-store.md"];

/// A document that names tests as evidence of other lines: one test may stand for many of them, and has its own place elsewhere.
const EVIDENCE: &str = "docs/rfc-coverage.md";

/// Finds tests that a document names and that are none, and tests that no table names.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut named = BTreeSet::new();
    for table in TABLES.iter().copied().chain([EVIDENCE]) {
        let Some(text) = tree.text(table) else { continue };
        let mut section = BTreeSet::new();
        for (number, line) in text.lines().enumerate() {
            if line.starts_with('#') {
                section.clear();
            }
            for (file, name) in tests_named(line) {
                let name = name.rsplit("::").next().unwrap_or(name);
                let mut find = |message: String| {
                    findings.push(Finding::new(RULE, format!("{table}:{}", number + 1), message));
                };
                if !tree.text(file).is_some_and(|text| has_test(text, name)) {
                    find(format!("`{file}` has no test `{name}`"));
                }
                if table == EVIDENCE {
                    continue;
                }
                if !section.insert((file, name)) {
                    find(format!("`{file}::{name}` stands here twice"));
                }
                named.insert((file, name));
            }
        }
    }
    for (path, text) in tree.texts(".rs") {
        let lost = tests_of(text).filter(|(_, name)| is_numbered(name) && !named.contains(&(path, *name)));
        for (line, name) in lost {
            let message = format!("`{path}::{name}` is named after a row and stands in none of {}", TABLES.join(", "));
            findings.push(Finding::new(RULE, format!("{path}:{line}"), message));
        }
    }
    findings
}

/// The files and tests that a line of a document names: `path::test` in a span, or a span `test` that is a link to the path.
fn tests_named(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let spans = line.split('`').skip(1).step_by(2).filter_map(|span| span.split_once("::"));
    let links = line.split("[`").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once("`](../")?;
        let (file, _) = rest.split_once(')')?;
        Some((file, name))
    });
    spans.chain(links)
}

/// Whether the file has the test, or a macro that makes tests and a line `name: …` for it.
fn has_test(text: &str, name: &str) -> bool {
    let made = |line: &str| line.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
    tests_of(text).any(|(_, test)| test == name) || (text.contains("$(#[test]") && text.lines().any(made))
}

/// The functions under a test attribute, with their lines.
fn tests_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut attributed = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let line = line.trim_start();
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            attributed = true;
        }
        let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
        let name = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
        std::mem::take(&mut attributed).then_some((number + 1, name))
    })
}

/// `w3_…`, `l10_…`: a letter of a table, a number, and more.
fn is_numbered(name: &str) -> bool {
    let Some((id, _)) = name.split_once('_') else { return false };
    let number = id.trim_start_matches(['b', 'd', 'l', 'm', 'r', 's', 'v', 'w']);
    number.len() + 1 == id.len() && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::Tree;

    fn found(table: &str, source: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::fixture(root.path(), &[("docs/failures.md", table), ("a/t.rs", source)]);
        check(&tree).iter().map(|f| format!("{}: {}", f.place, f.message)).collect()
    }

    const TESTS: &str = "#[tokio::test(start_paused = true)]\n#[cfg(unix)]\nasync fn w3_paused() {}\n\n    #[test]\n    fn plain() {}\n\
                         fn w4_no_test() {}\n";

    #[test]
    fn tables_and_tests_that_agree_pass() {
        let table = "# W3\n* `a/t.rs::w3_paused`\n# W4\n* `a/t.rs::w3_paused`, `a/t.rs::tests::plain`\n";
        assert_eq!(found(table, TESTS), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_test_and_what_stands_twice_is_found() {
        let table = "`a/t.rs::w3_paused`\n`a/t.rs::w4_no_test`\n`a/t.rs::w3_paused`\n`b.rs::gone`\n";
        assert_eq!(
            found(table, TESTS),
            [
                "docs/failures.md:2: `a/t.rs` has no test `w4_no_test`",
                "docs/failures.md:3: `a/t.rs::w3_paused` stands here twice",
                "docs/failures.md:4: `b.rs` has no test `gone`",
            ]
        );
    }

    #[test]
    fn evidence_names_tests_as_often_as_it_likes_and_is_no_place_of_their_own() {
        let root = tempfile::tempdir().unwrap();
        let evidence = "[`w3_paused`](../a/t.rs), [`w3_paused`](../a/t.rs)\n[a](../a/t.rs) [`gone`](../a/t.rs)\n";
        let tree = Tree::fixture(root.path(), &[(super::EVIDENCE, evidence), ("a/t.rs", TESTS)]);
        let found: Vec<_> = check(&tree).iter().map(|f| format!("{}: {}", f.place, f.message)).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], "docs/rfc-coverage.md:2: `a/t.rs` has no test `gone`");
        assert!(found[1].contains("w3_paused` is named after a row and stands in none of"), "{found:?}");
    }

    #[test]
    fn tests_that_a_macro_makes_are_tests() {
        let source =
            "macro_rules! m {\n ($($n:ident: $x:expr;)*) => { $(#[test]\n fn $n() {})* };\n}\nm! {\n w11_a: 1;\n}\n";
        assert_eq!(found("`a/t.rs::w11_a`\n", source), Vec::<String>::new());
        assert_eq!(found("`a/t.rs::w11_a`\n", "w11_a: 1;\n").len(), 1);
    }

    #[test]
    fn a_test_named_after_a_row_that_no_table_names_is_found() {
        let found = found("nothing\n", TESTS);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a/t.rs:3: `a/t.rs::w3_paused`"), "{found:?}");
    }
}
