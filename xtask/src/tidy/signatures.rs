//! Owns the rule that no public signature below the program names a type of a store's client, or of what packs its bytes.

use std::collections::BTreeSet;

use super::{Finding, Tree};

const RULE: &str = "signatures";
/// A module of ours that is named as a client's crate is.
const OUR_MODULE: &str = "backend::redis::";
const CLIENT_PATHS: &[&str] =
    &["etcd_client", "rusqlite", "libsqlite3_sys", "redis::", "tokio_rustls", "zstd::", "zstd_safe"];
/// What opens an item whose inner lines are public without the word.
const WHOLE_ITEMS: &[&str] = &["pub trait ", "pub enum "];

/// Finds public items, variants, methods of public traits and trait implementations that name a client crate, or a type that the
/// file imports from one.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts(".rs").filter(|(path, _)| path.starts_with("crates/")) {
        let lines: Vec<&str> = text.lines().collect();
        let imported = imported(&lines);
        for (at, line) in lines.iter().enumerate() {
            let Some(public) = public_text(line, &lines[at..]) else { continue };
            let public = public.replace(OUR_MODULE, "");
            let clients = CLIENT_PATHS.iter().copied().filter(|client| public.contains(client));
            let types = imported.iter().copied().filter(|name| words(&public).any(|word| word == *name));
            for named in clients.chain(types) {
                let message = format!("a public signature names `{named}`; wrap it in a type of ours");
                findings.push(Finding::new(RULE, format!("{path}:{}", at + 1), message));
            }
        }
    }
    findings
}

/// What is public of the item that this line begins, if one begins here.
fn public_text(line: &str, rest: &[&str]) -> Option<String> {
    let start = line.trim_start();
    if WHOLE_ITEMS.iter().any(|item| start.starts_with(item)) {
        let end = format!("{}}}", &line[..line.len() - start.len()]);
        let last = rest.iter().position(|line| *line == end).unwrap_or(0);
        let code = rest.iter().take(last + 1).filter(|line| !line.trim_start().starts_with("//"));
        return Some(code.copied().collect::<Vec<_>>().join(" "));
    }
    if start.starts_with("pub ") {
        return Some(head_of(rest));
    }
    // A trait implemented for a store or its error, with a client's type, is part of their public interface. All that forks know of
    // a store has `Kv` in its name.
    let head = start.starts_with("impl").then(|| head_of(rest))?;
    let of_a_store = head.split_once(" for ").is_some_and(|(_, of)| words(of).any(|name| name.contains("Kv")));
    of_a_store.then_some(head)
}

/// The names of types that the file imports from a client's crate.
fn imported<'a>(lines: &[&'a str]) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(path) = line.trim_start().strip_prefix("use ") else { continue };
        if !CLIENT_PATHS.iter().any(|client| path.starts_with(client)) {
            continue;
        }
        let last = lines[at..].iter().position(|line| line.contains(';')).unwrap_or(0);
        let of_lines = lines[at..=at + last].iter().flat_map(|line| words(line));
        names.extend(of_lines.filter(|name| name.starts_with(char::is_uppercase)));
    }
    names
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
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

    fn found(text: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::fixture(root.path(), &[("crates/k/src/a.rs", text)]);
        check(&tree).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn a_client_type_in_a_public_head_is_found_and_in_a_body_is_not() {
        let text = "pub fn a(\n    client: etcd_client::Client,\n) {\n}\npub fn b() {\n    etcd_client::Client::x();\n}\n\
                    pub(crate) fn c(x: rusqlite::Connection) {}\npub use rusqlite::Connection;\n\
                    pub use backend::redis::RedisKv;\npub use redis::Client;\npub fn d(x: zstd::Encoder) {}\n";
        assert_eq!(found(text), [1, 9, 11, 12].map(|line| format!("crates/k/src/a.rs:{line}")));
    }

    #[test]
    fn an_imported_client_type_is_found_by_its_own_name() {
        let text = "use redis::{\n    Client as Server, Value,\n};\nuse other::Code;\npub fn a(x: Server) {}\n\
                    pub fn b(x: Valued) -> Code {}\nfn c(x: Value) {}\n";
        assert_eq!(found(text), ["crates/k/src/a.rs:5"]);
    }

    #[test]
    fn variants_trait_methods_and_conversions_are_public_too() {
        let text = "pub enum E {\n    /// Of rusqlite\n    Sqlite(rusqlite::Error),\n}\nenum P {\n    Sqlite(rusqlite::Error),\n}\n\
                    pub trait T {\n    fn f(&self, x: redis::Cmd);\n}\nimpl From<redis::RedisError> for KvError {\n}\n\
                    impl From<redis::RedisError> for Private {\n}\n";
        assert_eq!(found(text), [1, 8, 11].map(|line| format!("crates/k/src/a.rs:{line}")));
    }

    #[test]
    fn words_about_a_client_are_no_signature() {
        assert_eq!(found("pub trait T {\n    /// As redis::Cmd has it.\n    fn f(&self);\n}\n"), Vec::<String>::new());
    }
}
