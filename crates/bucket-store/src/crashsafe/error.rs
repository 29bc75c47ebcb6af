//! Owns what is known after a replacement or a removal failed.

use std::fmt;
use std::io;

/// A step of [`super::publish`] or [`super::remove`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A new temporary file was created.
    Create,
    /// The bytes were written to it.
    Write,
    /// The temporary file's content was made durable.
    SyncData,
    /// The temporary file took the place of the old one.
    Rename,
    /// A name was taken away.
    Unlink,
    /// The change of names was made durable.
    SyncDir,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "creating the temporary file",
            Self::Write => "writing the temporary file",
            Self::SyncData => "syncing the temporary file",
            Self::Rename => "renaming the temporary file",
            Self::Unlink => "unlinking",
            Self::SyncDir => "syncing the directory",
        })
    }
}

/// A file was not replaced, or it is not known whether it was.
#[derive(Debug, thiserror::Error)]
#[error("{name} was not published: {step} failed: {source}; {}", self.remedy())]
pub struct PublishError {
    /// The file that was to be replaced.
    pub name: String,
    /// The step that failed.
    pub step: Step,
    /// What the system said.
    pub source: io::Error,
}

impl PublishError {
    /// Whether the new bytes may be in place now or after a restart. `false`: the old file stays, whatever happens.
    #[must_use]
    pub fn may_be_in_place(&self) -> bool {
        matches!(self.step, Step::Rename | Step::SyncDir)
    }

    fn remedy(&self) -> &'static str {
        if self.is_no_space() {
            "free some room and publish it again from the start"
        } else {
            "publish it again from the start; until that succeeds the old or the new one may be there"
        }
    }

    /// Whether the disk was full, so that freeing room and publishing again can help.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        is_no_space(&self.source)
    }
}

/// Names were not taken away for certain. Those that are gone may come back after a restart.
#[derive(Debug, thiserror::Error)]
#[error("{name} was not removed for certain: {step} failed: {source}; remove it again as a repeated attempt")]
pub struct RemoveError {
    /// The file at which it failed; the last one where all were unlinked and the directory's sync failed.
    pub name: String,
    /// The step that failed.
    pub step: Step,
    /// What the system said.
    pub source: io::Error,
}

fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{PublishError, RemoveError, Step};

    #[test]
    fn every_failure_names_the_file_the_step_and_what_to_do() {
        let steps = [Step::Create, Step::Write, Step::SyncData, Step::Rename, Step::Unlink, Step::SyncDir];
        for step in steps {
            let (name, source) = ("7.meta".to_owned(), || io::Error::other("EIO"));
            let published = PublishError { name: name.clone(), step, source: source() }.to_string();
            let removed = RemoveError { name, step, source: source() }.to_string();
            for (text, remedy) in [(published, "; publish it again"), (removed, "; remove it again")] {
                assert!(text.starts_with("7.meta was not "), "{text}");
                assert!(text.contains(&format!("{step} failed: EIO")) && text.contains(remedy), "{text}");
            }
        }
        let full = PublishError { name: "7.meta".into(), step: Step::Write, source: io::ErrorKind::StorageFull.into() };
        assert!(full.to_string().contains("free some room"), "{full}");
    }
}
