//! Owns one call: the intent into the ledger, the call, the reply into the ledger. What a reply promises is read here, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use ha_rpc::v1::{Durability, ErrorCode, GetRequest, PutEndRequest, PutStartRequest, RemoveRequest};

use crate::client::{CallError, Client};
use crate::demo::ledger::{Answer, Book, Call, Incarnation, LedgerError, Promise};

/// Bytes of the demo's objects.
const OBJECT_BYTES: u64 = 4096;

/// Calls and writes down.
#[derive(Debug)]
pub(super) struct Caller {
    client: Client,
    client_id: Bytes,
    book: Arc<Book>,
    acknowledged: Arc<AtomicU64>,
}

impl Caller {
    pub(super) fn new(client: Client, book: Arc<Book>, acknowledged: Arc<AtomicU64>) -> Self {
        let client_id = Bytes::copy_from_slice(&fastrand::u128(1..).to_be_bytes());
        Self { client, client_id, book, acknowledged }
    }

    /// Makes the call. The answer has been written down when it is returned.
    pub(super) async fn call(&self, call: &Call) -> Result<Answer, LedgerError> {
        let op = self.book.sent(call)?;
        let answer = self.send(call).await.unwrap_or_else(|error| failed(&error));
        self.book.answered(op, &answer)?;
        if answer == Answer::Durable && call.is_change() {
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        Ok(answer)
    }

    async fn send(&self, call: &Call) -> Result<Answer, CallError> {
        let client_id = self.client_id.clone();
        let key = Bytes::copy_from_slice(call.key().as_bytes());
        Ok(match call {
            Call::PutStart { .. } => {
                let request = PutStartRequest { key, size: OBJECT_BYTES, replicas: 1, client_id, ..Default::default() };
                named(&self.client.put_start(request).await?.incarnation, Answer::Granted)
            }
            Call::PutEnd { incarnation, promise, .. } => {
                let incarnation = Bytes::copy_from_slice(&incarnation.to_bytes());
                let durability = asked(*promise).into();
                let request = PutEndRequest { key, incarnation, client_id, durability, ..Default::default() };
                promised(self.client.put_end(request).await?.durability())
            }
            Call::Remove { promise, .. } => {
                let request = RemoveRequest { key, durability: asked(*promise).into(), ..Default::default() };
                promised(self.client.remove(request).await?.durability())
            }
            Call::Get { .. } => {
                let request = GetRequest { key, ..Default::default() };
                named(&self.client.get(request).await?.incarnation, Answer::Found)
            }
        })
    }
}

const fn asked(promise: Promise) -> Durability {
    match promise {
        Promise::Durable => Durability::Durable,
        Promise::Accepted => Durability::Accepted,
    }
}

/// What the reply says, not what was asked for.
fn promised(durability: Durability) -> Answer {
    match durability {
        Durability::Durable => Answer::Durable,
        Durability::Accepted => Answer::Accepted,
        Durability::Unspecified => Answer::Cut("the reply does not say what it promises".into()),
    }
}

fn named(incarnation: &[u8], answer: fn(Incarnation) -> Answer) -> Answer {
    Incarnation::from_slice(incarnation).map_or_else(|| Answer::Cut("the reply names no incarnation".into()), answer)
}

fn failed(error: &CallError) -> Answer {
    match error {
        CallError::Unknown(why) => Answer::Cut(why.clone()),
        CallError::NotDone(why) => Answer::Refused(why.clone()),
        CallError::Refused(detail) => match detail.code() {
            ErrorCode::ObjectNotFound | ErrorCode::ReplicaIsNotReady => Answer::Absent,
            code => Answer::Refused(format!("{code:?}: {}", detail.message)),
        },
    }
}
