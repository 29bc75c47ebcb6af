//! Owns how a test says that its server is missing. It never lets the absence pass as a success where that matters.

use std::io::Write as _;

/// Says that `test` cannot run because `server` is not installed: a line `SKIPPED server: test` on standard output, past the
/// capture of the test harness, and one in the file that `PLIMSOLL_SKIP_FILE` names.
///
/// # Panics
/// With `CI=true`, where a missing server is a failure, and if the file cannot be written.
pub fn missing(server: &str, test: &str) {
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "{test} needs {server}, and with CI=true a missing server is a failure; run `cargo xtask servers`"
    );
    // The harness may be in the middle of a line of its own.
    let line = format!("\nSKIPPED {server}: {test}\n");
    std::io::stdout().write_all(line.as_bytes()).expect("standard output takes a line");
    if let Some(path) = std::env::var_os("PLIMSOLL_SKIP_FILE") {
        let mut file =
            std::fs::OpenOptions::new().create(true).append(true).open(path).expect("PLIMSOLL_SKIP_FILE opens");
        writeln!(file, "SKIPPED {server}: {test}").expect("PLIMSOLL_SKIP_FILE takes a line");
    }
}
