//! Owns the padded request that shows whether the server takes what `max_request_bytes` says. It changes nothing.

use super::error::Access;
use super::pool::{Pool, Reply};
use crate::{KvError, KvErrorKind};

/// How the key begins that nobody writes.
const PROBE_KEY: &[u8] = b"plimsoll-request-limit-probe/";

/// Deletes an absent key that makes the request as large as any this client sends. A delete goes the way of every write, where the
/// server's limit applies, and is the one write that a full server takes.
///
/// # Errors
/// `TooLarge` if the server's limit is lower; otherwise why the cluster could not be asked.
pub(super) async fn verify_request_limit(pool: &Pool) -> Result<(), KvError> {
    let options = pool.options();
    let mut key = PROBE_KEY.to_vec();
    key.resize(options.max_txn_bytes().max(key.len()), b'p');
    let asked = pool.call(Access::Read, |member| {
        let mut kv = member.kv(options);
        async move { kv.delete(key, None).await.map(|r| Reply::new(r.header(), ())) }
    });
    match asked.await {
        Ok(()) => Ok(()),
        Err(e) if e.kind == KvErrorKind::TooLarge => {
            let text = format!(
                "the etcd server refuses requests of {} bytes; set max_request_bytes to its --max-request-bytes, or raise that",
                options.max_request_bytes
            );
            // The server's own words are one level down.
            Err(KvError { message: text, ..e })
        }
        // The server judges the size first: a user without rights on the probe's key has passed it.
        Err(e) if e.kind == KvErrorKind::Auth && e.message.contains("permission denied") => Ok(()),
        Err(e) => Err(e),
    }
}
