//! Owns the connections and the way onto them: one lane for writes, a few for reads, all on blocking threads. It does not
//! know what is read or written.

use std::sync::Arc;

use rusqlite::Connection;

use super::connect::{again, until_not_busy};
use super::error::{Stop, is_busy, not_applied, unknown};
use super::{Inner, SqliteKv};
use crate::{Effect, KvError, KvErrorKind};

/// What becomes of a write transaction, with the call's answer.
pub(super) enum End<T> {
    /// Commit it.
    Commit(T),
    /// Nothing was changed: roll it back.
    Nothing(T),
}

fn ended(effect: Effect) -> KvError {
    KvError::new(
        KvErrorKind::Closed,
        effect,
        "the runtime shut down during the call; the outcome shows after a restart",
    )
}

impl SqliteKv {
    /// Runs `work` in one write transaction.
    ///
    /// Dropping the future does not stop it: it may still commit, and the next write waits until it has ended.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<End<T>, Stop> + Send + 'static,
    ) -> Result<T, KvError> {
        let Ok(lane) = Arc::clone(&self.inner.write_lane).acquire_owned().await else {
            return Err(ended(Effect::NotApplied));
        };
        let inner = Arc::clone(&self.inner);
        let task = tokio::task::spawn_blocking(move || {
            let result = inner.write(work);
            drop(lane);
            result
        });
        task.await.unwrap_or_else(|_| Err(ended(Effect::Unknown)))
    }

    /// Runs `work` on a connection that sees every commit before this call.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, KvError> {
        let Ok(lane) = Arc::clone(&self.inner.read_lanes).acquire_owned().await else {
            return Err(ended(Effect::NotApplied));
        };
        let inner = Arc::clone(&self.inner);
        let task = tokio::task::spawn_blocking(move || {
            let result = inner.read(work);
            drop(lane);
            result
        });
        task.await.unwrap_or_else(|_| Err(ended(Effect::NotApplied)))
    }
}

impl Inner {
    fn write<T>(&self, work: impl FnOnce(&Connection) -> Result<End<T>, Stop>) -> Result<T, KvError> {
        let mut kept = self.writer.lock();
        // Taken out, so that a panic or an error closes it; only a sound connection is put back.
        let connection = match kept.take() {
            Some(connection) => connection,
            None => again(&self.place, self.pinned, &self.options)?,
        };
        let (result, sound) = self.transact(&connection, work);
        if sound {
            *kept = Some(connection);
        }
        result
    }

    /// One transaction; also says whether the connection may be used again.
    fn transact<T>(
        &self,
        connection: &Connection,
        work: impl FnOnce(&Connection) -> Result<End<T>, Stop>,
    ) -> (Result<T, KvError>, bool) {
        let begun = until_not_busy(self.options.busy_timeout, || run(connection, "BEGIN IMMEDIATE"));
        if let Err(error) = begun {
            let sound = is_busy(&error);
            return (Err(self.or_moved(not_applied(error))), sound);
        }
        // Asked under the lock: what is committed to an unlinked file is lost with it.
        if let Err(moved) = self.place.check(self.pinned, Effect::NotApplied) {
            return (Err(moved), false);
        }
        match work(connection) {
            Ok(End::Commit(answer)) => match run(connection, "COMMIT") {
                Err(error) => (Err(self.or_moved(unknown(error))), false),
                Ok(()) => match self.place.check(self.pinned, Effect::Unknown) {
                    Err(moved) => (Err(moved), false),
                    Ok(()) => (Ok(answer), true),
                },
            },
            Ok(End::Nothing(answer)) => {
                let sound = run(connection, "ROLLBACK").is_ok();
                (Ok(answer), sound)
            }
            Err(Stop::Refused(error)) => {
                let sound = run(connection, "ROLLBACK").is_ok();
                (Err(error), sound)
            }
            Err(Stop::Native(error)) => (Err(self.or_moved(not_applied(error))), false),
        }
    }

    /// The better reason for `error`, if there is one.
    fn or_moved(&self, error: KvError) -> KvError {
        match self.place.check(self.pinned, error.effect) {
            Err(moved) => moved.with_source(error),
            Ok(()) => error,
        }
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Stop>) -> Result<T, KvError> {
        let kept = self.readers.lock().pop();
        let connection = match kept {
            Some(connection) => connection,
            None => {
                let connection = again(&self.place, self.pinned, &self.options)?;
                connection.busy_timeout(self.options.busy_timeout).map_err(not_applied)?;
                connection
            }
        };
        match work(&connection) {
            Ok(answer) => {
                self.place.check(self.pinned, Effect::NotApplied)?;
                self.readers.lock().push(connection);
                Ok(answer)
            }
            Err(Stop::Refused(error)) => {
                self.readers.lock().push(connection);
                Err(error)
            }
            Err(Stop::Native(error)) => Err(self.or_moved(not_applied(error))),
        }
    }
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}
