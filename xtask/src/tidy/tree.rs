//! Owns the text of the tree's files as the rules see it. It must not know a rule.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::workspace;

/// One file. `text` is `None` for a file that is not UTF-8, such as golden bytes.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: Option<String>,
}

/// The files of the tree, in order of their paths.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    files: Vec<File>,
}

impl Tree {
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for path in workspace::files(root)? {
            let bytes = std::fs::read(root.join(&path)).with_context(|| format!("cannot read {}", path.display()))?;
            files.push(File { path: path.to_string_lossy().into_owned(), text: String::from_utf8(bytes).ok() });
        }
        Ok(Self { root: root.to_path_buf(), files })
    }

    pub(crate) fn files(&self) -> &[File] {
        &self.files
    }

    /// Path and text of every file whose name ends so.
    pub(crate) fn texts<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let of_suffix = self.files.iter().filter(move |file| file.path.ends_with(suffix));
        of_suffix.filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
    }

    /// The text at exactly this path.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path)?.text.as_deref()
    }

    /// Whether the path names a file or folder of the checkout.
    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.root.join(path).exists()
    }

    /// A tree of a test: files written into `root`, which is kept by the caller.
    #[cfg(test)]
    pub(crate) fn fixture(root: &Path, files: &[(&str, &str)]) -> Self {
        let mut loaded = Vec::new();
        for (path, text) in files {
            let full = root.join(path);
            std::fs::create_dir_all(full.parent().expect("a file lies in a folder")).expect("a folder is made");
            std::fs::write(full, text).expect("a fixture is written");
            loaded.push(File { path: (*path).into(), text: Some((*text).into()) });
        }
        Self { root: root.to_path_buf(), files: loaded }
    }
}
