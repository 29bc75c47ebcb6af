//! Owns hints on SQLite: one task a handle reads the file's change counter while somebody watches.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use rusqlite::Connection;

use super::connect::again;
use super::error::not_applied;
use super::{Inner, SqliteKv};
use crate::{Effect, HintSender, HintStream, KvError, KvErrorKind, WatchKv, hint_channel};

/// Who watches, and whether the task runs that looks for them.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    senders: Vec<HintSender>,
    looking: bool,
}

/// A connection of its own: `data_version` changes with the commits of every *other* connection.
struct Look {
    connection: Connection,
    version: Option<i64>,
}

impl Inner {
    /// Whether the file changed since the last look; the first look says yes, so that no change before it is missed.
    fn look_for_change(&self, look: Option<Look>) -> Result<(Look, bool), KvError> {
        let mut look = match look {
            Some(look) => look,
            None => {
                let connection = again(&self.place, self.pinned, &self.options)?;
                connection.busy_timeout(self.options.busy_timeout).map_err(not_applied)?;
                Look { connection, version: None }
            }
        };
        self.place.check(self.pinned, Effect::NotApplied)?;
        let version = {
            let mut statement = look.connection.prepare_cached("PRAGMA data_version").map_err(not_applied)?;
            statement.query_row([], |row| row.get(0)).map_err(not_applied)?
        };
        let changed = look.version.replace(version) != Some(version);
        Ok((look, changed))
    }

    /// Hints all watchers; `false` when nobody is left, and then the task has ended.
    fn hint(&self, changed: bool) -> bool {
        let mut watchers = self.watchers.lock();
        watchers.senders.retain(|sender| if changed { sender.hint() } else { !sender.is_closed() });
        watchers.looking = !watchers.senders.is_empty();
        watchers.looking
    }

    /// Ends all watches; the task has ended then.
    async fn end_watches(&self, error: &KvError) {
        let ended = {
            let mut watchers = self.watchers.lock();
            watchers.looking = false;
            std::mem::take(&mut watchers.senders)
        };
        for sender in ended {
            let reason = KvError::read(error.kind, error.message.clone());
            // Not awaited here: a watcher that does not read must not keep the others from their reason.
            tokio::spawn(sender.fail(reason));
        }
    }
}

async fn look_on(weak: Weak<Inner>) {
    let mut look = None;
    loop {
        let Some(inner) = weak.upgrade() else { return };
        let looked = {
            let (inner, last) = (Arc::clone(&inner), look.take());
            tokio::task::spawn_blocking(move || inner.look_for_change(last)).await
        };
        let looked = looked.unwrap_or_else(|_| {
            Err(KvError::read(KvErrorKind::Closed, "the runtime shut down during the watch; start again"))
        });
        match looked {
            Err(error) => return inner.end_watches(&error).await,
            Ok((next, changed)) => {
                if !inner.hint(changed) {
                    return;
                }
                look = Some(next);
            }
        }
        let pause = inner.options.watch_interval;
        drop(inner);
        tokio::time::sleep(pause).await;
    }
}

#[async_trait]
impl WatchKv for SqliteKv {
    async fn watch(&self, _start: &[u8], _end: &[u8]) -> Result<HintStream, KvError> {
        self.inner.place.check(self.inner.pinned, Effect::NotApplied)?;
        let (sender, stream) = hint_channel();
        let start = {
            let mut watchers = self.inner.watchers.lock();
            watchers.senders.push(sender);
            !std::mem::replace(&mut watchers.looking, true)
        };
        if start {
            tokio::spawn(look_on(Arc::downgrade(&self.inner)));
        }
        Ok(stream)
    }
}
