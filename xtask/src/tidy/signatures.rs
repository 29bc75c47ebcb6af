//! Owns the rule that no public signature below the program names a type of a store's client.

use super::{Finding, Tree};

const RULE: &str = "signatures";
const CLIENT_PATHS: &[&str] = &["etcd_client", "rusqlite", "libsqlite3_sys", "redis::"];

/// Finds public items whose head, up to its body, names a client crate.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts(".rs").filter(|(path, _)| path.starts_with("crates/")) {
        let lines: Vec<&str> = text.lines().collect();
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| line.trim_start().starts_with("pub ")) {
            let head = head_of(&lines[at..]);
            for client in CLIENT_PATHS.iter().filter(|client| head.contains(**client)) {
                let message = format!("a public signature names `{client}`; wrap it in a type of ours");
                findings.push(Finding::new(RULE, format!("{path}:{}", at + 1), message));
            }
        }
    }
    findings
}

/// The text of an item from its first line to the brace or semicolon that ends its signature.
fn head_of(lines: &[&str]) -> String {
    let mut head = String::new();
    for line in lines {
        let end = line.find(['{', ';']);
        head.push_str(end.map_or(*line, |end| &line[..end]));
        head.push(' ');
        if end.is_some() {
            break;
        }
    }
    head
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::Tree;

    #[test]
    fn a_client_type_in_a_public_head_is_found_and_in_a_body_is_not() {
        let text = "pub fn a(\n    client: etcd_client::Client,\n) {\n}\npub fn b() {\n    etcd_client::Client::x();\n}\n\
                    pub(crate) fn c(x: rusqlite::Connection) {}\npub use rusqlite::Connection;\n";
        let root = tempfile::tempdir().unwrap();
        let found: Vec<_> = check(&Tree::fixture(root.path(), &[("crates/k/src/a.rs", text)]))
            .into_iter()
            .map(|finding| finding.place)
            .collect();
        assert_eq!(found, ["crates/k/src/a.rs:1", "crates/k/src/a.rs:9"]);
    }
}
