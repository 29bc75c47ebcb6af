//! Owns `step-down`, `policy` and `status`.

use ha_rpc::v1::{SetPolicyRequest, StatusReply, StatusRequest, StepDownRequest};
use serde_json::{Value, json};

use super::args::PolicyArgs;
use super::client_args::ClientArgs;
use super::exit::Exit;
use super::output;
use crate::client::CallError;

pub(super) async fn step_down(args: ClientArgs) -> Exit {
    let client = match args.client() {
        Ok(client) => client,
        Err(error) => return output::usage(&error, args.json),
    };
    match client.step_down(StepDownRequest {}).await {
        Err(error) => output::failed(&error, args.json),
        Ok(reply) => {
            if args.json {
                outln!("{}", json!({ "stepping_down": true, "epoch": reply.epoch }));
            } else {
                outln!("the leader of epoch {} hands over", reply.epoch);
            }
            Exit::Done
        }
    }
}

/// Without a time to change it asks for the ones in force, which the leader alone knows.
pub(super) async fn policy(args: PolicyArgs) -> Exit {
    let client = match args.client.client() {
        Ok(client) => client,
        Err(error) => return output::usage(&error, args.client.json),
    };
    let PolicyArgs { put_grant_ms, default_lease_ms, longest_lease_ms, client: args } = args;
    let policy = match client.set_policy(SetPolicyRequest { put_grant_ms, default_lease_ms, longest_lease_ms }).await {
        Ok(reply) => reply.policy.unwrap_or_default(),
        Err(error) => return output::failed(&error, args.json),
    };
    let times = [
        ("put_grant_ms", policy.put_grant_ms),
        ("default_lease_ms", policy.default_lease_ms),
        ("longest_lease_ms", policy.longest_lease_ms),
    ];
    if args.json {
        outln!("{}", Value::Object(times.into_iter().map(|(k, v)| (k.to_owned(), json!(v))).collect()));
    } else {
        let mut table = output::table(["time", "milliseconds"]);
        for (name, ms) in times {
            table.add_row([name, &ms.to_string()]);
        }
        outln!("{table}");
    }
    Exit::Done
}

/// Asks every endpoint for itself: the answer is about that node, not about the leader.
pub(super) async fn status(args: ClientArgs) -> Exit {
    let mut rows: Vec<(String, Result<StatusReply, CallError>)> = Vec::new();
    for endpoint in &args.endpoints {
        let client = match args.client_of(vec![endpoint.clone()]) {
            Ok(client) => client,
            Err(error) => return output::usage(&error, args.json),
        };
        rows.push((endpoint.clone(), client.status(StatusRequest {}).await));
    }
    let answered = rows.iter().filter(|(_, r)| r.is_ok()).count();
    if args.json {
        let nodes: Vec<_> = rows.iter().map(|(endpoint, reply)| row_json(endpoint, reply)).collect();
        outln!("{}", json!({ "nodes": nodes }));
    } else {
        let mut table =
            output::table(["endpoint", "node", "role", "epoch", "durable seq", "applied seq", "leader", "reason"]);
        for (endpoint, reply) in &rows {
            match reply {
                Ok(s) => table.add_row([
                    endpoint.clone(),
                    s.node.clone(),
                    role(s),
                    s.epoch.to_string(),
                    s.durable_seq.to_string(),
                    s.applied_seq.to_string(),
                    s.leader_address.clone(),
                    s.reason.clone(),
                ]),
                Err(error) => table.add_row([endpoint.as_str(), "", "", "", "", "", "", &error.to_string()]),
            };
        }
        outln!("{table}");
    }
    match answered {
        0 => Exit::NotDone,
        n if n == rows.len() => Exit::Done,
        _ => Exit::Partly,
    }
}

fn role(status: &StatusReply) -> String {
    status.role().as_str_name().trim_start_matches("ROLE_").to_ascii_lowercase()
}

fn row_json(endpoint: &str, reply: &Result<StatusReply, CallError>) -> Value {
    match reply {
        Err(error) => json!({ "endpoint": endpoint, "error": error.to_string() }),
        Ok(s) => json!({
            "endpoint": endpoint,
            "node": s.node,
            "cluster": s.cluster,
            "role": role(s),
            "reason": Some(&s.reason).filter(|r| !r.is_empty()),
            "epoch": s.epoch,
            "durable": { "batch_id": s.durable_batch_id, "seq": s.durable_seq },
            "applied_seq": s.applied_seq,
            "leader": Some(&s.leader_address).filter(|a| !a.is_empty()),
            "objects": s.objects,
            "quarantine_ms": s.quarantine_ms,
        }),
    }
}
