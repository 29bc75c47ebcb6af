//! Owns the one table that turns SQLite's errors into ours. Nothing else in the backend looks at SQLite's codes.
//!
//! | SQLite says | kind | effect before `COMMIT` | effect of `COMMIT` |
//! |---|---|---|---|
//! | `BUSY`, `LOCKED`, `PROTOCOL` | `Busy` | `NotApplied` | `Unknown` |
//! | `FULL` (also the operating system's "no space left") | `NoSpace` | `NotApplied` | `Unknown` |
//! | `READONLY_DBMOVED` | `WrongStore` | `NotApplied` | `Unknown` |
//! | `READONLY`, `PERM` | `ReadOnly` | `NotApplied` | `Unknown` |
//! | `AUTH` | `Auth` | `NotApplied` | `Unknown` |
//! | `IOERR` | `Unavailable` | `NotApplied` | `Unknown` |
//! | `CANTOPEN`, `NOMEM`, `INTERRUPT`, `ABORT` | `Unavailable` | `NotApplied` | `Unknown` |
//! | `NOTADB` | `WrongStore` | `NotApplied` | `Unknown` |
//! | `CORRUPT`, `ERROR` (a table is gone), `SCHEMA`, `CONSTRAINT`, `MISMATCH` | `Corrupt` | `NotApplied` | `Unknown` |
//! | `TOOBIG` | `TooLarge` | `NotApplied` | `Unknown` |
//! | anything else, and what the binding itself reports | `Unsupported` | `NotApplied` | `Unknown` |
//!
//! Before `COMMIT` nothing can have applied: SQLite writes no commit mark earlier. From `COMMIT` on nothing is sure, whatever
//! the error says, so its effect is always `Unknown`. After every error but `Busy` the connection is closed and never used
//! again. A read's effect is always `NotApplied`.

use rusqlite::{Error, ErrorCode, ffi};

use crate::{Effect, KvError, KvErrorKind};

/// Kind and remedy of a native error.
fn classify(error: &Error) -> (KvErrorKind, &'static str) {
    use ErrorCode as E;
    use KvErrorKind as K;
    let Error::SqliteFailure(native, _) = error else {
        return match error {
            Error::InvalidColumnType(..) | Error::FromSqlConversionFailure(..) | Error::QueryReturnedNoRows => {
                (K::Corrupt, "the SQLite file holds what Plimsoll never wrote; restore it from a backup")
            }
            _ => (K::Unsupported, "the SQLite library refused the call; this is a defect, report it"),
        };
    };
    if native.extended_code == ffi::SQLITE_READONLY_DBMOVED {
        return (K::WrongStore, "the SQLite file was moved or deleted under us; put it back and restart");
    }
    match native.code {
        E::DatabaseBusy | E::DatabaseLocked | E::FileLockingProtocolFailed => (
            K::Busy,
            "another process held the SQLite file's lock all the time; try again, or look for a stopped process",
        ),
        E::DiskFull => (K::NoSpace, "no space is left for the SQLite file; free some, or raise its limit"),
        E::ReadOnly | E::PermissionDenied => {
            (K::ReadOnly, "the SQLite file or its directory is read-only; make both writable for this user")
        }
        E::AuthorizationForStatementDenied => (K::Auth, "SQLite denied the statement; remove the authorizer"),
        E::SystemIoFailure => (K::Unavailable, "the SQLite file could not be read or written; check the disk"),
        E::CannotOpen => (
            K::Unavailable,
            "the SQLite file could not be opened; check its directory, its permissions and the open file limit",
        ),
        E::OutOfMemory => (K::Unavailable, "SQLite ran out of memory; free some"),
        E::OperationInterrupted | E::OperationAborted => (K::Unavailable, "the SQLite call was interrupted; try again"),
        E::NotADatabase => (
            K::WrongStore,
            "the file is no SQLite database, or its header is damaged; name another path, or restore the file",
        ),
        E::DatabaseCorrupt | E::Unknown | E::SchemaChanged | E::ConstraintViolation | E::TypeMismatch => (
            K::Corrupt,
            "the SQLite file is damaged; restore it from a backup, or remove it if the log lives elsewhere",
        ),
        E::TooBig => (K::TooLarge, "a key or value is above SQLite's limit; store less under one key"),
        _ => (K::Unsupported, "the SQLite library refused the call; this is a defect, report it"),
    }
}

fn convert(error: Error, effect: Effect) -> KvError {
    let (kind, remedy) = classify(&error);
    KvError::new(kind, effect, format!("{remedy} ({error})")).with_source(error)
}

/// An error of anything but `COMMIT`.
pub(super) fn not_applied(error: Error) -> KvError {
    convert(error, Effect::NotApplied)
}

/// An error of `COMMIT`.
pub(super) fn unknown(error: Error) -> KvError {
    convert(error, Effect::Unknown)
}

/// Whether SQLite says that a lock is held, which leaves the connection as good as it was.
pub(super) fn is_busy(error: &Error) -> bool {
    classify(error).0 == KvErrorKind::Busy
}

/// What stops the work inside a transaction.
#[derive(Debug)]
pub(super) enum Stop {
    /// Our own refusal: roll back, the connection is sound.
    Refused(KvError),
    /// SQLite failed: roll back and close the connection.
    Native(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Native(error)
    }
}

impl From<KvError> for Stop {
    fn from(error: KvError) -> Self {
        Self::Refused(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(code: i32) -> Error {
        Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn every_row_of_the_table() {
        use KvErrorKind as K;
        let rows = [
            (ffi::SQLITE_BUSY, K::Busy),
            (ffi::SQLITE_BUSY_SNAPSHOT, K::Busy),
            (ffi::SQLITE_BUSY_RECOVERY, K::Busy),
            (ffi::SQLITE_LOCKED, K::Busy),
            (ffi::SQLITE_PROTOCOL, K::Busy),
            (ffi::SQLITE_FULL, K::NoSpace),
            (ffi::SQLITE_READONLY, K::ReadOnly),
            (ffi::SQLITE_READONLY_DIRECTORY, K::ReadOnly),
            (ffi::SQLITE_READONLY_DBMOVED, K::WrongStore),
            (ffi::SQLITE_PERM, K::ReadOnly),
            (ffi::SQLITE_AUTH, K::Auth),
            (ffi::SQLITE_IOERR, K::Unavailable),
            (ffi::SQLITE_IOERR_FSYNC, K::Unavailable),
            (ffi::SQLITE_CANTOPEN, K::Unavailable),
            (ffi::SQLITE_NOMEM, K::Unavailable),
            (ffi::SQLITE_INTERRUPT, K::Unavailable),
            (ffi::SQLITE_ABORT, K::Unavailable),
            (ffi::SQLITE_NOTADB, K::WrongStore),
            (ffi::SQLITE_CORRUPT, K::Corrupt),
            (ffi::SQLITE_ERROR, K::Corrupt),
            (ffi::SQLITE_SCHEMA, K::Corrupt),
            (ffi::SQLITE_CONSTRAINT, K::Corrupt),
            (ffi::SQLITE_MISMATCH, K::Corrupt),
            (ffi::SQLITE_TOOBIG, K::TooLarge),
            (ffi::SQLITE_MISUSE, K::Unsupported),
        ];
        for (code, kind) in rows {
            let before = not_applied(native(code));
            assert_eq!((before.kind, before.effect), (kind, Effect::NotApplied), "code {code}");
            let commit = unknown(native(code));
            assert_eq!((commit.kind, commit.effect), (kind, Effect::Unknown), "code {code}");
        }
    }
}
