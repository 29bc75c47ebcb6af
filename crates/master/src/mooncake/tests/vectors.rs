//! Owns the tests that what the original wrote is read as what it meant.

use proptest::prelude::*;

use super::super::encode::{self, Fields, Style};
use super::super::*;
use super::{BODY, GROUP_AND_KIND, STATUS, five, hex, literal};
use crate::ClientId;

fn memory() -> ReplicaDescriptor {
    let buffer =
        Buffer { size: 4096, address: 0x7f00_0000_1000, protocol: "tcp".into(), endpoint: "10.0.0.1:12345".into() };
    ReplicaDescriptor { id: 7, location: Location::Memory(buffer), state: ReplicaState::Complete }
}

fn expected() -> MetadataPayload {
    MetadataPayload {
        client: ClientId::new(0x1122_3344_5566_7788_99aa_bbcc_ddee_ff00),
        size: 4096,
        replicas: vec![memory()],
        group_id: Some("g1".into()),
        data_type: Some(1),
        hard_pinned: Some(true),
    }
}

#[test]
fn every_version_of_an_objects_state_is_read() {
    assert_eq!(MetadataPayload::decode(&five()).unwrap(), expected());
    let four = hex(&format!("cde7f30f 01 5600 {BODY} {STATUS} {GROUP_AND_KIND}"));
    let with_kind = MetadataPayload { hard_pinned: None, ..expected() };
    assert_eq!(MetadataPayload::decode(&four).unwrap(), with_kind);
    let plain = MetadataPayload { group_id: None, data_type: None, ..with_kind };
    for hash in ["cce7f30f", "24dbb19c"] {
        assert_eq!(MetadataPayload::decode(&hex(&format!("{hash} {BODY} {STATUS}"))).unwrap(), plain, "{hash}");
    }
    let absent = hex(&format!("c33847c0 01 5300 {BODY} {STATUS} 00 00 00"));
    assert_eq!(MetadataPayload::decode(&absent).unwrap(), plain, "present and without a value");
}

#[test]
fn a_debug_build_embeds_its_type() {
    let debug = [&hex("c33847c0 05 9500")[..], &literal(), &five()[7..]].concat();
    assert_eq!((debug.len(), debug[..14].to_vec()), (0x95, hex("c33847c0 05 9500 fdfd04048989ff")));
    assert_eq!(MetadataPayload::decode(&debug).unwrap(), expected());
    let mount = Fields::new(1).string("seg-a").string("e:1").u64(9).u8(1).string("");
    let style = Style { literal: Some(&literal()[..60]), ..Style::BARE };
    assert_eq!(SegmentMountPayload::decode(&mount.sealed(0x7b47_0444, style)).unwrap().name, "seg-a");
}

#[test]
fn segments_are_read() {
    let mount = hex("4404477b 05 7365672d61 0e 31302e302e302e313a3132333435 0000004000000000 01 00");
    let expected = SegmentMountPayload {
        name: "seg-a".into(),
        endpoint: "10.0.0.1:12345".into(),
        capacity: 1 << 30,
        is_memory: true,
        file_path: String::new(),
    };
    assert_eq!(SegmentMountPayload::decode(&mount).unwrap(), expected);
    let long = [&hex("4504477b 08 2c01")[..], &[0x61; 300], &hex("0100 65 0000004000000000 01 0000")].concat();
    let read = SegmentMountPayload::decode(&long).unwrap();
    assert_eq!((read.name, read.endpoint.as_str(), read.capacity), ("a".repeat(300), "e", 1 << 30));
    let unmount = hex("6a5b783c 0e 31302e302e302e313a3132333435");
    assert_eq!(SegmentUnmountPayload::decode(&unmount).unwrap().endpoint, "10.0.0.1:12345");
}

#[test]
fn the_test_encoder_writes_the_originals_bytes() {
    assert_eq!(
        encode::mount("seg-a", "10.0.0.1:12345", 1 << 30),
        hex("4404477b 05 7365672d61 0e 31302e302e302e313a3132333435 0000004000000000 01 00")
    );
    assert_eq!(encode::unmount("10.0.0.1:12345"), hex("6a5b783c 0e 31302e302e302e313a3132333435"));
    let head = Fields::new(1).u64(0x1122_3344_5566_7788).u64(0x99aa_bbcc_ddee_ff00).u64(4096).count(1);
    let body = head.memory(7, 4096, 0x7f00_0000_1000, "10.0.0.1:12345", 3);
    let compatible = body.u8(1).string("g1").u8(1).u8(1).u8(1).u8(1);
    assert_eq!(compatible.sealed(0xc047_38c2, Style::PLAIN), five());
}

/// One replica of each kind, as its version numbers them.
#[test]
fn every_kind_of_replica_is_read_in_every_version() {
    let client = |fields: Fields| fields.u64(1).u64(2);
    let head = |count| client(Fields::new(1)).u64(100).count(count);
    let buffer = |fields: Fields| fields.u64(100).u64(64).string("rdma").string("e:2");
    let disk = |fields: Fields| fields.string("/d/x").u64(100);
    let local = |fields: Fields| client(fields).u64(100).string("e:3");
    let dfs = |fields: Fields| fields.string("/dfs/y").u64(10).u64(100).u64(4096).i32(-1);
    let build = |hash, kinds: &[(u8, &dyn Fn(Fields) -> Fields)]| {
        let all = kinds.iter().fold(head(kinds.len()), |out, (index, part)| part(out.u64(9).u8(*index)).i32(2));
        let style = if hash == 0xc047_38c2 { Style::PLAIN } else { Style::BARE };
        MetadataPayload::decode(&all.sealed(hash, style)).unwrap().replicas
    };
    let five = build(0xc047_38c2, &[(0, &buffer), (1, &buffer), (2, &disk), (3, &local), (4, &dfs)]);
    let four = build(0x0ff3_e7cc, &[(0, &buffer), (1, &buffer), (2, &disk), (3, &local)]);
    let three = build(0x9cb1_db24, &[(0, &buffer), (1, &disk), (2, &local)]);
    let place = Buffer { size: 100, address: 64, protocol: "rdma".into(), endpoint: "e:2".into() };
    let expected = [
        Location::Memory(place.clone()),
        Location::NoF(place),
        Location::Disk { path: "/d/x".into(), size: 100 },
        Location::LocalDisk { client: ClientId::new((1 << 64) | 2), size: 100, endpoint: "e:3".into() },
        Location::Dfs { path: "/dfs/y".into(), offset: 10, size: 100, aligned_size: 4096, shard: -1 },
    ];
    let locations = |read: Vec<ReplicaDescriptor>| read.into_iter().map(|r| r.location).collect::<Vec<_>>();
    assert_eq!(locations(five), expected);
    assert_eq!(locations(four), expected[..4]);
    assert_eq!(locations(three), [expected[0].clone(), expected[2].clone(), expected[3].clone()]);
}

proptest! {
    /// A type literal changes nothing, whatever zeros stand where in the fields behind it.
    #[test]
    fn a_debug_build_says_the_same(
        client in any::<u128>(),
        size in any::<u64>(),
        addresses in proptest::collection::vec(prop_oneof![any::<u64>(), 0_u64..70_000, Just(0x7f00_0000_1000)], 0..3),
        endpoint in "[a-z0-9.:]{0,24}",
        flags in 0_u8..8,
    ) {
        let head = Fields::new(1).u64((client >> 64) as u64).u64(client as u64).u64(size).count(addresses.len());
        let body = addresses.iter().fold(head, |out, address| out.memory(7, size, *address, &endpoint, 3));
        let group = if flags & 1 == 0 { body.u8(0) } else { body.u8(1).string("g") };
        let kind = if flags & 2 == 0 { group.u8(0) } else { group.u8(1).u8(4) };
        let all = if flags & 4 == 0 { kind.u8(0) } else { kind.u8(1).u8(1) };
        let debug = Style { literal: Some(&literal()[..60]), ..Style::PLAIN };
        let release = MetadataPayload::decode(&all.clone().sealed(0xc047_38c2, Style::PLAIN)).unwrap();
        prop_assert_eq!(MetadataPayload::decode(&all.sealed(0xc047_38c2, debug)).unwrap(), release);
    }

    /// Whatever widths lengths and total have: the fields are the same.
    #[test]
    fn every_width_is_read(
        total in prop::sample::select(vec![0_usize, 2, 4, 8]),
        length in prop::sample::select(vec![1_usize, 2, 4, 8]),
        name in "[a-z]{0,40}",
        endpoint in "\\PC{0,40}",
        capacity in any::<u64>(),
        is_memory in any::<bool>(),
    ) {
        let fields = Fields::new(length).string(&name).string(&endpoint).u64(capacity).u8(u8::from(is_memory)).string("/f");
        let bytes = fields.sealed(0x7b47_0444, Style { total, length, literal: None });
        let read = SegmentMountPayload::decode(&bytes).unwrap();
        let expected = SegmentMountPayload { name, endpoint, capacity, is_memory, file_path: "/f".into() };
        prop_assert_eq!(read, expected);
    }
}
