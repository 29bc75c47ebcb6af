//! Owns what the file looks like inside, and how a foreign or newer one is told from ours.

use rusqlite::{Connection, Result as SqlResult};

use super::error::Stop;
use crate::{Effect, KvError, KvErrorKind};

/// `PLKV` in ASCII; `file(1)` and we tell our files by it.
const APPLICATION_ID: i32 = 0x504c_4b56;

/// Raised with every change of the tables.
const VERSION: i32 = 1;

/// A row's `lease` and the lease's row come and go in one transaction.
const TABLES: &str = "
CREATE TABLE kv (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    value BLOB NOT NULL,
    lease INTEGER
) STRICT;
CREATE INDEX kv_lease ON kv (lease) WHERE lease IS NOT NULL;
CREATE TABLE lease (
    id INTEGER PRIMARY KEY,
    holder TEXT NOT NULL,
    ttl_ms INTEGER NOT NULL,
    beat INTEGER NOT NULL
) STRICT;
PRAGMA application_id = 0x504c4b56;
PRAGMA user_version = 1;
";

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Nothing is in it.
    Nobody,
    /// Ours, of this version.
    Ours,
}

/// Looks, and changes nothing.
///
/// # Errors
/// `WrongStore` for another program's file, `Unsupported` for a newer version of ours, `Corrupt` for one that never was.
pub(super) fn whose(connection: &Connection) -> Result<Whose, Stop> {
    let refuse = |kind, message: String| Err(KvError::new(kind, Effect::NotApplied, message).into());
    let pragma =
        |name: &str| -> SqlResult<i32> { connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)) };
    // Of one moment: another process may be making the tables just now. A savepoint, because the caller may be in a transaction.
    connection.execute_batch("SAVEPOINT whose")?;
    let read = || -> SqlResult<(i32, i32, i64)> {
        let objects = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((pragma("application_id")?, pragma("user_version")?, objects))
    };
    let read = read();
    connection.execute_batch("RELEASE whose")?;
    let (application_id, version, objects) = read?;
    match (application_id, version) {
        (0, 0) if objects == 0 => Ok(Whose::Nobody),
        (APPLICATION_ID, VERSION) => Ok(Whose::Ours),
        (APPLICATION_ID, newer) if newer > VERSION => refuse(
            KvErrorKind::Unsupported,
            format!("the SQLite file has schema version {newer}, this program knows {VERSION}; use the newer program"),
        ),
        (APPLICATION_ID, other) => refuse(
            KvErrorKind::Corrupt,
            format!("the SQLite file has schema version {other}, which never was; restore it from a backup"),
        ),
        (other, _) => refuse(
            KvErrorKind::WrongStore,
            format!("the SQLite file belongs to another program (application id {other:#010x}); name another path"),
        ),
    }
}

/// Makes the tables, within the caller's transaction, unless another process was faster.
pub(super) fn create(connection: &Connection) -> Result<(), Stop> {
    if whose(connection)? == Whose::Nobody {
        connection.execute_batch(TABLES)?;
    }
    Ok(())
}
