//! Owns the one table that turns SQLite's errors into ours. Nothing else in the backend looks at SQLite's codes. `errors.md`
//! beside this file is the table for readers; a test keeps the two equal.

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

    const CODES: &[(&str, i32)] = &[
        ("BUSY", ffi::SQLITE_BUSY),
        ("LOCKED", ffi::SQLITE_LOCKED),
        ("PROTOCOL", ffi::SQLITE_PROTOCOL),
        ("FULL", ffi::SQLITE_FULL),
        ("READONLY", ffi::SQLITE_READONLY),
        ("READONLY_DBMOVED", ffi::SQLITE_READONLY_DBMOVED),
        ("PERM", ffi::SQLITE_PERM),
        ("AUTH", ffi::SQLITE_AUTH),
        ("IOERR", ffi::SQLITE_IOERR),
        ("CANTOPEN", ffi::SQLITE_CANTOPEN),
        ("NOMEM", ffi::SQLITE_NOMEM),
        ("INTERRUPT", ffi::SQLITE_INTERRUPT),
        ("ABORT", ffi::SQLITE_ABORT),
        ("NOTADB", ffi::SQLITE_NOTADB),
        ("CORRUPT", ffi::SQLITE_CORRUPT),
        ("ERROR", ffi::SQLITE_ERROR),
        ("SCHEMA", ffi::SQLITE_SCHEMA),
        ("CONSTRAINT", ffi::SQLITE_CONSTRAINT),
        ("MISMATCH", ffi::SQLITE_MISMATCH),
        ("TOOBIG", ffi::SQLITE_TOOBIG),
        ("MISUSE", ffi::SQLITE_MISUSE),
        ("RANGE", ffi::SQLITE_RANGE),
        ("NOLFS", ffi::SQLITE_NOLFS),
    ];

    /// What `errors.md` says of each code: kind, effect before the commit, effect of the commit.
    fn shown() -> Vec<(String, [String; 3])> {
        let code_spans =
            |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
        let mut shown = Vec::new();
        for line in include_str!("errors.md").lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(code_spans).collect();
            let [codes, kind, before, commit] = &cells[..] else { panic!("four columns: {line}") };
            for code in codes {
                shown.push((code.clone(), [kind[0].clone(), before[0].clone(), commit[0].clone()]));
            }
        }
        shown
    }

    #[test]
    fn every_row_of_the_table_for_readers_is_what_the_code_does() {
        let shown = shown();
        assert_eq!(shown.len(), CODES.len(), "a code stands twice, or is not asked about: {shown:?}");
        for (name, code) in CODES {
            let (_, says) = shown.iter().find(|(shown, _)| shown == name).expect("every code stands in the table");
            let (before, commit) = (not_applied(native(*code)), unknown(native(*code)));
            let does = [before.kind, commit.kind].map(|kind| format!("{kind:?}"));
            assert_eq!(does, [says[0].clone(), says[0].clone()], "{name}");
            assert_eq!([format!("{:?}", before.effect), format!("{:?}", commit.effect)], says[1..], "{name}");
        }
    }

    #[test]
    fn an_extended_code_counts_as_the_code_it_extends() {
        for (extended, kind) in [
            (ffi::SQLITE_BUSY_SNAPSHOT, KvErrorKind::Busy),
            (ffi::SQLITE_BUSY_RECOVERY, KvErrorKind::Busy),
            (ffi::SQLITE_READONLY_DIRECTORY, KvErrorKind::ReadOnly),
            (ffi::SQLITE_IOERR_FSYNC, KvErrorKind::Unavailable),
            (ffi::SQLITE_CANTOPEN_ISDIR, KvErrorKind::Unavailable),
            (ffi::SQLITE_CONSTRAINT_FOREIGNKEY, KvErrorKind::Corrupt),
        ] {
            assert_eq!(not_applied(native(extended)).kind, kind, "{extended}");
        }
    }

    #[test]
    fn what_the_binding_reports_is_a_defect_or_foreign_contents() {
        let foreign = Error::InvalidColumnType(0, "v".into(), rusqlite::types::Type::Null);
        assert_eq!(not_applied(foreign).kind, KvErrorKind::Corrupt);
        assert_eq!(not_applied(Error::InvalidQuery).kind, KvErrorKind::Unsupported);
    }

    #[test]
    fn only_a_held_lock_leaves_the_connection_as_good_as_it_was() {
        for (name, code) in CODES {
            assert_eq!(is_busy(&native(*code)), ["BUSY", "LOCKED", "PROTOCOL"].contains(name), "{name}");
        }
    }
}
