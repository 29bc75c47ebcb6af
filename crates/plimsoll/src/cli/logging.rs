//! Owns where log lines go: standard error, as text or as JSON.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// The shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Begins logging. Without a filter a server logs from `info` on, a command from `warn` on.
///
/// # Errors
/// One sentence about the filter.
pub(super) fn init(format: LogFormat, filter: Option<&str>, is_server: bool) -> Result<(), String> {
    let filter = filter.unwrap_or(if is_server { "info" } else { "warn" });
    let filter = EnvFilter::try_new(filter)
        .map_err(|e| format!("--log {filter:?} is no filter ({e}); write for example info or plimsoll=debug,info"))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A line that cannot be written would be complained of on the same closed pipe, which panics.
    let lines = lines.log_internal_errors(false);
    let begun = match format {
        LogFormat::Text => {
            let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
            lines.with_ansi(colour).try_init()
        }
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    begun.map_err(|e| format!("logging did not begin: {e}"))
}
