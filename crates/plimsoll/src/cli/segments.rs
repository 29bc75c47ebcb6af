//! Owns `segment mount|update|unmount|ls`: each is one call, printed.

use ha_rpc::v1::{ListSegmentsRequest, MountSegmentRequest, Segment, UnmountSegmentRequest, UpdateSegmentRequest};
use serde_json::{Value, json};

use super::args::SegmentCommand;
use super::client_args::ClientArgs;
use super::exit::Exit;
use super::output;
use crate::client::{CallError, Client};

pub(super) async fn run(command: SegmentCommand) -> Exit {
    match command {
        SegmentCommand::Mount { id, size, base, endpoint, client } => {
            let request = MountSegmentRequest { segment_id: id.clone(), endpoint, base, size };
            change(&client, &id, "mounted", async |c| c.mount_segment(request).await.map(|r| r.durability)).await
        }
        SegmentCommand::Update { id, endpoint, client } => {
            let request = UpdateSegmentRequest { segment_id: id.clone(), endpoint };
            change(&client, &id, "updated", async |c| c.update_segment(request).await.map(|r| r.durability)).await
        }
        SegmentCommand::Unmount { id, client } => {
            let request = UnmountSegmentRequest { segment_id: id.clone() };
            change(&client, &id, "unmounted", async |c| c.unmount_segment(request).await.map(|r| r.durability)).await
        }
        SegmentCommand::Ls(client) => ls(&client).await,
    }
}

async fn change(
    args: &ClientArgs,
    id: &str,
    done: &str,
    call: impl AsyncFnOnce(&Client) -> Result<i32, CallError>,
) -> Exit {
    let client = match args.client() {
        Ok(client) => client,
        Err(error) => return output::usage(&error, args.json),
    };
    match call(&client).await {
        Err(error) => output::failed(&error, args.json),
        Ok(durability) => {
            let promised = output::durability(durability);
            if args.json {
                outln!("{}", json!({ "segment": id, "result": done, "durability": promised }));
            } else {
                outln!("{done} segment {id}: {promised}");
            }
            Exit::Done
        }
    }
}

async fn ls(args: &ClientArgs) -> Exit {
    let client = match args.client() {
        Ok(client) => client,
        Err(error) => return output::usage(&error, args.json),
    };
    let segments = match all(&client).await {
        Ok(segments) => segments,
        Err(error) => return output::failed(&error, args.json),
    };
    if args.json {
        let segments: Vec<_> = segments.iter().map(segment_json).collect();
        outln!("{}", json!({ "segments": segments }));
        return Exit::Done;
    }
    let mut table = output::table(["segment", "endpoint", "base", "bytes", "free", "used", "held", "puts", "open"]);
    for s in segments {
        let open = match s.quarantined_ms {
            None => "mount not durable yet".to_owned(),
            Some(0) => "yes".to_owned(),
            Some(ms) => format!("in {ms} ms"),
        };
        let numbers = [s.base, s.size, s.free_bytes, s.used_bytes, s.held_bytes, s.running_puts].map(|n| n.to_string());
        table.add_row([s.segment_id, s.endpoint].into_iter().chain(numbers).chain([open]));
    }
    outln!("{table}");
    Exit::Done
}

/// Page by page.
async fn all(client: &Client) -> Result<Vec<Segment>, CallError> {
    let mut segments: Vec<Segment> = Vec::new();
    loop {
        let start_after = segments.last().map(|s| s.segment_id.clone()).unwrap_or_default();
        let page = client.list_segments(ListSegmentsRequest { start_after, limit: 0 }).await?;
        let end = page.segments.is_empty() || !page.more;
        segments.extend(page.segments);
        if end {
            return Ok(segments);
        }
    }
}

fn segment_json(s: &Segment) -> Value {
    json!({
        "segment": s.segment_id,
        "endpoint": s.endpoint,
        "base": s.base,
        "size": s.size,
        "free_bytes": s.free_bytes,
        "used_bytes": s.used_bytes,
        "held_bytes": s.held_bytes,
        "running_puts": s.running_puts,
        "quarantined_ms": s.quarantined_ms,
    })
}
