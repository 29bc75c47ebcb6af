//! Owns `put`, `get`, `remove` and `ls`.

use ha_rpc::v1::{
    BatchRemoveRequest, Durability, GetRequest, ListRequest, ListedObject, PutEndRequest, PutRevokeRequest,
    PutStartRequest, RemoveResult, remove_result,
};
use ha_types::{Entropy, SystemEntropy};
use serde_json::{Value, json};

use super::args::{DurabilityArgs, GetArgs, LsArgs, PutArgs, RemoveArgs};
use super::exit::Exit;
use super::output;
use crate::client::{CallError, Client};

/// Keys of at most 4096 bytes: a call stays below the largest message.
const KEYS_PER_CALL: usize = 900;

impl DurabilityArgs {
    fn wire(&self) -> i32 {
        if self.accepted { Durability::Accepted } else { Durability::Durable }.into()
    }
}

pub(super) async fn put(args: PutArgs) -> Exit {
    let (client, key) = match args.client.client().and_then(|c| Ok((c, args.keys.bytes(&args.key)?))) {
        Ok(ready) => ready,
        Err(error) => return output::usage(&error, args.client.json),
    };
    let entropy = SystemEntropy;
    let id = (u128::from(entropy.next_u64()) << 64) | u128::from(entropy.next_u64());
    let client_id = bytes::Bytes::copy_from_slice(&id.to_be_bytes());
    let tenant = args.keys.tenant;
    let start = PutStartRequest {
        tenant: tenant.clone(),
        key: key.clone(),
        size: args.size,
        replicas: args.replicas,
        client_id: client_id.clone(),
    };
    let granted = match client.put_start(start).await {
        Ok(granted) => granted,
        Err(error) => return output::failed(&error, args.client.json),
    };
    let incarnation = granted.incarnation.clone();
    let durability = args.durability.wire();
    let end = PutEndRequest {
        tenant: tenant.clone(),
        key: key.clone(),
        incarnation: incarnation.clone(),
        client_id: client_id.clone(),
        durability,
    };
    let ended = match client.put_end(end).await {
        Ok(ended) => ended,
        Err(error) => {
            if matches!(error, CallError::Refused(_)) {
                // The put certainly did not end: its space is given back now instead of when its grant runs out.
                let revoke = PutRevokeRequest { tenant, key, incarnation, client_id };
                if let Err(revoke) = client.put_revoke(revoke).await {
                    tracing::debug!(error = %revoke, "the put was not revoked; its grant runs out");
                }
            }
            return output::failed(&error, args.client.json);
        }
    };
    let promised = output::durability(ended.durability);
    if args.client.json {
        let value = json!({
            "key": output::key_json(&key),
            "size": args.size,
            "incarnation": output::hex(&granted.incarnation),
            "durability": promised,
            "replicas": output::ranges_json(&granted.replicas),
        });
        outln!("{value}");
    } else {
        outln!("put {} ({} bytes): {promised}", output::key_text(&key), args.size);
        outln!("{}", output::ranges(&granted.replicas));
    }
    Exit::Done
}

pub(super) async fn get(args: GetArgs) -> Exit {
    let (client, key) = match args.client.client().and_then(|c| Ok((c, args.keys.bytes(&args.key)?))) {
        Ok(ready) => ready,
        Err(error) => return output::usage(&error, args.client.json),
    };
    let request = GetRequest { tenant: args.keys.tenant, key: key.clone(), lease_ms: args.lease_ms };
    match client.get(request).await {
        Err(error) => output::failed(&error, args.client.json),
        Ok(reply) if args.client.json => {
            let value = json!({
                "key": output::key_json(&key),
                "size": reply.size,
                "incarnation": output::hex(&reply.incarnation),
                "lease_ms": reply.lease_ms,
                "replicas": output::ranges_json(&reply.replicas),
            });
            outln!("{value}");
            Exit::Done
        }
        Ok(reply) => {
            outln!("{} ({} bytes), lease {} ms", output::key_text(&key), reply.size, reply.lease_ms);
            outln!("{}", output::ranges(&reply.replicas));
            Exit::Done
        }
    }
}

pub(super) async fn remove(args: RemoveArgs) -> Exit {
    let keys: Result<Vec<_>, _> = args.names.iter().map(|n| args.keys.bytes(n)).collect();
    let (client, keys) = match args.client.client().and_then(|c| Ok((c, keys?))) {
        Ok(ready) => ready,
        Err(error) => return output::usage(&error, args.client.json),
    };
    let durability = args.durability.wire();
    let mut results = Vec::with_capacity(keys.len());
    for some in keys.chunks(KEYS_PER_CALL) {
        let request = BatchRemoveRequest { tenant: args.keys.tenant.clone(), keys: some.to_vec(), durability };
        match client.batch_remove(request).await {
            Ok(reply) if reply.results.len() == some.len() => results.extend(reply.results),
            Ok(reply) => {
                let why = format!("{} keys were sent and {} results came back", some.len(), reply.results.len());
                return output::failed(&CallError::Unknown(why), args.client.json);
            }
            Err(error) => return output::failed(&error, args.client.json),
        }
    }
    let mut exits = Vec::with_capacity(keys.len());
    let mut rows = Vec::with_capacity(keys.len());
    for (key, result) in keys.iter().zip(&results) {
        let (exit, row) = removal(key, result, args.client.json);
        exits.push(exit);
        rows.extend(row);
    }
    if args.client.json {
        outln!("{}", json!({ "results": rows }));
    }
    match exits.first() {
        Some(first) if exits.iter().all(|e| e == first) => *first,
        _ => Exit::Partly,
    }
}

/// One key's result: printed now for people, given back for programs.
fn removal(key: &[u8], result: &RemoveResult, as_json: bool) -> (Exit, Option<Value>) {
    match &result.result {
        Some(remove_result::Result::Removed(reply)) => {
            let promised = output::durability(reply.durability);
            if as_json {
                return (
                    Exit::Done,
                    Some(json!({ "key": output::key_json(key), "removed": true, "durability": promised })),
                );
            }
            outln!("removed {}: {promised}", output::key_text(key));
            (Exit::Done, None)
        }
        Some(remove_result::Result::Error(detail)) => {
            let exit = Exit::of_code(detail.code());
            if as_json {
                let error = output::error_json(detail);
                return (exit, Some(json!({ "key": output::key_json(key), "removed": false, "error": error })));
            }
            errln!("plimsoll: {}: {}", output::key_text(key), detail.message);
            (exit, None)
        }
        None => {
            errln!("plimsoll: {}: the server answered with a result of a later version", output::key_text(key));
            (Exit::Unknown, None)
        }
    }
}

pub(super) async fn ls(args: LsArgs) -> Exit {
    let after = args.after.as_deref().map(|k| args.keys.bytes(k)).transpose();
    let (client, after) = match args.client.client().and_then(|c| Ok((c, after?))) {
        Ok(ready) => ready,
        Err(error) => return output::usage(&error, args.client.json),
    };
    match list(&client, &args.keys.tenant, after.unwrap_or_default(), args.limit).await {
        Err(error) => output::failed(&error, args.client.json),
        Ok(objects) if args.client.json => {
            let objects: Vec<_> = objects
                .iter()
                .map(|o| {
                    json!({
                        "key": output::key_json(&o.key),
                        "size": o.size,
                        "replicas": o.replicas,
                        "incarnation": output::hex(&o.incarnation),
                    })
                })
                .collect();
            outln!("{}", json!({ "objects": objects }));
            Exit::Done
        }
        Ok(objects) => {
            let mut table = output::table(["key", "bytes", "replicas", "incarnation"]);
            for o in objects {
                let key = output::key_text(&o.key);
                table.add_row([key, o.size.to_string(), o.replicas.to_string(), output::hex(&o.incarnation)]);
            }
            outln!("{table}");
            Exit::Done
        }
    }
}

/// Page by page until the end, or until there are `limit`.
async fn list(
    client: &Client,
    tenant: &str,
    mut start_after: bytes::Bytes,
    limit: Option<u64>,
) -> Result<Vec<ListedObject>, CallError> {
    let mut objects = Vec::new();
    loop {
        let left = limit.map_or(u64::MAX, |l| l.saturating_sub(objects.len() as u64));
        if left == 0 {
            return Ok(objects);
        }
        let limit = u32::try_from(left).unwrap_or(0);
        let page = client.list(ListRequest { tenant: tenant.to_owned(), start_after, limit }).await?;
        let Some(last) = page.objects.last() else { return Ok(objects) };
        start_after = last.key.clone();
        objects.extend(page.objects);
        if !page.more {
            return Ok(objects);
        }
    }
}
