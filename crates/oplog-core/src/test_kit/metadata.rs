//! Owns a generator of realistic metadata: the entries that a cluster of inference servers causes. The same seed gives the same
//! entries, always. It knows the bytes of payloads (`docs/formats/entry-payloads.md`, `docs/formats/mooncake.md`) by itself: no
//! state machine is asked.
//!
//! A prompt is a chain of KV-cache blocks, and many prompts are computed at the same time; each tensor parallel rank of each stores a few
//! blocks at once, whenever it comes to it, so that what belongs together is spread over the log. A block's key carries the model, the rank,
//! the hash of all tokens up to it (64 hex digits without a pattern), and whether it holds keys or values, as the connectors of vLLM and
//! SGLang name them. Its buffer follows the one allocated before in the same segment; a segment belongs to a server with an address. One
//! block in ten goes again.

use std::collections::VecDeque;

use crate::NewEntry;

/// Whose payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payloads {
    /// Of Plimsoll's master, version 1, under [`Metadata::EPOCH`].
    Plimsoll,
    /// Of Mooncake, `struct_pack`: the endpoint is in every put, and a removal is empty.
    Mooncake,
}

/// One entry, with its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataEntry {
    /// 1 PUT_END, 3 REMOVE, 5 SEGMENT_MOUNT.
    pub op_type: u8,
    /// The tenant.
    pub tenant: &'static str,
    /// The object's or the segment's key.
    pub key: String,
    /// The payload.
    pub payload: Vec<u8>,
}

impl MetadataEntry {
    /// As the log takes it.
    #[must_use]
    pub fn as_new(&self) -> NewEntry<'_> {
        NewEntry { op_type: self.op_type, tenant: self.tenant, key: self.key.as_bytes(), payload: &self.payload }
    }
}

/// A model that is served, with the size of one block of it per rank.
struct Model {
    tenant: &'static str,
    name: &'static str,
    ranks: usize,
    block_bytes: u64,
}

const MODELS: [Model; 3] = [
    Model { tenant: "default", name: "meta-llama/Llama-3.1-70B-Instruct", ranks: 8, block_bytes: 655_360 },
    Model { tenant: "default", name: "Qwen/Qwen2.5-32B-Instruct", ranks: 4, block_bytes: 524_288 },
    Model { tenant: "team-search", name: "deepseek-ai/DeepSeek-V3", ranks: 8, block_bytes: 1_152_000 },
];

/// Servers, each with one segment.
const SERVERS: usize = 12;
const SEGMENT_BYTES: u64 = 1 << 46;
const OP_PUT_END: u8 = 1;
const OP_REMOVE: u8 = 3;
const OP_SEGMENT_MOUNT: u8 = 5;

/// Prompts that are computed at the same time, over all servers.
const PROMPTS: usize = 32;
/// Blocks that a rank stores at once.
const CHUNK: usize = 8;

struct Prompt {
    model: &'static Model,
    /// Of its blocks in order.
    hashes: Vec<String>,
    server: usize,
    /// How many blocks each rank has stored.
    done: Vec<usize>,
}

impl Prompt {
    /// The ranks that have blocks left.
    fn behind(&self) -> impl Iterator<Item = usize> {
        self.done.iter().enumerate().filter(|(_, done)| **done < self.hashes.len()).map(|(rank, _)| rank)
    }

    fn has_ended(&self) -> bool {
        self.behind().next().is_none()
    }
}

struct Server {
    endpoint: String,
    base: u64,
    next: u64,
    client: [u8; 16],
}

/// An endless stream of entries: first every server's segment is mounted, then blocks are put and removed. A log of them is sound.
pub struct Metadata {
    payloads: Payloads,
    state: u64,
    servers: Vec<Server>,
    prompts: Vec<Prompt>,
    counter: u64,
    /// Live blocks, oldest first: tenant, key, counter.
    live: VecDeque<(&'static str, String, u64)>,
    ready: VecDeque<MetadataEntry>,
}

impl std::fmt::Debug for Metadata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metadata")
            .field("payloads", &self.payloads)
            .field("counter", &self.counter)
            .finish_non_exhaustive()
    }
}

impl Metadata {
    /// The epoch inside the incarnations of [`Payloads::Plimsoll`]: a batch that holds them must have it.
    pub const EPOCH: u64 = 1;

    /// The stream of this seed.
    #[must_use]
    pub fn new(payloads: Payloads, seed: u64) -> Self {
        let mut stream = Self {
            payloads,
            state: seed,
            servers: Vec::new(),
            prompts: Vec::new(),
            counter: 0,
            live: VecDeque::new(),
            ready: VecDeque::new(),
        };
        for server in 0..SERVERS {
            let client = [stream.draw().to_be_bytes(), stream.draw().to_be_bytes()].concat();
            let endpoint = format!("10.{}.{}.{}:{}", 12 + server / 8, 3 + server % 2, 17 + server, 50_052 + server % 4);
            let base = 0x7f00_0000_0000 + (stream.draw() % 4096) * (2 << 20);
            stream.mount(&endpoint, base);
            let client = client.try_into().unwrap_or([0; 16]);
            stream.servers.push(Server { endpoint, base, next: 0, client });
        }
        stream
    }

    /// The first `count` entries of this seed.
    #[must_use]
    pub fn first(payloads: Payloads, seed: u64, count: usize) -> Vec<MetadataEntry> {
        Self::new(payloads, seed).take(count).collect()
    }

    /// SplitMix64.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn mount(&mut self, endpoint: &str, base: u64) {
        let mut payload = Vec::new();
        match self.payloads {
            Payloads::Plimsoll => {
                payload.push(1);
                text(&mut payload, endpoint);
                varint(&mut payload, base);
                varint(&mut payload, SEGMENT_BYTES);
            }
            Payloads::Mooncake => {
                payload.extend_from_slice(&0x7b47_0444_u32.to_le_bytes());
                short(&mut payload, endpoint);
                short(&mut payload, endpoint);
                payload.extend_from_slice(&SEGMENT_BYTES.to_le_bytes());
                payload.push(1);
                short(&mut payload, "");
            }
        }
        self.ready.push_back(MetadataEntry {
            op_type: OP_SEGMENT_MOUNT,
            tenant: "default",
            key: endpoint.to_owned(),
            payload,
        });
    }

    fn draw_below(&mut self, bound: usize) -> usize {
        usize::try_from(self.draw() % bound.max(1) as u64).unwrap_or(0)
    }

    /// A prompt begins in place of one that has ended.
    fn begin(&mut self, at: usize) {
        let model = &MODELS[self.draw_below(8).min(MODELS.len() - 1)];
        let blocks = 8 + self.draw_below(56);
        let hashes = (0..blocks).map(|_| (0..4).map(|_| format!("{:016x}", self.draw())).collect()).collect();
        let server = self.draw_below(SERVERS);
        let prompt = Prompt { model, hashes, server, done: vec![0; model.ranks] };
        match self.prompts.get_mut(at) {
            Some(ended) => *ended = prompt,
            None => self.prompts.push(prompt),
        }
    }

    /// One rank of one prompt stores its next blocks, keys and values.
    fn chunk(&mut self) {
        let at = self.draw_below(PROMPTS);
        if self.prompts.get(at).is_none_or(Prompt::has_ended) {
            self.begin(at.min(self.prompts.len()));
        }
        let at = at.min(self.prompts.len() - 1);
        let behind: Vec<usize> = self.prompts[at].behind().collect();
        let rank = behind[self.draw_below(behind.len())];
        let Prompt { model, server, .. } = self.prompts[at];
        let from = self.prompts[at].done[rank];
        let hashes: Vec<String> = self.prompts[at].hashes.iter().skip(from).take(CHUNK).cloned().collect();
        self.prompts[at].done[rank] += hashes.len();
        for hash in hashes {
            for half in ["k", "v"] {
                let key = format!("{}@{}@{rank}@{hash}_{half}", model.name, model.ranks);
                self.counter += 1;
                let payload = self.put_end(server, model.block_bytes);
                self.live.push_back((model.tenant, key.clone(), self.counter));
                self.ready.push_back(MetadataEntry { op_type: OP_PUT_END, tenant: model.tenant, key, payload });
                if self.draw().is_multiple_of(10)
                    && let Some((tenant, key, counter)) = self.live.pop_front()
                {
                    let payload = self.remove(counter);
                    self.ready.push_back(MetadataEntry { op_type: OP_REMOVE, tenant, key, payload });
                }
            }
        }
    }

    fn put_end(&mut self, at: usize, size: u64) -> Vec<u8> {
        let counter = self.counter;
        let server = &mut self.servers[at];
        let address = server.base + server.next;
        server.next += size;
        let mut out = Vec::with_capacity(128);
        match self.payloads {
            Payloads::Plimsoll => {
                out.push(1);
                incarnation(&mut out, counter);
                out.extend_from_slice(&server.client);
                varint(&mut out, size);
                varint(&mut out, 1);
                text(&mut out, &server.endpoint);
                varint(&mut out, address);
            }
            Payloads::Mooncake => {
                // Five alternatives, its whole length in two bytes, compatible fields behind.
                out.extend_from_slice(&[0xc3, 0x38, 0x47, 0xc0, 1, 0, 0]);
                out.extend_from_slice(&server.client);
                out.extend_from_slice(&size.to_le_bytes());
                out.push(1);
                out.extend_from_slice(&counter.to_le_bytes());
                out.push(0);
                out.extend_from_slice(&size.to_le_bytes());
                out.extend_from_slice(&address.to_le_bytes());
                short(&mut out, "rdma");
                short(&mut out, &server.endpoint);
                out.extend_from_slice(&3_i32.to_le_bytes());
                out.push(1);
                short(&mut out, "");
                out.extend_from_slice(&[1, 1, 1, 0]);
                let len = u16::try_from(out.len()).unwrap_or(u16::MAX).to_le_bytes();
                out[5..7].copy_from_slice(&len);
            }
        }
        out
    }

    fn remove(&self, counter: u64) -> Vec<u8> {
        let mut out = Vec::new();
        match self.payloads {
            Payloads::Plimsoll => {
                out.push(1);
                incarnation(&mut out, counter);
            }
            // Mooncake's is empty; our log takes no empty payload, and one byte more changes no figure.
            Payloads::Mooncake => out.push(0),
        }
        out
    }
}

impl Iterator for Metadata {
    type Item = MetadataEntry;

    fn next(&mut self) -> Option<MetadataEntry> {
        if self.ready.is_empty() {
            self.chunk();
        }
        self.ready.pop_front()
    }
}

fn incarnation(out: &mut Vec<u8>, counter: u64) {
    out.extend_from_slice(&(Metadata::EPOCH as u32).to_be_bytes());
    out.extend_from_slice(&0x0b7d_4c22_u32.to_be_bytes());
    out.extend_from_slice(&counter.to_be_bytes());
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn text(out: &mut Vec<u8>, text: &str) {
    varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn short(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{Metadata, Payloads};

    #[test]
    fn the_same_seed_gives_the_same_sound_entries() {
        for payloads in [Payloads::Plimsoll, Payloads::Mooncake] {
            let entries = Metadata::first(payloads, 7, 5000);
            assert_eq!(entries, Metadata::first(payloads, 7, 5000));
            assert_ne!(entries, Metadata::first(payloads, 8, 5000));
            let mut live = HashSet::new();
            let (mut puts, mut removals) = (0, 0);
            for entry in &entries {
                match entry.op_type {
                    1 => {
                        puts += 1;
                        assert!(live.insert(&entry.key), "put twice");
                    }
                    3 => {
                        removals += 1;
                        assert!(live.remove(&entry.key), "removed where it is not");
                    }
                    op => assert_eq!(op, 5),
                }
                crate::record::OpenBatch::check(&entry.as_new()).expect("the log takes it");
            }
            assert!(puts > 4000 && removals > 300, "{puts} puts, {removals} removals");
        }
    }
}
