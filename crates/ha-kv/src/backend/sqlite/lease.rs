//! Owns leases on SQLite: a random number and a counter, no time. Renewal and take-over compare them exactly.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::Connection;

use super::error::Stop;
use super::lane::End;
use super::lease_book::{Standing, ttl};
use super::rows::{self, LeaseRow};
use super::{Inner, SqliteKv};
use crate::lease::{check_ttl, lease_gone};
use crate::{Effect, KvError, KvErrorKind, LeaseId, LeaseKv, PutIfAbsent};

/// How many leases a grant looks through for dead ones.
const SWEEP_AT_MOST: i64 = 256;

impl Inner {
    /// Ends leases that this handle has seen unchanged for their whole TTL, so that those of the dead do not pile up.
    fn sweep(&self, connection: &Connection) -> rusqlite::Result<()> {
        for row in rows::leases(connection, SWEEP_AT_MOST)? {
            let mine = self.leases.lock().is_mine(row);
            // The clock is read after the row, under the write lock: the holder's last keep-alive was no later.
            if !mine && self.leases.lock().observe(row, self.clock.now()) {
                rows::end_lease(connection, row.id)?;
                self.leases.lock().ended(row.id);
            }
        }
        Ok(())
    }

    /// Refuses a lease that is not this handle's, or whose row is not what this handle wrote.
    fn own_row(&self, connection: &Connection, lease: LeaseId) -> Result<LeaseRow, Stop> {
        match rows::lease(connection, lease)? {
            Some(row) if self.leases.lock().is_mine(row) => Ok(row),
            _ => Err(lease_gone(lease).into()),
        }
    }

    /// What can be answered without the write lock, so that a campaign beside a busy writer costs it nothing.
    fn look(
        &self,
        connection: &Connection,
        key: &[u8],
        value: &[u8],
        lease: LeaseId,
    ) -> Result<Option<PutIfAbsent>, Stop> {
        let Some(held) = rows::held_key(connection, key)? else { return Ok(None) };
        match held.lease {
            Some(row) if row.id == lease => {
                self.own_row(connection, lease)?;
                Ok(Some(if held.value == value { PutIfAbsent::Put } else { PutIfAbsent::Held(held.value) }))
            }
            // The clock is read after the row: the holder's last keep-alive was no later than this reading.
            Some(row) if self.leases.lock().observe(row, self.clock.now()) => Ok(None),
            _ => Ok(Some(PutIfAbsent::Held(held.value))),
        }
    }

    /// The same under the write lock, with the taking.
    pub(super) fn take(
        &self,
        connection: &Connection,
        key: &[u8],
        value: &[u8],
        lease: LeaseId,
    ) -> Result<End<PutIfAbsent>, Stop> {
        self.own_row(connection, lease)?;
        if let Some(held) = rows::held_key(connection, key)? {
            match held.lease {
                Some(row) if row.id == lease && held.value == value => return Ok(End::Nothing(PutIfAbsent::Put)),
                Some(row) if row.id != lease && self.leases.lock().has_run_out(row, self.clock.now()) => {
                    rows::end_lease(connection, row.id)?;
                    self.leases.lock().ended(row.id);
                }
                _ => return Ok(End::Nothing(PutIfAbsent::Held(held.value))),
            }
        }
        rows::put(connection, key, value, Some(lease))?;
        Ok(End::Commit(PutIfAbsent::Put))
    }
}

/// What a keep-alive found.
enum Kept {
    Alive(i64),
    RanOut,
}

#[async_trait]
impl LeaseKv for SqliteKv {
    async fn grant(&self, asked: Duration) -> Result<(LeaseId, Duration), KvError> {
        check_ttl(asked)?;
        let whole_ms = asked.as_nanos().div_ceil(1_000_000);
        let ttl_ms = i64::try_from(whole_ms).map_err(|_| {
            let message = "the TTL is longer than a lease can be; ask for less";
            KvError::new(KvErrorKind::InvalidArgument, Effect::NotApplied, message)
        })?;
        // Below 2^63, and never 0.
        let id = LeaseId::new((self.inner.entropy.next_u64() >> 1).max(1));
        let row = LeaseRow { id, ttl_ms, beat: 0 };
        let inner = Arc::clone(&self.inner);
        self.write(move |connection| {
            inner.sweep(connection)?;
            rows::insert_lease(connection, row, &inner.options.holder)?;
            Ok(End::Commit(()))
        })
        .await?;
        self.inner.leases.lock().granted(id, self.inner.clock.now().saturating_add(ttl(row)));
        Ok((id, ttl(row)))
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<(), KvError> {
        if self.inner.leases.lock().standing(lease, self.inner.clock.now()) == Standing::Unknown {
            return Err(lease_gone(lease));
        }
        self.inner.leases.lock().keep_alive_sent(lease);
        let inner = Arc::clone(&self.inner);
        let (kept, runs_for) = self
            .write(move |connection| {
                let row = inner.own_row(connection, lease)?;
                // Asked under the lock: it may have taken longer than the TTL to get it.
                if inner.leases.lock().standing(lease, inner.clock.now()) != Standing::Live {
                    rows::end_lease(connection, lease)?;
                    return Ok(End::Commit((Kept::RanOut, Duration::ZERO)));
                }
                let beat = row.beat.saturating_add(1);
                rows::set_beat(connection, lease, beat)?;
                Ok(End::Commit((Kept::Alive(beat), ttl(row))))
            })
            .await
            .inspect_err(|error| {
                if error.kind == KvErrorKind::LeaseNotFound {
                    self.inner.leases.lock().forget(lease);
                }
            })?;
        let mut book = self.inner.leases.lock();
        match kept {
            Kept::Alive(beat) => {
                book.kept_alive(lease, beat, self.inner.clock.now().saturating_add(runs_for));
                Ok(())
            }
            Kept::RanOut => {
                book.forget(lease);
                Err(lease_gone(lease))
            }
        }
    }

    async fn revoke(&self, lease: LeaseId) -> Result<(), KvError> {
        self.inner.leases.lock().forget(lease);
        self.write(move |connection| {
            Ok(match rows::end_lease(connection, lease)? {
                true => End::Commit(()),
                false => End::Nothing(()),
            })
        })
        .await
    }

    async fn put_if_absent(&self, key: &[u8], value: Bytes, lease: LeaseId) -> Result<PutIfAbsent, KvError> {
        self.inner.capabilities.check_put(key, &value)?;
        if self.inner.leases.lock().standing(lease, self.inner.clock.now()) != Standing::Live {
            return Err(lease_gone(lease));
        }
        let looked = {
            let (inner, key, value) = (Arc::clone(&self.inner), Bytes::copy_from_slice(key), value.clone());
            self.read(move |connection| inner.look(connection, &key, &value, lease)).await
        };
        if let Some(answer) = looked.map_err(|e| e.with_key(key))? {
            return Ok(answer);
        }
        let (inner, taken) = (Arc::clone(&self.inner), Bytes::copy_from_slice(key));
        self.write(move |connection| inner.take(connection, &taken, &value, lease)).await.map_err(|e| e.with_key(key))
    }
}
