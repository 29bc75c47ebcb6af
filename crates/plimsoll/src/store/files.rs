//! Owns reading the files that a store's URL names.

use std::path::Path;

use ha_kv::Secret;

/// A file as text.
///
/// # Errors
/// One sentence that names the file and what it was to be.
pub(super) fn text(path: &Path, what: &str) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|e| format!("the {what} {} cannot be read ({e}); name a file that this user may read", path.display()))
}

/// A file as a secret, without a newline at its end.
///
/// # Errors
/// As [`text`].
pub(super) fn secret(path: &Path, what: &str) -> Result<Secret, String> {
    Ok(Secret::from(text(path, what)?.trim_end_matches(['\r', '\n'])))
}
