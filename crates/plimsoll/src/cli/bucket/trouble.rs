//! Owns why a command on a bucket directory did not do what it was asked: what, where, and what to do about it, for people and for programs.

use std::fmt;

use bucket_store::vfs::DirError;
use bucket_store::{ConfigError, StoreError};
use serde_json::{Map, Value, json};

/// One reason.
#[derive(Debug)]
pub(in crate::cli) struct Trouble {
    code: &'static str,
    what: String,
    place: String,
    remedy: String,
}

impl Trouble {
    /// `code` is stable; `remedy` tells somebody what to do.
    pub(in crate::cli) fn new(
        code: &'static str,
        place: impl Into<String>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { code, what: what.into(), place: place.into(), remedy: remedy.into() }
    }

    /// The same with more to do about it.
    pub(super) fn and(mut self, more: &str) -> Self {
        self.remedy.push_str("; ");
        self.remedy.push_str(more);
        self
    }

    /// The fields of a report that say it.
    pub(super) fn json(&self) -> Map<String, Value> {
        let Self { code, what, place, remedy } = self;
        let fields = [
            ("error", json!(self.to_string())),
            ("code", json!(code)),
            ("what", json!(what)),
            ("where", json!(place)),
            ("remedy", json!(remedy)),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

impl From<DirError> for Trouble {
    fn from(error: DirError) -> Self {
        Self::new(error.code(), error.path().to_string_lossy(), error.what(), error.remedy())
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::new(error.code(), error.place(), error.what(), error.remedy())
    }
}

impl From<ConfigError> for Trouble {
    fn from(error: ConfigError) -> Self {
        Self::new("CONFIG", error.field(), error.what(), error.remedy())
    }
}
