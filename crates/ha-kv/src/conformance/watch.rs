//! Owns the cases about hints. A hint may be lost, so a change is repeated before a watch is called deaf.

use std::time::Duration;

use bytes::Bytes;

use super::case::{Cx, Verdict, Violation, ensure};
use crate::HintStream;

const PATIENCE: Duration = Duration::from_secs(2);
const QUIET: Duration = Duration::from_millis(50);
const TRIES: u32 = 5;

/// Takes the hints that come without a change.
async fn settle(stream: &mut HintStream) -> Verdict {
    for _ in 0..100 {
        match tokio::time::timeout(QUIET, stream.changed()).await {
            Err(_) => return Ok(()),
            Ok(hint) => hint?,
        }
    }
    // A store that hints all the time is allowed to, if wasteful.
    Ok(())
}

/// Changes the store until the stream hints.
async fn hinted(cx: &Cx<'_>, stream: &mut HintStream, key: &Bytes, delete: bool) -> Result<bool, Violation> {
    for number in 0..TRIES {
        if delete && number > 0 {
            cx.client(1)?.kv.put(key, Bytes::from(number.to_string())).await?;
            settle(stream).await?;
        }
        if delete {
            cx.client(1)?.kv.delete(key).await?;
        } else {
            cx.client(1)?.kv.put(key, Bytes::from(number.to_string())).await?;
        }
        match tokio::time::timeout(PATIENCE, stream.changed()).await {
            Ok(hint) => {
                hint?;
                return Ok(true);
            }
            Err(_) => continue,
        }
    }
    Ok(false)
}

pub(super) async fn change_is_hinted(cx: &Cx<'_>) -> Verdict {
    let (start, end) = cx.all();
    let mut stream = cx.watch(0)?.watch(&start, &end).await?;
    settle(&mut stream).await?;
    let key = cx.key("k");
    for delete in [false, true, false] {
        ensure!(hinted(cx, &mut stream, &key, delete).await?, "no hint came after a change (delete: {delete})");
        settle(&mut stream).await?;
    }
    Ok(())
}

pub(super) async fn two_watches_are_independent(cx: &Cx<'_>) -> Verdict {
    let (start, end) = cx.all();
    let first = cx.watch(0)?.watch(&start, &end).await?;
    let mut second = cx.watch(0)?.watch(&start, &end).await?;
    settle(&mut second).await?;
    drop(first);
    ensure!(
        hinted(cx, &mut second, &cx.key("k"), false).await?,
        "the second watch went deaf with the end of the first"
    );
    drop(second);
    let mut third = cx.watch(0)?.watch(&start, &end).await?;
    settle(&mut third).await?;
    ensure!(hinted(cx, &mut third, &cx.key("k"), false).await?, "a watch after all others ended is deaf");
    Ok(())
}
