//! Owns the bytes of entry payloads: first a version, then `postcard`. `docs/formats/entry-payloads.md` describes them byte by
//! byte. Nothing here knows the state.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use ha_types::{ObjectIncarnation, OpType, SegmentId};
use serde::Deserialize;

use crate::{ClientId, MasterConfig, MountSegment, Policy};

/// The only version there is.
const VERSION: u8 = 1;

/// The tenant of entries that belong to no tenant.
pub(crate) const CLUSTER_TENANT: &str = "default";
/// The key of the cluster's POLICY entries.
pub(crate) const CLUSTER_POLICY_KEY: &[u8] = b"cluster";
/// The scope byte of the cluster's policy.
const SCOPE_CLUSTER: u8 = 0;

/// Why bytes are no payload of an op type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} payload of {len} bytes: {reason}")]
pub(crate) struct PayloadError {
    op: &'static str,
    len: usize,
    reason: String,
}

/// Whether a payload begins as every payload of ours does.
#[cfg(feature = "mooncake")]
pub(crate) fn begins_as_ours(payload: &[u8]) -> bool {
    payload.first() == Some(&VERSION)
}

/// One replica as an entry names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ReplicaRecord<'a> {
    pub(crate) segment: &'a str,
    pub(crate) address: u64,
}

/// The full state of an object after its put ended. The replicas follow one by one, so that none is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PutEnd<'a> {
    pub(crate) incarnation: ObjectIncarnation,
    pub(crate) client: ClientId,
    pub(crate) size: u64,
    replica_count: usize,
    replicas: &'a [u8],
}

#[derive(Deserialize)]
struct MountRecord<'a> {
    endpoint: &'a str,
    base: u64,
    size: u64,
}

/// Where a segment lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mount<'a> {
    pub(crate) endpoint: &'a str,
    pub(crate) base: u64,
    pub(crate) size: u64,
}

#[derive(Deserialize)]
struct PolicyRecord {
    scope: u8,
    put_grant_ms: u64,
    default_lease_ms: u64,
    longest_lease_ms: u64,
    quarantine_ms: u64,
}

/// The cluster's times, and how long a new primary must wait because of these and earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedPolicy {
    pub(crate) policy: Policy,
    pub(crate) quarantine_ms: u64,
}

/// A payload as it stands, cut at its version. The op type by its name: a field with padding beside it is copied in pieces that
/// overlap, and replay stalls on them.
struct Reader<'a> {
    op: &'static str,
    len: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline(always)]
    fn open(op: OpType, payload: &'a [u8]) -> Result<Self, PayloadError> {
        let reader = Self { op: op.name(), len: payload.len(), rest: payload };
        match payload.split_first() {
            Some((&VERSION, rest)) => Ok(Self { rest, ..reader }),
            Some((found, _)) => Err(reader.fault(format_args!("expected version {VERSION}, found {found}"))),
            None => Err(reader.fault(format_args!("expected version {VERSION}, found no byte"))),
        }
    }

    #[cold]
    #[inline(never)]
    fn fault(&self, reason: impl std::fmt::Display) -> PayloadError {
        PayloadError { op: self.op, len: self.len, reason: reason.to_string() }
    }

    #[inline(always)]
    fn bytes16(&mut self, what: &str) -> Result<&'a [u8; 16], PayloadError> {
        match self.rest.split_first_chunk::<16>() {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => Err(self.fault(format_args!("expected 16 bytes of {what}, found {}", self.rest.len()))),
        }
    }

    fn take<T: Deserialize<'a>>(&mut self, what: &str) -> Result<T, PayloadError> {
        match postcard::take_from_bytes(self.rest) {
            Ok((value, rest)) => {
                self.rest = rest;
                Ok(value)
            }
            Err(source) => Err(self.fault(format_args!("expected {what}, found {source}"))),
        }
    }

    /// Of an object that its writer named: objects written before incarnations existed are none of ours.
    #[inline(always)]
    fn incarnation(&mut self) -> Result<ObjectIncarnation, PayloadError> {
        let bytes = self.bytes16("incarnation")?;
        if *bytes == ObjectIncarnation::LEGACY.to_bytes() {
            return Err(self.fault("expected an incarnation, found all zero"));
        }
        Ok(ObjectIncarnation::from_bytes(*bytes))
    }

    fn end(&self) -> Result<(), PayloadError> {
        match self.rest.len() {
            0 => Ok(()),
            more => Err(self.fault(format_args!("expected the end, found {more} bytes more"))),
        }
    }
}

/// Writes the same bytes as `postcard`, but cannot fail: a payload is built after the checks of a call and before its commit.
struct Writer(Vec<u8>);

impl Writer {
    fn with_capacity(bytes: usize) -> Self {
        let mut out = Vec::with_capacity(bytes);
        out.push(VERSION);
        Self(out)
    }

    fn bytes16(mut self, bytes: [u8; 16]) -> Self {
        self.0.extend_from_slice(&bytes);
        self
    }

    fn varint(mut self, mut value: u64) -> Self {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    fn text(self, text: &str) -> Self {
        let mut out = self.varint(text.len() as u64);
        out.0.extend_from_slice(text.as_bytes());
        out
    }
}

impl<'a> PutEnd<'a> {
    /// The payload of an object with these replicas.
    pub(crate) fn encode<'r>(
        incarnation: ObjectIncarnation,
        client: ClientId,
        size: u64,
        replicas: impl ExactSizeIterator<Item = ReplicaRecord<'r>>,
    ) -> Vec<u8> {
        let head = Writer::with_capacity(48 + replicas.len() * 48)
            .bytes16(incarnation.to_bytes())
            .bytes16(client.to_bytes())
            .varint(size)
            .varint(replicas.len() as u64);
        replicas.fold(head, |out, replica| out.text(replica.segment).varint(replica.address)).0
    }

    /// Inlined, as its parts are: a result handed over in memory is read back before it is written, and replay stalls until all
    /// stores before it have reached the cache.
    #[inline(always)]
    pub(crate) fn decode(payload: &'a [u8]) -> Result<Self, PayloadError> {
        let mut reader = Reader::open(OpType::PutEnd, payload)?;
        let incarnation = reader.incarnation()?;
        let client = ClientId::from_bytes(*reader.bytes16("client")?);
        let size: u64 = reader.take("a size")?;
        if size == 0 {
            return Err(reader.fault("expected a size above 0, found 0"));
        }
        let replica_count: u64 = reader.take("a replica count")?;
        let replica_count = usize::try_from(replica_count)
            .ok()
            .filter(|n| (1..=MasterConfig::MOST_REPLICAS).contains(n))
            .ok_or_else(|| {
                reader.fault(format_args!(
                    "expected 1 to {} replicas, found {replica_count}",
                    MasterConfig::MOST_REPLICAS
                ))
            })?;
        Ok(Self { incarnation, client, size, replica_count, replicas: reader.rest })
    }

    pub(crate) fn replica_count(&self) -> usize {
        self.replica_count
    }

    /// Gives each replica to `f`, and checks that nothing follows the last one.
    pub(crate) fn each_replica<E: From<PayloadError>>(
        &self,
        mut f: impl FnMut(ReplicaRecord<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut reader = Reader { op: OpType::PutEnd.name(), len: self.replicas.len(), rest: self.replicas };
        for _ in 0..self.replica_count {
            f(reader.take("a replica")?)?;
        }
        Ok(reader.end()?)
    }
}

/// The payload of REMOVE and of PUT_REVOKE: the object they are about.
pub(crate) fn encode_incarnation(incarnation: ObjectIncarnation) -> [u8; 17] {
    let mut out = [VERSION; 17];
    for (to, from) in out.iter_mut().skip(1).zip(incarnation.to_bytes()) {
        *to = from;
    }
    out
}

pub(crate) fn decode_incarnation(op: OpType, payload: &[u8]) -> Result<ObjectIncarnation, PayloadError> {
    let mut reader = Reader::open(op, payload)?;
    // A removal may be about an object that was written before incarnations existed; a put that was taken back may not.
    let incarnation = match op {
        OpType::Remove => ObjectIncarnation::from_bytes(*reader.bytes16("incarnation")?),
        _ => reader.incarnation()?,
    };
    reader.end()?;
    Ok(incarnation)
}

impl<'a> Mount<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        Writer::with_capacity(48).text(self.endpoint).varint(self.base).varint(self.size).0
    }

    pub(crate) fn decode(payload: &'a [u8]) -> Result<Self, PayloadError> {
        let mut reader = Reader::open(OpType::SegmentMount, payload)?;
        let MountRecord { endpoint, base, size } = reader.take("endpoint, base and size")?;
        check_endpoint(&reader, endpoint)?;
        if size == 0 || base.checked_add(size).is_none() {
            return Err(reader.fault(format_args!("expected addresses below 2^64, found {size} bytes at {base:#x}")));
        }
        reader.end()?;
        Ok(Self { endpoint, base, size })
    }
}

pub(crate) fn encode_endpoint(endpoint: &str) -> Vec<u8> {
    Writer::with_capacity(2 + endpoint.len()).text(endpoint).0
}

pub(crate) fn decode_endpoint(payload: &[u8]) -> Result<&str, PayloadError> {
    let mut reader = Reader::open(OpType::SegmentUpdate, payload)?;
    let endpoint = reader.take("an endpoint")?;
    check_endpoint(&reader, endpoint)?;
    reader.end()?;
    Ok(endpoint)
}

fn check_endpoint(reader: &Reader<'_>, endpoint: &str) -> Result<(), PayloadError> {
    let most = MountSegment::MAX_ENDPOINT_BYTES;
    if endpoint.is_empty() || endpoint.len() > most {
        return Err(reader.fault(format_args!("expected an endpoint of 1 to {most} bytes, found {}", endpoint.len())));
    }
    Ok(())
}

/// The payload of SEGMENT_UNMOUNT: nothing but the version.
pub(crate) const UNMOUNT: [u8; 1] = [VERSION];

pub(crate) fn decode_unmount(payload: &[u8]) -> Result<(), PayloadError> {
    Reader::open(OpType::SegmentUnmount, payload)?.end()
}

/// The segment an entry's key names.
pub(crate) fn segment_of_key(op: OpType, key: &[u8]) -> Result<SegmentId, PayloadError> {
    let fault = |reason: String| PayloadError { op: op.name(), len: 0, reason };
    let text = std::str::from_utf8(key).map_err(|e| fault(format!("the key is no segment id: {e}")))?;
    SegmentId::new(text).map_err(|e| fault(format!("the key is no segment id: {e}")))
}

impl LoggedPolicy {
    /// What holds while the log has no POLICY entry.
    pub(crate) const INITIAL: Self = Self { policy: Policy::INITIAL, quarantine_ms: Policy::INITIAL.longest_lease_ms };

    pub(crate) fn encode(&self) -> Vec<u8> {
        Writer::with_capacity(24)
            .varint(u64::from(SCOPE_CLUSTER))
            .varint(self.policy.put_grant_ms)
            .varint(self.policy.default_lease_ms)
            .varint(self.policy.longest_lease_ms)
            .varint(self.quarantine_ms)
            .0
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, PayloadError> {
        let mut reader = Reader::open(OpType::Policy, payload)?;
        let record: PolicyRecord = reader.take("a scope and four times")?;
        if record.scope != SCOPE_CLUSTER {
            return Err(reader.fault(format_args!("expected scope {SCOPE_CLUSTER} (cluster), found {}", record.scope)));
        }
        reader.end()?;
        let PolicyRecord { put_grant_ms, default_lease_ms, longest_lease_ms, quarantine_ms, .. } = record;
        let policy = Policy { put_grant_ms, default_lease_ms, longest_lease_ms };
        policy.validate().map_err(|e| reader.fault(e.to_string()))?;
        if quarantine_ms < policy.span_ms() || quarantine_ms > Policy::LONGEST_MS {
            return Err(reader.fault(format_args!(
                "expected a quarantine of {} to {} ms, found {quarantine_ms}",
                policy.span_ms(),
                Policy::LONGEST_MS
            )));
        }
        Ok(Self { policy, quarantine_ms })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]
mod tests;
