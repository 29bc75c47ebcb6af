//! Golden bytes, refusals, and survival of arbitrary bytes.
use ha_types::{Epoch, Owner};
use proptest::prelude::*;

use super::*;

fn incarnation() -> ObjectIncarnation {
    ObjectIncarnation::of_claim(Epoch::new(7), Owner::new(0x9f3c_5a1e_0b7d_4c22), 5).unwrap()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn replicas_of<'a>(put: &PutEnd<'a>) -> Result<Vec<ReplicaRecord<'a>>, PayloadError> {
    let mut out = Vec::new();
    put.each_replica(|replica| {
        out.push(replica);
        Ok::<(), PayloadError>(())
    })?;
    Ok(out)
}

const PUT_END: &str =
    "01 00000007 0b7d4c22 0000000000000005 0123456789abcdef 0011223344556677 8020 01 05 7365672d61 808004";

#[test]
fn golden_put_end() {
    let client = ClientId::new(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
    let replica = ReplicaRecord { segment: "seg-a", address: 0x10000 };
    let bytes = PutEnd::encode(incarnation(), client, 4096, [replica].into_iter());
    assert_eq!(bytes, hex(PUT_END));
    let put = PutEnd::decode(&bytes).unwrap();
    assert_eq!((put.incarnation, put.client, put.size), (incarnation(), client, 4096));
    assert_eq!(replicas_of(&put).unwrap(), [replica]);
}

#[test]
fn golden_others() {
    assert_eq!(encode_incarnation(incarnation()).to_vec(), hex("01 00000007 0b7d4c22 0000000000000005"));
    let mount = Mount { endpoint: "10.0.0.1:9000", base: 0x10000, size: 1 << 30 };
    assert_eq!(mount.encode(), hex("01 0d 31302e302e302e313a39303030 808004 8080808004"));
    assert_eq!(Mount::decode(&mount.encode()).unwrap(), mount);
    assert_eq!(encode_endpoint("h:1"), hex("01 03 683a31"));
    assert_eq!(decode_endpoint(&hex("01 03 683a31")).unwrap(), "h:1");
    assert_eq!(LoggedPolicy::INITIAL.encode(), hex("01 00 d00f 8827 b0ea01 b0ea01"));
    assert_eq!(LoggedPolicy::decode(&LoggedPolicy::INITIAL.encode()).unwrap(), LoggedPolicy::INITIAL);
    assert_eq!(UNMOUNT.to_vec(), hex("01"));
}

#[test]
fn d8_another_version_a_cut_and_a_longer_payload_are_refused() {
    let whole = hex(PUT_END);
    let decode = |bytes: &[u8]| PutEnd::decode(bytes).and_then(|put| replicas_of(&put).map(|_| ()));
    assert!(decode(&whole).is_ok());
    for cut in 0..whole.len() {
        assert!(decode(&whole[..cut]).is_err(), "{cut} bytes");
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(decode(&longer).unwrap_err().reason.contains("expected the end"));
    let mut newer = whole;
    newer[0] = 2;
    assert!(decode(&newer).unwrap_err().to_string().contains("expected version 1, found 2"));
}

#[test]
fn an_empty_remove_or_one_without_an_incarnation_is_not_read_as_legacy() {
    assert!(decode_incarnation(OpType::Remove, &[]).is_err());
    assert!(decode_incarnation(OpType::Remove, &[VERSION]).is_err());
    let zero: Vec<u8> = std::iter::once(VERSION).chain([0; 16]).collect();
    assert!(decode_incarnation(OpType::PutRevoke, &zero).unwrap_err().reason.contains("all zero"));
    assert_eq!(decode_incarnation(OpType::Remove, &zero).unwrap(), ObjectIncarnation::LEGACY);
}

#[test]
fn values_out_of_range_are_refused() {
    let client = ClientId::new(1);
    assert!(PutEnd::decode(&PutEnd::encode(incarnation(), client, 0, std::iter::empty())).is_err());
    assert!(PutEnd::decode(&PutEnd::encode(incarnation(), client, 1, std::iter::empty())).is_err());
    let many = vec![ReplicaRecord { segment: "s", address: 0 }; 33];
    assert!(PutEnd::decode(&PutEnd::encode(incarnation(), client, 1, many.into_iter())).is_err());
    for (base, size) in [(0, 0), (u64::MAX, 1), (1, u64::MAX)] {
        assert!(Mount::decode(&Mount { endpoint: "h:1", base, size }.encode()).is_err(), "{base} {size}");
    }
    assert!(Mount::decode(&Mount { endpoint: "", base: 0, size: 1 }.encode()).is_err());
    assert!(decode_endpoint(&encode_endpoint(&"x".repeat(256))).is_err());
    assert!(LoggedPolicy::decode(&LoggedPolicy { quarantine_ms: 1, ..LoggedPolicy::INITIAL }.encode()).is_err());
    assert!(LoggedPolicy::decode(&hex("01 01 d00f 8827 b0ea01 b0ea01")).unwrap_err().reason.contains("scope"));
    assert!(segment_of_key(OpType::SegmentMount, &[0xff]).is_err());
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), versioned in any::<bool>()) {
        let mut bytes = bytes;
        if versioned && let Some(first) = bytes.first_mut() {
            *first = VERSION;
        }
        if let Ok(put) = PutEnd::decode(&bytes) {
            let _ = replicas_of(&put);
        }
        let _ = decode_incarnation(OpType::Remove, &bytes);
        let _ = Mount::decode(&bytes);
        let _ = decode_endpoint(&bytes);
        let _ = decode_unmount(&bytes);
        let _ = LoggedPolicy::decode(&bytes);
        let _ = segment_of_key(OpType::SegmentMount, &bytes);
    }

    #[test]
    fn put_end_round_trips(
        size in 1..=u64::MAX,
        client in any::<u128>(),
        replicas in proptest::collection::vec(("[a-z]{1,40}", any::<u64>()), 1..33),
    ) {
        let records = || replicas.iter().map(|(segment, address)| ReplicaRecord { segment, address: *address });
        let bytes = PutEnd::encode(incarnation(), ClientId::new(client), size, records());
        let put = PutEnd::decode(&bytes).unwrap();
        prop_assert_eq!(put.size, size);
        prop_assert_eq!(put.client.get(), client);
        prop_assert_eq!(replicas_of(&put).unwrap(), records().collect::<Vec<_>>());
    }
}
