//! Owns the progress bar of the long commands. It is drawn on standard error, only where that is a terminal, and never beside
//! JSON: a program that reads one of the two wants no escape codes in the other.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that looks as `template` says, or none beside JSON.
pub(super) fn bar(template: &str, json: bool) -> ProgressBar {
    let bar = if json { ProgressBar::hidden() } else { ProgressBar::no_length() };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
