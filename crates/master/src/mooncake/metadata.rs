//! Owns the payload of PUT_END: the full state of an object, in any status of its replicas.

use super::error::StructPackError;
use super::header::Header;
use super::reader::Reader;
use crate::ClientId;

const NAME: &str = "MetadataPayload";

/// The type hashes, by how many alternatives a replica has.
const FIVE: u32 = 0xc047_38c2;
const FOUR: u32 = 0x0ff3_e7cc;
const THREE: u32 = 0x9cb1_db24;

/// The smallest descriptor: id, alternative, the shortest location (a disk path) and status.
const LEAST_DESCRIPTOR: usize = 8 + 1 + 9 + 4;

/// The full state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataPayload {
    /// Who put it.
    pub client: ClientId,
    /// Its bytes.
    pub size: u64,
    /// Its replicas, of every kind and in every status.
    pub replicas: Vec<ReplicaDescriptor>,
    /// Which group it belongs to, where the writer knew groups.
    pub group_id: Option<String>,
    /// What kind of data it is, where the writer knew kinds.
    pub data_type: Option<u8>,
    /// Whether it is never evicted, where the writer knew pins.
    pub hard_pinned: Option<bool>,
}

/// One replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaDescriptor {
    /// Its number.
    pub id: u64,
    /// Where it lies.
    pub location: Location,
    /// How it is.
    pub state: ReplicaState,
}

/// Where a replica lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In memory of a segment.
    Memory(Buffer),
    /// On NVMe over fabric.
    NoF(Buffer),
    /// In a file.
    Disk {
        /// Its path.
        path: String,
        /// Its bytes.
        size: u64,
    },
    /// On a disk of a client.
    LocalDisk {
        /// The client.
        client: ClientId,
        /// Its bytes.
        size: u64,
        /// Where the client is reached.
        endpoint: String,
    },
    /// In a distributed file system.
    Dfs {
        /// Its path.
        path: String,
        /// Where it begins in the file.
        offset: u64,
        /// Its bytes.
        size: u64,
        /// Its bytes with their padding.
        aligned_size: u64,
        /// The shard of the file.
        shard: i32,
    },
}

/// A range of addresses that a transfer engine reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Its bytes.
    pub size: u64,
    /// The first address.
    pub address: u64,
    /// How it is reached.
    pub protocol: String,
    /// Where it is reached.
    pub endpoint: String,
}

/// How a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplicaState {
    /// Nobody knows.
    Undefined,
    /// It has a place.
    Initialized,
    /// It is being written.
    Processing,
    /// It can be read.
    Complete,
    /// It is gone.
    Removed,
    /// Its writing failed.
    Failed,
}

impl MetadataPayload {
    /// Reads the payload, of every version of its type.
    ///
    /// # Errors
    /// [`StructPackError`] names the field, its offset, what had to be there and what is.
    pub fn decode(payload: &[u8]) -> Result<Self, StructPackError> {
        let mut reader = Reader::new(NAME, payload);
        let header = Header::read(&mut reader, &[FIVE, FOUR, THREE])?;
        let alternatives = match header.hash {
            FIVE => 5,
            FOUR => 4,
            _ => 3,
        };
        header.fields(reader, |reader| fields(reader, alternatives, header.has_length))
    }
}

fn fields(reader: &mut Reader<'_>, alternatives: u8, compatible: bool) -> Result<MetadataPayload, StructPackError> {
    let client = client(reader, "client id")?;
    let size = reader.u64("size")?;
    let count = reader.count("replica count", LEAST_DESCRIPTOR)?;
    let mut replicas = Vec::with_capacity(count);
    for _ in 0..count {
        replicas.push(descriptor(reader, alternatives)?);
    }
    let mut payload = MetadataPayload { client, size, replicas, group_id: None, data_type: None, hard_pinned: None };
    if compatible {
        payload.group_id = reader.compatible("group id", |r, field| r.string(field))?;
        payload.data_type = reader.compatible("data type", |r, field| r.u8(field))?;
        payload.hard_pinned = reader.compatible("hard pinned", |r, field| r.bool(field))?;
    }
    Ok(payload)
}

fn client(reader: &mut Reader<'_>, field: &'static str) -> Result<ClientId, StructPackError> {
    let (high, low) = (reader.u64(field)?, reader.u64(field)?);
    Ok(ClientId::new((u128::from(high) << 64) | u128::from(low)))
}

fn descriptor(reader: &mut Reader<'_>, alternatives: u8) -> Result<ReplicaDescriptor, StructPackError> {
    let id = reader.u64("replica id")?;
    let at = reader.at;
    let index = reader.u8("replica kind")?;
    // What was second of three is third since there is NVMe over fabric.
    let kind = if alternatives == 3 && index > 0 { index.saturating_add(1) } else { index };
    let location = match kind {
        _ if index >= alternatives => {
            let expected = format_args!("an alternative below {alternatives}");
            return Err(reader.fault("replica kind", at, expected, index));
        }
        0 => Location::Memory(buffer(reader)?),
        1 => Location::NoF(buffer(reader)?),
        2 => Location::Disk { path: reader.string("path")?, size: reader.u64("file size")? },
        3 => Location::LocalDisk {
            client: client(reader, "replica client id")?,
            size: reader.u64("file size")?,
            endpoint: reader.string("endpoint")?,
        },
        _ => Location::Dfs {
            path: reader.string("path")?,
            offset: reader.u64("file offset")?,
            size: reader.u64("file size")?,
            aligned_size: reader.u64("aligned size")?,
            shard: reader.i32("shard")?,
        },
    };
    Ok(ReplicaDescriptor { id, location, state: state(reader)? })
}

fn buffer(reader: &mut Reader<'_>) -> Result<Buffer, StructPackError> {
    Ok(Buffer {
        size: reader.u64("buffer size")?,
        address: reader.u64("buffer address")?,
        protocol: reader.string("protocol")?,
        endpoint: reader.string("endpoint")?,
    })
}

fn state(reader: &mut Reader<'_>) -> Result<ReplicaState, StructPackError> {
    let at = reader.at;
    match reader.i32("status")? {
        0 => Ok(ReplicaState::Undefined),
        1 => Ok(ReplicaState::Initialized),
        2 => Ok(ReplicaState::Processing),
        3 => Ok(ReplicaState::Complete),
        4 => Ok(ReplicaState::Removed),
        5 => Ok(ReplicaState::Failed),
        other => Err(reader.fault("status", at, "0 to 5", other)),
    }
}
