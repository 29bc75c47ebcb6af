//! Owns the cases about ranges and pages.

use bytes::Bytes;

use super::case::{Cx, Verdict, Violation, ensure};
use crate::{Effect, KvErrorKind, KvPair, RangeLimit};

const ALL: RangeLimit = RangeLimit::pairs(usize::MAX);

/// Puts the keys, out of order, each with a value of `value_bytes` bytes, and gives them in order.
async fn fill(cx: &Cx<'_>, keys: &[&[u8]], value_bytes: usize) -> Result<Vec<Bytes>, Violation> {
    let mut keys: Vec<Bytes> = keys.iter().map(|k| cx.key(k)).collect();
    keys.sort();
    let (front, back) = keys.split_at(keys.len() / 2);
    for key in back.iter().chain(front.iter().rev()) {
        cx.client(0)?.kv.put(key, Bytes::from(vec![b'v'; value_bytes])).await?;
    }
    Ok(keys)
}

fn keys_of(pairs: &[KvPair]) -> Vec<Bytes> {
    pairs.iter().map(|p| p.key.clone()).collect()
}

/// Reads all pages of the case's range.
async fn pages(cx: &Cx<'_>, limit: RangeLimit) -> Result<Vec<Vec<KvPair>>, Violation> {
    let (mut start, end) = cx.all();
    let mut pages = Vec::new();
    loop {
        let page = cx.client(1)?.kv.range(&start, &end, limit).await?;
        let Some(last) = page.pairs.last() else {
            ensure!(!page.more, "an empty page says that more follows");
            return Ok(pages);
        };
        start = [&last.key[..], &[0]].concat().into();
        let more = page.more;
        pages.push(page.pairs);
        if !more {
            return Ok(pages);
        }
        ensure!(pages.len() < 10_000, "the pages never end");
    }
}

pub(super) async fn range_is_ordered_and_half_open(cx: &Cx<'_>) -> Verdict {
    // In unsigned byte order, in which 0x80 and above come last.
    let keys: [&[u8]; 8] = [b"", b"\0", b"a", b"a\0", b"ab", b"b", b"\x80", b"\xff\xff"];
    let all = fill(cx, &keys, 1).await?;
    let kv = &cx.client(0)?.kv;
    let (start, end) = cx.all();
    let page = kv.range(&start, &end, ALL).await?;
    ensure!(keys_of(&page.pairs) == all && !page.more, "the whole range reads as {page:?}");
    for (from, to) in [(0, 3), (2, 5), (3, 4), (1, 7)] {
        let (Some(wanted), Some(first), Some(after)) = (all.get(from..to), all.get(from), all.get(to)) else {
            continue;
        };
        let page = kv.range(first, after, ALL).await?;
        ensure!(keys_of(&page.pairs) == wanted && !page.more, "from {first:?} to before {after:?} reads as {page:?}");
    }
    Ok(())
}

pub(super) async fn range_without_keys_is_empty(cx: &Cx<'_>) -> Verdict {
    fill(cx, &[b"b", b"d"], 1).await?;
    let kv = &cx.client(0)?.kv;
    for (start, end) in [("c", "d"), ("b", "b"), ("d", "b"), ("e", "f"), ("a", "b")] {
        let page = kv.range(&cx.key(start), &cx.key(end), ALL).await?;
        ensure!(page.pairs.is_empty() && !page.more, "from {start} to before {end} reads as {page:?}");
    }
    let refused = kv.range(b"", &cx.key("a"), ALL).await.err().map(|e| (e.kind, e.effect));
    ensure!(
        refused == Some((KvErrorKind::InvalidArgument, Effect::NotApplied)),
        "a range that starts with the empty key is answered {refused:?}"
    );
    Ok(())
}

pub(super) async fn pages_by_pairs_cover_everything_once(cx: &Cx<'_>) -> Verdict {
    let keys: Vec<[u8; 1]> = (0..10).map(|n| [n * 25]).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|k| &k[..]).collect();
    let all = fill(cx, &keys, 3).await?;
    for limit in [1, 3, 5, 9, 10, 11] {
        let pages = pages(cx, RangeLimit::pairs(limit)).await?;
        ensure!(keys_of(&pages.concat()) == all, "pages of {limit} pairs give {pages:?}");
        let expected = all.len().div_ceil(limit);
        ensure!(pages.len() == expected, "{limit} pairs a page make {} pages, not {expected}", pages.len());
    }
    Ok(())
}

pub(super) async fn pages_by_bytes_cover_everything_once(cx: &Cx<'_>) -> Verdict {
    let all = fill(cx, &[b"a", b"b", b"c", b"d", b"e"], 100).await?;
    let pair_bytes = all.first().map_or(0, |key| key.len() + 100);
    // A page holds one pair, however large, and no further one once the limit is reached.
    for (bytes, per_page) in
        [(0, 1), (1, 1), (pair_bytes, 1), (pair_bytes + 1, 2), (2 * pair_bytes, 2), (100 * pair_bytes, 5)]
    {
        let pages = pages(cx, RangeLimit { pairs: usize::MAX, bytes }).await?;
        ensure!(keys_of(&pages.concat()) == all, "pages of {bytes} bytes give {pages:?}");
        let first = pages.first().map_or(0, Vec::len);
        ensure!(first <= per_page, "a page of {bytes} bytes holds {first} pairs, not at most {per_page}");
    }
    Ok(())
}

/// The most that this case stores.
const AFFORDABLE_BYTES: usize = 12 << 20;

pub(super) async fn replies_above_the_limit_are_paged(cx: &Cx<'_>) -> Verdict {
    let capabilities = cx.capabilities()?;
    let value_bytes = (capabilities.max_reply_bytes / 3).min(capabilities.max_value_bytes.saturating_sub(1024)).max(1);
    let count = capabilities.max_reply_bytes / value_bytes + 3;
    if count.saturating_mul(value_bytes) > AFFORDABLE_BYTES || count > 200 {
        return Err(Violation::Skipped(format!(
            "the reply limit of {} bytes is too large to try",
            capabilities.max_reply_bytes
        )));
    }
    let keys: Vec<[u8; 1]> = (0..u8::try_from(count).unwrap_or(u8::MAX)).map(|n| [n]).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|k| &k[..]).collect();
    let all = fill(cx, &keys, value_bytes).await?;
    let pages = pages(cx, ALL).await?;
    ensure!(keys_of(&pages.concat()) == all, "{count} values of {value_bytes} bytes are not all read");
    ensure!(pages.len() > 1, "a reply is above the declared limit");
    let (start, end) = cx.all();
    cx.client(0)?.kv.delete_range(&start, &end).await?;
    Ok(())
}

pub(super) async fn delete_range_removes_that_range_only(cx: &Cx<'_>) -> Verdict {
    fill(cx, &[b"a", b"b", b"b\0", b"c", b"d\xff", b"e"], 1).await?;
    let kv = &cx.client(0)?.kv;
    for (start, end, gone) in [("b", "d", 3), ("b", "d", 0), ("e", "a", 0), ("d", "d", 0)] {
        let counted = kv.delete_range(&cx.key(start), &cx.key(end)).await?;
        ensure!(counted == gone, "from {start} to before {end}, {counted} keys are said to be removed, not {gone}");
    }
    let (start, end) = cx.all();
    let left = keys_of(&kv.range(&start, &end, ALL).await?.pairs);
    ensure!(left == [cx.key("a"), cx.key(b"d\xff"), cx.key("e")], "left are {left:?}");
    Ok(())
}
