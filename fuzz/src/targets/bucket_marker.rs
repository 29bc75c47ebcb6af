//! Owns the marker of a bucket directory: what decodes encodes to the same bytes; as it stands, and with its checksum put right.

use bucket_store::format::marker::Marker;
use ha_types::{ClusterId, SegmentId};

use super::refused_file;
use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "bucket_marker", run, seeds };

fn run(data: &[u8]) -> Verdict {
    if let Some(repaired) = with_checksum(data) {
        one(&repaired);
    }
    one(data)
}

fn one(data: &[u8]) -> Verdict {
    match bound::within(data.len(), 16, || Marker::decode(data)) {
        Ok(marker) => {
            assert_eq!(marker.encode(), data, "one identity, one file");
            Verdict::Accepted
        }
        Err(e) => refused_file(&e, data),
    }
}

fn with_checksum(data: &[u8]) -> Option<Vec<u8>> {
    let mark = b"crc32c ";
    let at = data.windows(mark.len()).rposition(|window| window == mark)?;
    let text = data.get(..at)?;
    Some([text, mark, format!("{:08x}\n", crc32c::crc32c(text)).as_bytes()].concat())
}

fn seeds() -> Vec<Seed> {
    let segment = SegmentId::new("ssd-7 \u{20ac}").expect("a segment id");
    let file = Marker { segment, cluster: ClusterId::new("c1").expect("a cluster id") }.encode();
    let text = String::from_utf8_lossy(&file).into_owned();
    vec![
        Seed::bad("a_bare_id", "0f8c1f0e-8d5c-4a57-9f0d-9d0c8a3c2f11\n"),
        Seed::bad("unknown_version", text.replacen('1', "2", 1)),
        Seed::bad("wrong_checksum", text.replace("cluster c1", "cluster c2")),
        Seed::bad("two_lines_of_cluster", text.replace("cluster c1", "cluster c1\ncluster c1")),
        Seed::bad("no_newline", text.trim_end()),
        Seed::good("plain", file),
    ]
}
