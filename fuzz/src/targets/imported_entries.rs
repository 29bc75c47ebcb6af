//! Owns entries that Mooncake wrote, applied to the master's state: what is refused has changed nothing.

use ha_types::Epoch;
use master::mooncake::encode;

use super::master_entries::{apply, entry};
use crate::{Seed, Target, Verdict};

pub(crate) const TARGET: Target = Target { name: "imported_entries", run, seeds };

fn run(data: &[u8]) -> Verdict {
    apply(data, Epoch::ZERO)
}

fn seeds() -> Vec<Seed> {
    let mount = entry(5, b"seg-a", &encode::mount("seg-a", "host:1", 1 << 20));
    let put = entry(1, b"key1", &encode::put_end(7, 64, 4096, "host:1"));
    let gone = entry(3, b"key1", b"");
    let unmount = entry(6, b"seg-a", &encode::unmount("host:1"));
    vec![
        Seed::good("mount", mount.clone()),
        Seed::good("life", [&mount[..], &put, &gone, &unmount].concat()),
        Seed::bad("cut", [&mount[..], &entry(1, b"key1", b"\xc2\x38\x47\xc0")].concat()),
        Seed::bad("unknown_op", entry(9, b"k", b"")),
    ]
}
