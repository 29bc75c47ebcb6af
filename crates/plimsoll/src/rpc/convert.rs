//! Owns the mapping between messages and the master's words.

use ha_rpc::v1::{self, Durability, ErrorCode, ErrorDetail};
use ha_types::{ObjectIncarnation, ObjectKey, SegmentId, TenantId};
use master::{ClientId, GetReply, ListPage, MasterError, Policy, Promise, PutGrant, ReplicaRange, SegmentInfo};

/// INVALID with its sentence.
pub(super) fn invalid(sentence: impl ToString) -> ErrorDetail {
    ErrorDetail::new(ErrorCode::Invalid, sentence.to_string())
}

pub(super) fn tenant(text: &str) -> Result<TenantId, ErrorDetail> {
    if text.is_empty() { Ok(TenantId::default_tenant()) } else { TenantId::new(text).map_err(invalid) }
}

pub(super) fn key(bytes: &[u8]) -> Result<ObjectKey, ErrorDetail> {
    ObjectKey::new(bytes).map_err(invalid)
}

pub(super) fn segment_id(text: &str) -> Result<SegmentId, ErrorDetail> {
    SegmentId::new(text).map_err(invalid)
}

pub(super) fn incarnation(bytes: &[u8]) -> Result<ObjectIncarnation, ErrorDetail> {
    let bytes = sixteen("incarnation", "give the one that PutStart answered", bytes)?;
    Ok(ObjectIncarnation::from_bytes(bytes))
}

pub(super) fn client_id(bytes: &[u8]) -> Result<ClientId, ErrorDetail> {
    sixteen("client_id", "draw 16 at random once per client", bytes).map(ClientId::from_bytes)
}

fn sixteen(name: &str, remedy: &str, bytes: &[u8]) -> Result<[u8; 16], ErrorDetail> {
    bytes.try_into().map_err(|_| invalid(format!("{name} has {} bytes instead of 16; {remedy}", bytes.len())))
}

pub(super) fn promise(asked: i32) -> Result<Promise, ErrorDetail> {
    match Durability::try_from(asked) {
        Ok(Durability::Unspecified | Durability::Durable) => Ok(Promise::Durable),
        Ok(Durability::Accepted) => Ok(Promise::Accepted),
        Err(_) => Err(invalid(format!("durability is {asked}; give DURABLE (1) or ACCEPTED (2)"))),
    }
}

/// What a reply says it promises.
pub(super) fn promised(promise: Promise) -> i32 {
    match promise {
        Promise::Durable => Durability::Durable.into(),
        Promise::Accepted => Durability::Accepted.into(),
    }
}

pub(super) fn grant(grant: PutGrant) -> v1::PutStartReply {
    v1::PutStartReply {
        incarnation: grant.incarnation.to_bytes().to_vec().into(),
        replicas: grant.replicas.into_iter().map(range).collect(),
        grant_ms: grant.grant_ms,
    }
}

pub(super) fn get_reply(reply: GetReply) -> v1::GetReply {
    v1::GetReply {
        incarnation: reply.incarnation.to_bytes().to_vec().into(),
        size: reply.size,
        replicas: reply.replicas.into_iter().map(range).collect(),
        lease_ms: reply.lease_ms,
    }
}

fn range(range: ReplicaRange) -> v1::ReplicaRange {
    v1::ReplicaRange {
        segment_id: range.segment.as_str().to_owned(),
        endpoint: range.endpoint.as_ref().to_owned(),
        address: range.address,
        length: range.length,
    }
}

pub(super) fn segment(info: SegmentInfo) -> v1::Segment {
    v1::Segment {
        segment_id: info.segment.as_str().to_owned(),
        endpoint: info.endpoint.as_ref().to_owned(),
        base: info.base,
        size: info.size,
        free_bytes: info.free_bytes,
        used_bytes: info.used_bytes,
        held_bytes: info.held_bytes,
        running_puts: info.running_puts,
        quarantined_ms: info.quarantined_ms,
    }
}

pub(super) fn page(page: ListPage) -> v1::ListReply {
    let objects = page.objects.into_iter().map(|o| v1::ListedObject {
        key: o.key.as_bytes().to_vec().into(),
        incarnation: o.incarnation.to_bytes().to_vec().into(),
        size: o.size,
        replicas: u32::try_from(o.replicas).unwrap_or(u32::MAX),
    });
    v1::ListReply { objects: objects.collect(), more: page.more }
}

pub(super) fn policy(policy: Policy) -> v1::Policy {
    v1::Policy {
        put_grant_ms: policy.put_grant_ms,
        default_lease_ms: policy.default_lease_ms,
        longest_lease_ms: policy.longest_lease_ms,
    }
}

/// The error as it travels. NOT_LEADER still lacks the leader's address.
pub(super) fn error(error: &MasterError) -> ErrorDetail {
    let (code, retry_after_ms) = match error {
        MasterError::ObjectNotFound { .. } => (ErrorCode::ObjectNotFound, 0),
        MasterError::ReplicaIsNotReady { .. } => (ErrorCode::ReplicaIsNotReady, 0),
        MasterError::ObjectAlreadyExists { .. } => (ErrorCode::ObjectAlreadyExists, 0),
        MasterError::NoAvailableSpace { .. } => (ErrorCode::NoAvailableSpace, 0),
        MasterError::SegmentNotFound { .. } => (ErrorCode::SegmentNotFound, 0),
        MasterError::SegmentAlreadyMounted { .. } => (ErrorCode::SegmentAlreadyMounted, 0),
        MasterError::SegmentOverlaps { .. } => (ErrorCode::SegmentOverlaps, 0),
        MasterError::SegmentBusy { retry_after_ms, .. } => (ErrorCode::SegmentBusy, *retry_after_ms),
        MasterError::GrantExpired { .. } => (ErrorCode::GrantExpired, 0),
        MasterError::WrongOwner { .. } => (ErrorCode::WrongOwner, 0),
        MasterError::NotApplied { .. } => (ErrorCode::NotApplied, 0),
        MasterError::Unknown { .. } => (ErrorCode::Unknown, 0),
        MasterError::NotLeader { .. } => (ErrorCode::NotLeader, 0),
        MasterError::RetryAfter { ms, .. } => (ErrorCode::RetryAfter, *ms),
        MasterError::Invalid(_) => (ErrorCode::Invalid, 0),
    };
    ErrorDetail { retry_after_ms, ..ErrorDetail::new(code, error.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_fields_are_named_with_the_remedy() {
        for (error, thing) in [
            (tenant("_x").unwrap_err(), "tenant id"),
            (tenant(&"x".repeat(129)).unwrap_err(), "129 bytes"),
            (key(b"").unwrap_err(), "key is empty"),
            (key(&[0; 4097]).unwrap_err(), "4097 bytes"),
            (segment_id("").unwrap_err(), "segment id is empty"),
            (incarnation(b"short").unwrap_err(), "5 bytes instead of 16; give the one that PutStart answered"),
            (client_id(b"").unwrap_err(), "0 bytes instead of 16; draw"),
            (promise(9).unwrap_err(), "durability is 9; give DURABLE"),
        ] {
            assert_eq!(error.code(), ErrorCode::Invalid);
            assert!(error.message.contains(thing), "{}", error.message);
        }
    }

    #[test]
    fn what_is_unset_means_the_default() {
        assert_eq!(tenant("").unwrap(), TenantId::default_tenant());
        assert_eq!(promise(0).unwrap(), Promise::Durable);
    }

    #[test]
    fn a_pause_travels_with_the_code() {
        let detail = error(&MasterError::RetryAfter { ms: 42, reason: "quarantine".into() });
        assert_eq!((detail.code(), detail.retry_after_ms), (ErrorCode::RetryAfter, 42));
    }
}
