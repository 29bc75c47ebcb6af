//! Owns the program's standard output and standard error, and what becomes of a command that nobody listens to. It must not know what is
//! printed.
//!
//! The macros of `std` panic where a pipe is closed, as `plimsoll bucket ls | head -1` closes it. Here a reader that goes away costs the rest
//! of the output and nothing else: a command that judges or changes something goes on to its end, and its exit code says what came of it.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cli::Exit;

/// Why standard output takes nothing any more.
static LOST: OnceLock<io::Error> = OnceLock::new();
/// A command ended early for that reason.
static CUT_SHORT: AtomicBool = AtomicBool::new(false);

/// Prints a line on standard output.
macro_rules! outln {
    () => { $crate::out::line(format_args!("")) };
    ($($arg:tt)*) => { $crate::out::line(format_args!($($arg)*)) };
}

/// Prints a line on standard error.
macro_rules! errln {
    ($($arg:tt)*) => { $crate::out::complain(format_args!("{}\n", format_args!($($arg)*))) };
}

pub(crate) fn line(text: fmt::Arguments<'_>) {
    if LOST.get().is_some() {
        return;
    }
    // As one write: another process may print into the same file.
    let text = format!("{text}\n");
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        let _ = LOST.set(error);
    }
}

/// Prints on standard error. Where that takes nothing there is nobody left to tell.
pub(crate) fn complain(text: fmt::Arguments<'_>) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.to_string().as_bytes()).and_then(|()| err.flush());
}

/// Whether a command that only prints as it goes may end here, because nobody reads any more. The exit says then that it did.
pub(crate) fn nobody_reads() -> bool {
    let lost = LOST.get().is_some();
    CUT_SHORT.fetch_or(lost, Ordering::Relaxed);
    lost
}

/// The exit of a command that ended so, with regard to what became of its output.
pub(crate) fn ended(exit: Exit) -> Exit {
    match LOST.get() {
        None => exit,
        Some(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            if exit == Exit::Done && CUT_SHORT.load(Ordering::Relaxed) { Exit::CutShort } else { exit }
        }
        Some(error) => {
            errln!("plimsoll: the output could not be written: {error}; give it a file or a pipe that takes it");
            if exit == Exit::Done { Exit::Unprinted } else { exit }
        }
    }
}
