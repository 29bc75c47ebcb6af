//! Owns `.bucket_gc_intent`: which files are authoritative while buckets are replaced or removed. RFC *bucket deletion* §7.

use std::collections::HashSet;

use super::error::FormatError;
use super::names::BucketId;
use super::reader::{Frame, Reader};

/// The whole intent file: any number of committed rounds, and at most one prepared. No file means no rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intents {
    /// In the order they were begun. No bucket is named twice in all of them.
    pub rounds: Vec<Round>,
}

/// One round of GC or eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Round {
    /// The sources are authoritative; the target, whatever there is of it, must go.
    Prepared {
        /// At most 8, in id order.
        sources: Vec<BucketId>,
        /// The bucket that would replace them.
        target: BucketId,
    },
    /// The target is authoritative, where there is one; the sources are retired files that wait to be unlinked.
    Committed {
        /// At most 8, in id order.
        sources: Vec<BucketId>,
        /// `None`: *sources only*, nothing replaces them (fully dead, evicted, or the target has moved on).
        target: Option<BucketId>,
    },
}

/// The most sources of one round.
pub const MAX_SOURCES: usize = 8;

const FRAME: Frame = Frame { what: "GC intent file", magic: *b"PLBI", version: 1, known: "version 1" };
const KNOWN_STATES: &str = "1 (PREPARED), 2 (COMMITTED), 3 (COMMITTED, sources only)";
/// State, count of sources, one source.
const SMALLEST_ROUND_BYTES: usize = 1 + 1 + 8;

impl Round {
    /// The buckets that the round replaces or removes.
    #[must_use]
    pub fn sources(&self) -> &[BucketId] {
        match self {
            Self::Prepared { sources, .. } | Self::Committed { sources, .. } => sources,
        }
    }

    /// The bucket that replaces them.
    #[must_use]
    pub fn target(&self) -> Option<BucketId> {
        match self {
            Self::Prepared { target, .. } => Some(*target),
            Self::Committed { target, .. } => *target,
        }
    }

    fn encoded_len(&self) -> usize {
        2 + 8 * (self.sources().len() + usize::from(self.target().is_some()))
    }
}

impl Intents {
    /// The bytes of the file.
    ///
    /// # Errors
    /// Rounds that [`Intents::decode`] would refuse.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let body = 4 + self.rounds.iter().map(Round::encoded_len).sum::<usize>();
        FRAME.check_len(body + Frame::BYTES)?;
        let mut out = FRAME.begin(body);
        let mut seen = Seen::default();
        out.extend_from_slice(&(self.rounds.len() as u32).to_le_bytes());
        for (index, round) in self.rounds.iter().enumerate() {
            seen.check(index, round, out.len() as u64)?;
            let state = match round {
                Round::Prepared { .. } => 1,
                Round::Committed { target: Some(_), .. } => 2,
                Round::Committed { target: None, .. } => 3,
            };
            out.extend_from_slice(&[state, round.sources().len() as u8]);
            for id in round.target().iter().chain(round.sources()) {
                out.extend_from_slice(&id.0.to_le_bytes());
            }
        }
        FRAME.end(out)
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// [`FormatError`] for anything but what [`Intents::encode`] makes.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut body = FRAME.open(bytes)?;
        let count = body.u32("count of rounds")? as usize;
        if count > body.left() / SMALLEST_ROUND_BYTES {
            return Err(body.too_short("rounds", (count as u64) * SMALLEST_ROUND_BYTES as u64));
        }
        let mut seen = Seen::default();
        let mut rounds = Vec::with_capacity(count);
        for index in 0..count {
            let at = body.at();
            let round = read_round(&mut body)?;
            seen.check(index, &round, at)?;
            rounds.push(round);
        }
        body.end()?;
        Ok(Self { rounds })
    }
}

fn read_round(body: &mut Reader<'_>) -> Result<Round, FormatError> {
    let offset = body.at();
    let state = body.u8("state of the round")?;
    let count = usize::from(body.u8("count of sources")?);
    if !matches!(state, 1..=3) {
        let (what, known, found) = (FRAME.what, KNOWN_STATES, u64::from(state));
        return Err(FormatError::UnknownVersion { what, field: "state of the round", offset, known, found });
    }
    let target = if state == 3 { None } else { Some(BucketId(body.u64("target")?)) };
    if count > MAX_SOURCES {
        return Err(bad_count(offset + 1, count));
    }
    let sources = (0..count).map(|_| body.u64("source").map(BucketId)).collect::<Result<_, _>>()?;
    Ok(match target {
        Some(target) if state == 1 => Round::Prepared { sources, target },
        target => Round::Committed { sources, target },
    })
}

fn bad_count(offset: u64, count: usize) -> FormatError {
    FormatError::in_field(FRAME.what, "count of sources", offset, format!("1 to {MAX_SOURCES}"), count.to_string())
}

/// What the rounds so far have named.
#[derive(Default)]
struct Seen {
    buckets: HashSet<BucketId>,
    prepared: Option<usize>,
}

impl Seen {
    /// Checks the round that begins at byte `at` against itself and all before it.
    fn check(&mut self, index: usize, round: &Round, at: u64) -> Result<(), FormatError> {
        let sources = round.sources();
        if !(1..=MAX_SOURCES).contains(&sources.len()) {
            return Err(bad_count(at + 1, sources.len()));
        }
        let fault = |part: &str, at: u64, expected: String, found: String| {
            Err(FormatError::in_field(FRAME.what, format!("rounds[{index}].{part}"), at, expected, found))
        };
        if matches!(round, Round::Prepared { .. })
            && let Some(first) = self.prepared.replace(index)
        {
            return fault("state", at, "one PREPARED round".into(), format!("a second one after rounds[{first}]"));
        }
        let mut at = at + 2;
        for (part, id) in
            round.target().map(|id| ("target", id)).into_iter().chain(sources.iter().map(|id| ("sources", *id)))
        {
            if !id.is_valid() {
                return fault(part, at, format!("a bucket id, 1 to {}", BucketId::MAX), id.to_string());
            }
            if !self.buckets.insert(id) {
                return fault(part, at, "a bucket that no round has named".into(), format!("bucket {id} again"));
            }
            at += 8;
        }
        if let Some(pair) = sources.windows(2).find(|pair| pair[0] >= pair[1]) {
            return fault("sources", at, format!("ids above {}", pair[0]), pair[1].to_string());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
