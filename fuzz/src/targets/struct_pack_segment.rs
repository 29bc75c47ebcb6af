//! Owns Mooncake's payloads of segments: what is read is written the same by the encoder for tests, and read again.

use master::mooncake::encode::{self, Fields, Style};
use master::mooncake::{SegmentMountPayload, SegmentUnmountPayload};

use super::struct_pack_metadata::refused;
use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "struct_pack_segment", run, seeds };

/// The end of a type literal has to be found, by trying a few dozen places.
const PER_BYTE: usize = 64 * 8;

fn run(data: &[u8]) -> Verdict {
    let unmount = bound::within(data.len(), PER_BYTE, || SegmentUnmountPayload::decode(data));
    if let Ok(unmount) = &unmount {
        let bytes = Fields::new(8).string(&unmount.endpoint).sealed(0x3c78_5b6a, WIDE);
        assert_eq!(SegmentUnmountPayload::decode(&bytes).as_ref(), Ok(unmount), "what was read is what is written");
    }
    let mount = bound::within(data.len(), PER_BYTE, || SegmentMountPayload::decode(data));
    if let Ok(mount) = &mount {
        let head = Fields::new(8).string(&mount.name).string(&mount.endpoint).u64(mount.capacity);
        let bytes = head.u8(mount.is_memory.into()).string(&mount.file_path).sealed(0x7b47_0444, WIDE);
        assert_eq!(SegmentMountPayload::decode(&bytes).as_ref(), Ok(mount), "what was read is what is written");
    }
    assert!(mount.is_err() || unmount.is_err(), "one payload is not of two types");
    match (mount, unmount) {
        (Err(e), Err(other)) => {
            refused(&other, data);
            refused(&e, data)
        }
        _ => Verdict::Accepted,
    }
}

/// Every length in eight bytes, so that any fits.
const WIDE: Style<'_> = Style { total: 8, length: 8, literal: None };

fn seeds() -> Vec<Seed> {
    let mount = encode::mount("seg-a", "host:1", 1 << 30);
    let cut = mount.get(..mount.len() - 1).unwrap_or_default().to_vec();
    vec![
        Seed::good("unmount", encode::unmount("host:1")),
        Seed::bad("cut", cut),
        Seed::bad("trailing", [&mount[..], b"\0"].concat()),
        Seed::bad("unknown_hash", [&[2, 0, 0, 0][..], &[0; 24]].concat()),
        Seed::good("mount", mount),
    ]
}
