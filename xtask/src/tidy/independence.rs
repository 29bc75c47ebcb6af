//! Owns the rule that the demo's judge shares nothing with what it judges: no decoder, type or rule of the server.

use super::{Finding, Tree};

const FOLDER: &str = "crates/plimsoll/src/demo/judge";
const SERVER: &[&str] =
    &["oplog_core", "master", "standby", "ha_types", "crc32c::", "crc_fast", "postcard", "zstd::", "crate::inspect"];

/// Finds a path of the server's crates in the judge. Its tests may name them, to compare.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_test = |path: &str| path.ends_with("/tests.rs") || path.contains("/tests/");
    let judged = tree.texts(".rs").filter(|(path, _)| path.starts_with(FOLDER) && !is_test(path));
    for (path, text) in judged {
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for used in SERVER.iter().filter(|used| names(line, used)) {
                let message = format!("the judge must not use `{used}`; it knows the published format only");
                findings.push(Finding::new("independence", format!("{path}:{}", number + 1), message));
            }
        }
    }
    findings
}

/// Whether the line has the path as a whole word.
fn names(line: &str, path: &str) -> bool {
    let of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(of_word);
        let after = line[at + path.len()..].starts_with("::") || path.contains("::");
        !before && after
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::Tree;

    #[test]
    fn a_judge_that_uses_the_servers_decoder_is_found() {
        let text = "use oplog_core::record::BatchRef;\nlet sum = crc32c::crc32c(x);\n// like oplog_core::record\nlet own_master = 1;\nsuper::crc::crc32c(x)\n";
        let files = [
            ("crates/plimsoll/src/demo/judge/log.rs", text),
            ("crates/plimsoll/src/demo/judge/tests.rs", text),
            ("crates/plimsoll/src/demo/judge/tests/any_bytes.rs", text),
            ("crates/plimsoll/src/demo/report.rs", text),
        ];
        let root = tempfile::tempdir().unwrap();
        let found: Vec<_> = check(&Tree::fixture(root.path(), &files)).into_iter().map(|f| f.place).collect();
        assert_eq!(found, ["crates/plimsoll/src/demo/judge/log.rs:1", "crates/plimsoll/src/demo/judge/log.rs:2"]);
    }
}
