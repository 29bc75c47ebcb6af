//! Owns the exit codes. Scripts rest on them; see the README.

use std::process::ExitCode;

use ha_rpc::v1::ErrorCode;

use crate::client::CallError;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Refused, or failed in another way; nothing was done.
    Refused = 1,
    /// What was typed or configured is wrong, or what was to be judged could not be read; nothing was tried or judged.
    Usage = 2,
    /// No leader was reached in time; nothing was done.
    NotDone = 3,
    /// It may or may not have taken effect.
    Unknown = 4,
    /// The object or segment does not exist.
    Absent = 5,
    /// Of several things, some were done and some were not.
    Partly = 6,
    /// Done, but the output could not be written.
    Unprinted = 7,
    /// Nobody reads the output any more, and the rest was not looked at. Shells give a program that a closed pipe has ended the same one.
    CutShort = 141,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// The exit of a failed call.
    pub(super) fn of(error: &CallError) -> Self {
        error.code().map_or(Self::NotDone, Self::of_code)
    }

    /// The exit of a server's code.
    pub(super) fn of_code(code: ErrorCode) -> Self {
        match code {
            ErrorCode::ObjectNotFound | ErrorCode::SegmentNotFound => Self::Absent,
            ErrorCode::Unknown | ErrorCode::Internal => Self::Unknown,
            ErrorCode::NotLeader => Self::NotDone,
            _ => Self::Refused,
        }
    }
}

/// Says what is wrong with what was typed.
pub(super) fn usage(error: &impl std::fmt::Display) -> Exit {
    errln!("plimsoll: {error}");
    Exit::Usage
}

/// Says how something ended that has no finer codes.
pub(super) fn report(result: anyhow::Result<()>) -> Exit {
    match result {
        Ok(()) => Exit::Done,
        Err(error) => {
            errln!("plimsoll: {error:#}");
            Exit::Refused
        }
    }
}

/// Says whether what was to be proved held.
pub(super) fn verdict(result: anyhow::Result<bool>) -> Exit {
    match result {
        Ok(true) => Exit::Done,
        Ok(false) => Exit::Refused,
        Err(error) => report(Err(error)),
    }
}
