//! Owns the messages of the gRPC interface: the first byte says which, the rest are its bytes. What decodes, under whatever message, is
//! encoded to bytes that decode to the same; an error's detail comes through a status.

use std::fmt::Debug;

use ha_rpc::v1::*;
use prost::Message;
use tonic::{Code, Status};

use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "rpc_messages", run, seeds };

/// What a message may allocate for each byte: two bytes can be an empty element of a list, and lists grow by doubling.
const PER_BYTE: usize = 640;

type Decode = fn(&[u8]) -> Result<(), prost::DecodeError>;

/// Decodes as `M` and checks what must hold of what decodes.
fn decode<M: Message + Default + PartialEq + Debug>(data: &[u8]) -> Result<(), prost::DecodeError> {
    let message = bound::within(data.len(), PER_BYTE, || M::decode(data))?;
    let bytes = message.encode_to_vec();
    assert_eq!(bytes.len(), message.encoded_len());
    // Unknown fields are dropped, and a number may have been written in more bytes than it needs; a list of numbers comes out packed.
    assert_eq!(M::decode(&*bytes).expect("what we encode decodes"), message, "the same message comes back");
    Ok(())
}

macro_rules! messages {
    ($($message:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($message)),*];
        const DECODE: &[Decode] = &[$(decode::<$message>),*];
    };
}

messages! {
    StepDownRequest StepDownReply SetPolicyRequest SetPolicyReply StatusRequest StatusReply
    MountSegmentRequest MountSegmentReply UpdateSegmentRequest UpdateSegmentReply UnmountSegmentRequest UnmountSegmentReply
    ListSegmentsRequest ListSegmentsReply PutStartRequest PutStartReply PutEndRequest PutEndReply PutRevokeRequest PutRevokeReply
    GetRequest GetReply ExistsRequest ExistsReply ListRequest ListReply ListedObject RemoveRequest RemoveReply
    BatchRemoveRequest BatchRemoveReply RemoveResult ErrorDetail ReplicaRange Segment Policy
}

fn run(data: &[u8]) -> Verdict {
    for decode in DECODE {
        let _ = decode(data);
    }
    detail(data);
    let Some((which, body)) = data.split_first() else { return Verdict::Refused("no message".to_owned()) };
    let Some(decode) = DECODE.get(usize::from(*which)) else { return Verdict::Refused("no such message".to_owned()) };
    match decode(body) {
        Ok(()) => Verdict::Accepted,
        Err(e) => {
            assert!(e.to_string().len() <= 4096, "an error of {} bytes", e.to_string().len());
            Verdict::refused(&e)
        }
    }
}

/// A status with hostile details gives a detail or none; a detail that is sent as a status comes back, its message cut at the most.
fn detail(data: &[u8]) {
    let status = Status::with_details(Code::Unavailable, "", data.to_vec().into());
    let Some(detail) = ErrorDetail::of(&status) else { return };
    assert_ne!(detail.code(), ErrorCode::Unspecified);
    let sent = Status::from(detail.clone());
    assert!(sent.message().len() <= ha_rpc::MAX_ERROR_MESSAGE_BYTES);
    let back = ErrorDetail::of(&sent).expect("what we send is read");
    assert_eq!(back, detail.shortened(ha_rpc::MAX_ERROR_MESSAGE_BYTES));
}

fn seed(name: &str, message: &impl Message) -> Vec<u8> {
    let which = NAMES.iter().position(|known| *known == name).expect("a message of the table");
    [&[u8::try_from(which).expect("few messages")][..], &message.encode_to_vec()].concat()
}

fn seeds() -> Vec<Seed> {
    let range = ReplicaRange { segment_id: "s".into(), endpoint: "h:1".into(), address: 4096, length: 64 };
    let get = GetReply { incarnation: vec![7; 16].into(), size: 64, replicas: vec![range; 2], lease_ms: 10_000 };
    let put = PutStartRequest {
        tenant: "t".into(),
        key: b"k\xff".to_vec().into(),
        size: 1 << 40,
        replicas: 2,
        client_id: vec![1; 16].into(),
    };
    let remove =
        BatchRemoveRequest { keys: vec![b"a".to_vec().into(), b"b".to_vec().into()], ..BatchRemoveRequest::default() };
    let policy = SetPolicyRequest { put_grant_ms: Some(0), default_lease_ms: None, longest_lease_ms: Some(u64::MAX) };
    let moved = ErrorDetail {
        leader_address: "h:1".into(),
        retry_after_ms: 5,
        ..ErrorDetail::new(ErrorCode::NotLeader, "told so")
    };
    let of = |name, body: &[u8]| [seed(name, &StatusRequest {}), body.to_vec()].concat();
    vec![
        Seed::good("get_reply", seed("GetReply", &get)),
        Seed::good("put_start", seed("PutStartRequest", &put)),
        Seed::good("batch_remove", seed("BatchRemoveRequest", &remove)),
        Seed::good("set_policy", seed("SetPolicyRequest", &policy)),
        Seed::good("not_leader", seed("ErrorDetail", &moved)),
        Seed::good("empty", seed("StatusRequest", &StatusRequest {})),
        Seed::good("unknown_field", of("StatusRequest", &[0xfa, 0x3f, 1, b'x'])),
        Seed::good("unknown_code", of("ErrorDetail", &[8, 0xff, 0x7f])),
        Seed::good("empty_elements", of("ListReply", &[10, 0].repeat(40))),
        Seed::bad("no_message", vec![]),
        Seed::bad("no_such_message", vec![0xff, 8, 1]),
        Seed::bad("length_beyond", of("GetRequest", &[10, 0xff, 0xff, 0xff, 0xff, 0x0f, b'x'])),
        Seed::bad("no_text", of("GetRequest", &[10, 1, 0xff])),
        Seed::bad(
            "endless_number",
            of("GetRequest", &[0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        ),
        Seed::bad("wrong_wire_type", of("GetRequest", &[8, 1])),
        Seed::bad("field_zero", of("GetRequest", &[0, 0])),
        Seed::bad("nested_groups", of("GetRequest", &[0xfb, 0x3f].repeat(200))),
    ]
}
