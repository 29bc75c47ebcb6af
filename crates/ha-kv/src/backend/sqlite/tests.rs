//! Tests of the SQLite store: files that are not as they should be, leases, several processes.

mod child;
mod creation;
mod errors;
mod files;
mod leases;
mod model;
mod processes;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ha_types::{ManualClock, SystemEntropy};

use super::{SqliteKv, SqliteOptions};
use crate::KvError;

/// A directory with room for one store.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory for the test"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("store.db")
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn options(&self) -> SqliteOptions {
        SqliteOptions::new(self.file())
    }

    /// A handle whose time stands still.
    async fn open(&self) -> SqliteKv {
        open(self.options()).await.expect("the store opens")
    }
}

async fn open(options: SqliteOptions) -> Result<SqliteKv, KvError> {
    open_with(options, Arc::default()).await
}

async fn open_with(options: SqliteOptions, clock: Arc<ManualClock>) -> Result<SqliteKv, KvError> {
    SqliteKv::open(options, clock, Arc::new(SystemEntropy)).await
}

/// SQLite without our code, as another program would use it.
fn raw(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).expect("SQLite opens the file")
}
