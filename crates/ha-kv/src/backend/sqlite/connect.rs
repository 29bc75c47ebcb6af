//! Owns how one connection is opened, checked and set up, and how a write lock is waited for.

use std::time::Duration;

use rusqlite::{Connection, MAIN_DB, OpenFlags};

use super::error::{Stop, is_busy, not_applied};
use super::options::{PAGE_BYTES, SqliteOptions};
use super::place::{Pinned, Place};
use super::schema::{self, Whose};
use crate::{Effect, KvError, KvErrorKind};

/// How long one look at a held lock lasts. SQLite's own handler backs off to 100 ms and starves beside a busy writer.
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// Runs `attempt` until it is not busy, pausing in between, for about `timeout` in all. Counted in pauses, so that no clock
/// is read: this waits for another process, and nothing is decided by how long it took.
#[expect(clippy::disallowed_methods, reason = "only called on blocking threads, as SQLite's own busy handler is")]
pub(super) fn until_not_busy(
    timeout: Duration,
    mut attempt: impl FnMut() -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut pauses = timeout.as_millis() / LOCK_PAUSE.as_millis();
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && pauses > 0 => {
                pauses -= 1;
                std::thread::sleep(LOCK_PAUSE);
            }
            done => return done,
        }
    }
}

fn kv_error(stop: Stop) -> KvError {
    match stop {
        Stop::Refused(error) => error,
        Stop::Native(error) => not_applied(error),
    }
}

/// Opens the store for the first time, creating the file if it is not there, and says which file it was.
///
/// # Errors
/// [`KvError`]; a file that is not ours is unchanged.
pub(super) fn first(place: &Place, options: &SqliteOptions) -> Result<(Connection, Pinned), KvError> {
    let before = place.file_id().ok();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&place.file, flags).map_err(not_applied)?;
    prepare(&connection, options, true).map_err(|stop| about(place, kv_error(stop)))?;
    let pinned = place.pin()?;
    if before.is_some() && before != place.file_id().ok() {
        let message = format!("{} was replaced while it was opened; try again", place.file.display());
        return Err(KvError::new(KvErrorKind::WrongStore, Effect::NotApplied, message));
    }
    Ok((connection, pinned))
}

/// Opens one more connection to the store that was opened as `pinned`. Creates nothing.
///
/// # Errors
/// [`KvError`]; `WrongStore` if the path names another file.
pub(super) fn again(place: &Place, pinned: Pinned, options: &SqliteOptions) -> Result<Connection, KvError> {
    // Before it is opened: SQLite would apply the old file's log to a file that took its place.
    place.check(pinned, Effect::NotApplied)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&place.file, flags).map_err(not_applied)?;
    prepare(&connection, options, false).map_err(|stop| about(place, kv_error(stop)))?;
    place.check(pinned, Effect::NotApplied)?;
    Ok(connection)
}

fn about(place: &Place, mut error: KvError) -> KvError {
    error.message = format!("{}: {}", place.file.display(), error.message);
    error
}

/// Checks whose file it is, then sets the connection up, and makes the tables if there are none and `create` says so.
fn prepare(connection: &Connection, options: &SqliteOptions, create: bool) -> Result<(), Stop> {
    connection.busy_timeout(options.busy_timeout)?;
    connection
        .execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY;")?;
    let whose = schema::whose(connection)?;
    if whose == Whose::Nobody && !create {
        let message = "the SQLite file was emptied under us; restore it from a backup";
        return Err(KvError::new(KvErrorKind::WrongStore, Effect::NotApplied, message).into());
    }
    if connection.is_readonly(MAIN_DB)? {
        let message = "the SQLite file is read-only; make it writable for this user";
        return Err(KvError::new(KvErrorKind::ReadOnly, Effect::NotApplied, message).into());
    }
    // SQLite does not wait for a change of the journal mode by itself.
    let mut mode = String::new();
    until_not_busy(options.busy_timeout, || {
        mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        Ok(())
    })?;
    if mode != "wal" {
        let message = format!("SQLite cannot keep a write-ahead log here (journal mode {mode}); use a local disk");
        return Err(KvError::new(KvErrorKind::Unsupported, Effect::NotApplied, message).into());
    }
    // FULL syncs the log at every commit: what is answered survives the loss of power. The full-sync pragmas matter on macOS.
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
         PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 67108864;",
    )?;
    if let Some(bytes) = options.max_file_bytes {
        let pages = bytes / PAGE_BYTES;
        connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
    }
    // From here on locks are waited for in `until_not_busy`.
    connection.busy_timeout(Duration::ZERO)?;
    connection.set_prepared_statement_cache_capacity(32);
    if whose == Whose::Nobody {
        until_not_busy(options.busy_timeout, || connection.execute_batch("BEGIN IMMEDIATE"))?;
        schema::create(connection)?;
        connection.execute_batch("COMMIT")?;
    }
    // A first read opens the write-ahead log, whose identity is then pinned.
    connection.query_row("SELECT count(*) FROM lease", [], |_| Ok(()))?;
    Ok(())
}
