//! Owns the statements on pairs and leases, all cached, each within a transaction that its caller began.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::{KvPair, LeaseId, RangeLimit, RangePage};

/// Who holds a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldKey {
    pub(super) value: Bytes,
    pub(super) lease: Option<LeaseRow>,
}

/// A lease as it is in the file: what renewal and take-over compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaseRow {
    pub(super) id: LeaseId,
    pub(super) ttl_ms: i64,
    pub(super) beat: i64,
}

/// SQLite's integers are signed; lease ids are drawn below 2^63, so that nothing is lost.
pub(super) fn sql_id(lease: LeaseId) -> i64 {
    lease.get().cast_signed()
}

fn lease_id(id: i64) -> LeaseId {
    LeaseId::new(id.cast_unsigned())
}

fn blob(row: &Row<'_>, at: usize) -> Result<Bytes> {
    Ok(Bytes::copy_from_slice(row.get_ref(at)?.as_blob()?))
}

pub(super) fn get(connection: &Connection, key: &[u8]) -> Result<Option<Bytes>> {
    connection.prepare_cached("SELECT value FROM kv WHERE key = ?1")?.query_row([key], |row| blob(row, 0)).optional()
}

/// Whether `key` has exactly `value`, without a copy of it.
pub(super) fn equals(connection: &Connection, key: &[u8], value: &[u8]) -> Result<bool> {
    let mut statement = connection.prepare_cached("SELECT value FROM kv WHERE key = ?1")?;
    let same = statement.query_row([key], |row| Ok(row.get_ref(0)?.as_blob()? == value)).optional()?;
    Ok(same == Some(true))
}

pub(super) fn exists(connection: &Connection, key: &[u8]) -> Result<bool> {
    connection.prepare_cached("SELECT 1 FROM kv WHERE key = ?1")?.exists([key])
}

/// A put drops the lease that the key had, or gives it `lease`.
pub(super) fn put(connection: &Connection, key: &[u8], value: &[u8], lease: Option<LeaseId>) -> Result<()> {
    let sql = "INSERT INTO kv (key, value, lease) VALUES (?1, ?2, ?3)
               ON CONFLICT (key) DO UPDATE SET value = excluded.value, lease = excluded.lease";
    connection.prepare_cached(sql)?.execute(params![key, value, lease.map(sql_id)]).map(|_| ())
}

pub(super) fn delete(connection: &Connection, key: &[u8]) -> Result<usize> {
    connection.prepare_cached("DELETE FROM kv WHERE key = ?1")?.execute([key])
}

pub(super) fn delete_range(connection: &Connection, start: &[u8], end: &[u8]) -> Result<usize> {
    connection.prepare_cached("DELETE FROM kv WHERE key >= ?1 AND key < ?2")?.execute([start, end])
}

pub(super) fn range(connection: &Connection, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage> {
    let mut statement =
        connection.prepare_cached("SELECT key, value FROM kv WHERE key >= ?1 AND key < ?2 ORDER BY key")?;
    let mut rows = statement.query([start, end])?;
    let mut page = RangePage::default();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        if limit.reached(page.pairs.len(), bytes) {
            page.more = true;
            break;
        }
        let pair = KvPair { key: blob(row, 0)?, value: blob(row, 1)? };
        bytes += pair.key.len() + pair.value.len();
        page.pairs.push(pair);
    }
    Ok(page)
}

/// The key with the lease it is held under.
pub(super) fn held_key(connection: &Connection, key: &[u8]) -> Result<Option<HeldKey>> {
    let sql = "SELECT kv.value, kv.lease, lease.ttl_ms, lease.beat FROM kv LEFT JOIN lease ON lease.id = kv.lease WHERE key = ?1";
    connection
        .prepare_cached(sql)?
        .query_row([key], |row| {
            let lease = match row.get::<_, Option<i64>>(1)? {
                None => None,
                // A lease without its row was never written; reading NULL as a number is then the error that says so.
                Some(id) => Some(LeaseRow { id: lease_id(id), ttl_ms: row.get(2)?, beat: row.get(3)? }),
            };
            Ok(HeldKey { value: blob(row, 0)?, lease })
        })
        .optional()
}

pub(super) fn insert_lease(connection: &Connection, lease: LeaseRow, holder: &str) -> Result<()> {
    let sql = "INSERT INTO lease (id, holder, ttl_ms, beat) VALUES (?1, ?2, ?3, ?4)";
    connection.prepare_cached(sql)?.execute(params![sql_id(lease.id), holder, lease.ttl_ms, lease.beat]).map(|_| ())
}

pub(super) fn lease(connection: &Connection, id: LeaseId) -> Result<Option<LeaseRow>> {
    let sql = "SELECT ttl_ms, beat FROM lease WHERE id = ?1";
    connection
        .prepare_cached(sql)?
        .query_row([sql_id(id)], |row| Ok(LeaseRow { id, ttl_ms: row.get(0)?, beat: row.get(1)? }))
        .optional()
}

/// Up to `limit` leases.
pub(super) fn leases(connection: &Connection, limit: i64) -> Result<Vec<LeaseRow>> {
    let mut statement = connection.prepare_cached("SELECT id, ttl_ms, beat FROM lease ORDER BY id LIMIT ?1")?;
    let rows = statement
        .query_map([limit], |row| Ok(LeaseRow { id: lease_id(row.get(0)?), ttl_ms: row.get(1)?, beat: row.get(2)? }))?;
    rows.collect()
}

pub(super) fn set_beat(connection: &Connection, id: LeaseId, beat: i64) -> Result<()> {
    connection.prepare_cached("UPDATE lease SET beat = ?2 WHERE id = ?1")?.execute([sql_id(id), beat]).map(|_| ())
}

/// Removes a lease and its keys; `false` if it was gone.
pub(super) fn end_lease(connection: &Connection, id: LeaseId) -> Result<bool> {
    connection.prepare_cached("DELETE FROM kv WHERE lease = ?1")?.execute([sql_id(id)])?;
    Ok(connection.prepare_cached("DELETE FROM lease WHERE id = ?1")?.execute([sql_id(id)])? > 0)
}
