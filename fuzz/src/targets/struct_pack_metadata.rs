//! Owns Mooncake's payload of objects, in all its variants: what is read is written the same by the encoder for tests, and read again.

use master::mooncake::encode::{self, Fields, Style};
use master::mooncake::{Buffer, Location, MetadataPayload, ReplicaState, StructPackError};

use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "struct_pack_metadata", run, seeds };

/// The type with five kinds of replicas, which has all the others have.
const FIVE: u32 = 0xc047_38c2;

fn run(data: &[u8]) -> Verdict {
    // The end of a type literal has to be found, by trying a few dozen places.
    let literal = data.first().is_some_and(|hash| hash & 1 != 0) && data.get(4).is_some_and(|bits| bits & 4 != 0);
    match bound::within(data.len(), if literal { 64 * 16 } else { 64 }, || MetadataPayload::decode(data)) {
        Ok(payload) => {
            let again = MetadataPayload::decode(&written(&payload));
            assert_eq!(again.as_ref(), Ok(&payload), "what was read is what is written");
            Verdict::Accepted
        }
        Err(e) => refused(&e, data),
    }
}

pub(super) fn refused(e: &StructPackError, data: &[u8]) -> Verdict {
    assert!(!e.payload.is_empty());
    Verdict::refused_at(e, data, (e.field, e.offset), (&e.expected, &e.found))
}

fn written(payload: &MetadataPayload) -> Vec<u8> {
    let client = |out: Fields, bytes: [u8; 16]| {
        let id = u128::from_be_bytes(bytes);
        out.u64((id >> 64) as u64).u64(id as u64)
    };
    let buffer = |out: Fields, b: &Buffer| out.u64(b.size).u64(b.address).string(&b.protocol).string(&b.endpoint);
    let mut out = client(Fields::new(8), payload.client.to_bytes()).u64(payload.size).count(payload.replicas.len());
    for replica in &payload.replicas {
        out = out.u64(replica.id);
        out = match &replica.location {
            Location::Memory(at) => buffer(out.u8(0), at),
            Location::NoF(at) => buffer(out.u8(1), at),
            Location::Disk { path, size } => out.u8(2).string(path).u64(*size),
            Location::LocalDisk { client: id, size, endpoint } => {
                client(out.u8(3), id.to_bytes()).u64(*size).string(endpoint)
            }
            Location::Dfs { path, offset, size, aligned_size, shard } => {
                out.u8(4).string(path).u64(*offset).u64(*size).u64(*aligned_size).i32(*shard)
            }
        };
        out = out.i32(match replica.state {
            ReplicaState::Undefined => 0,
            ReplicaState::Initialized => 1,
            ReplicaState::Processing => 2,
            ReplicaState::Complete => 3,
            ReplicaState::Removed => 4,
            ReplicaState::Failed => 5,
        });
    }
    out = match &payload.group_id {
        Some(group) => out.u8(1).string(group),
        None => out.u8(0),
    };
    out = match payload.data_type {
        Some(kind) => out.u8(1).u8(kind),
        None => out.u8(0),
    };
    out = match payload.hard_pinned {
        Some(pinned) => out.u8(1).u8(pinned.into()),
        None => out.u8(0),
    };
    out.sealed(FIVE, Style { total: 8, length: 8, literal: None })
}

fn seeds() -> Vec<Seed> {
    let one = encode::put_end(7, 4096, 1 << 32, "host:1");
    let two = encode::put_end_in(u128::MAX, 1, &[(1, 2, "a:1", 3), (1, 4096, "b:2", 1)]);
    let literal = |of: &'static [u8]| {
        let fields = Fields::new(1).u64(0).u64(7).u64(64).count(0).u8(0).u8(0).u8(0);
        fields.sealed(FIVE, Style { total: 4, length: 1, literal: Some(of) })
    };
    let cut = one.get(..one.len() - 2).unwrap_or_default().to_vec();
    let long = Fields::new(1).u64(0).u64(7).u64(64).count(200).sealed(FIVE, Style::PLAIN);
    let zeros = Fields::new(1).raw(&[0; 300]).sealed(FIVE, Style { total: 4, length: 1, literal: Some(b"ab\xff") });
    let foreign = Fields::new(2)
        .u64(0)
        .u64(7)
        .u64(64)
        .count(1)
        .u64(1)
        .u8(2)
        .count(604)
        .raw(b"path")
        .raw(&[0xfe; 600])
        .sealed(FIVE, Style { total: 4, length: 2, literal: None });
    vec![
        Seed::good("two", two),
        Seed::bad("literal_before_zeros", zeros),
        Seed::bad("no_text", foreign),
        Seed::good("literal", literal(b"ab\xff")),
        Seed::bad("literal_without_end", literal(b"ab")),
        Seed::bad("cut", cut),
        Seed::bad("more_replicas_than_bytes", long),
        Seed::bad("unknown_hash", [&[2, 0, 0, 0][..], &[0; 24]].concat()),
        Seed::good("one", one),
    ]
}
