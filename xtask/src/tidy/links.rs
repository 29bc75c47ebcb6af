//! Owns the rule that documents point at things that exist: links, headings, paths and tests named in code spans.

use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::{Finding, Tree};

const RULE: &str = "links";

/// Folders whose paths, in code spans and comments, are promises.
const FOLDERS: &[&str] = &["crates/", "docs/", "tests/", "xtask/", ".ci/", ".cargo/"];

/// Finds pointers to nothing in documents, and in comments of sources to documents.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts(".md") {
        check_document(tree, path, text, &mut findings);
    }
    for (path, text) in tree.texts(".rs") {
        let comments = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//"));
        for (number, line) in comments {
            for span in line.split('`').skip(1).step_by(2).filter(|span| span.starts_with("docs/")) {
                check_span(tree, &format!("{path}:{}", number + 1), span, &mut findings);
            }
        }
    }
    findings
}

fn check_document(tree: &Tree, path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (event, range) in Parser::new(text).into_offset_iter() {
        let place = || format!("{path}:{}", text[..range.start].matches('\n').count() + 1);
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                if let Some(message) = broken_link(tree, path, text, &dest_url) {
                    findings.push(Finding::new(RULE, place(), message));
                }
            }
            Event::Code(span) => check_span(tree, &place(), &span, findings),
            _ => {}
        }
    }
}

fn broken_link(tree: &Tree, path: &str, text: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading)));
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let Some(full) = normalized(&folder.join(file)) else {
        return Some(format!("the link `{target}` leaves the repository"));
    };
    if !file.is_empty() && !tree.exists(&full) {
        return Some(format!("the link `{target}` points at nothing"));
    }
    let heading = heading?;
    let other = if file.is_empty() { Some(text) } else { tree.text(&full.to_string_lossy()) };
    let known = other.is_some_and(|text| slugs(text).iter().any(|slug| slug == heading));
    (!known).then(|| format!("the link `{target}` names a heading that is not there"))
}

/// A code span that is a path, with `::name` behind it if it names a test or another item of that file.
fn check_span(tree: &Tree, place: &str, span: &str, findings: &mut Vec<Finding>) {
    let ours = FOLDERS.iter().any(|folder| span.starts_with(folder));
    if !ours || span.contains([' ', '*', '<', '{', '…']) {
        return;
    }
    let (file, item) = span.split_once("::").map_or((span, None), |(file, item)| (file, Some(item)));
    if !tree.exists(Path::new(file)) {
        findings.push(Finding::new(RULE, place, format!("`{file}` does not exist")));
        return;
    }
    let Some(item) = item.and_then(|item| item.rsplit("::").next()) else { return };
    let known = tree.text(file).is_some_and(|text| has_word(text, item));
    if !known {
        findings.push(Finding::new(RULE, place, format!("`{file}` has no `{item}`")));
    }
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|found| found == word)
}

/// The path without `.` and `..`; `None` if it climbs out of the tree.
fn normalized(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !clean.pop() {
                    return None;
                }
            }
            Component::Normal(name) => clean.push(name),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(clean)
}

/// The anchors of a document's headings, as hosts of repositories make them.
fn slugs(text: &str) -> Vec<String> {
    let mut slugs = Vec::new();
    let mut heading: Option<String> = None;
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => slugs.extend(heading.take().map(|words| slug(&words))),
            Event::Text(words) | Event::Code(words) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&words);
                }
            }
            _ => {}
        }
    }
    slugs
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::Tree;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        check(&Tree::fixture(root.path(), files)).iter().map(|f| format!("{}: {}", f.place, f.message)).collect()
    }

    #[test]
    fn what_exists_passes() {
        let readme = "# A title: `x` & y\n[self](#a-title-x--y) [doc](docs/a.md#part) [web](https://example.org/x)\n\
                      `docs/a.md` `docs/<name>.md` `tests/t.rs::mod_a::works` `crates` `not/ours.rs`\n";
        let files = [
            ("README.md", readme),
            ("docs/a.md", "# Part\n[up](../README.md)\n"),
            ("tests/t.rs", "// see `docs/a.md`\nfn works() {}\n"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn a_link_to_nothing_is_found_with_its_line() {
        let found = found(&[("docs/a.md", "fine\n\n[x](b.md)\n[y](../../out.md)\n[z](#nowhere)\n")]);
        assert_eq!(
            found,
            [
                "docs/a.md:3: the link `b.md` points at nothing",
                "docs/a.md:4: the link `../../out.md` leaves the repository",
                "docs/a.md:5: the link `#nowhere` names a heading that is not there",
            ]
        );
    }

    #[test]
    fn a_path_or_a_test_that_is_gone_is_found() {
        let files = [("a.md", "`docs/b.md`\n`tests/t.rs::gone`\n"), ("tests/t.rs", "fn going() {} // `docs/c.md`\n")];
        assert_eq!(found(&files), ["a.md:1: `docs/b.md` does not exist", "a.md:2: `tests/t.rs` has no `gone`"]);
        assert_eq!(found(&[("a.rs", "// `docs/c.md`\n")]), ["a.rs:1: `docs/c.md` does not exist"]);
    }
}
