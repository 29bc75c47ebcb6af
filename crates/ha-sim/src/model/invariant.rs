//! Owns the invariants, in the words of `docs/invariants.md`, and how a state is held against them. What only a step can break is
//! noted where the step is taken; the rest is looked at in every state.

use ha_types::BatchId;

use super::fold::{contents, header};
use super::world::{Role, World};

macro_rules! invariants {
    ($($name:ident: $text:literal,)*) => {
        /// One invariant.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Invariant { $(#[doc = $text] $name,)* }

        impl Invariant {
            /// Every invariant.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its number.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// What it says.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

invariants! {
    L1: "the batches present are one range that ends at P, and their sequences join",
    L2: "P ends where its batch ends, or at the base",
    L3: "no number of P falls; one batch id has one last sequence",
    L4: "what is stored at or below P never changes",
    L5: "who is told durable has this very entry in L at that instant, and for good",
    L6: "one success a sequence; on one node in order",
    L11: "after a claim no transaction of a lower epoch applies, and one epoch is claimed once",
    L12: "what was called never is never in L",
    L13: "what was not committed by somebody is not in L",
    L14: "one first prefix, at `/latest`, while no old primary is elected; the first batch follows it; nothing legacy is written after it",
    S1: "a state is the fold of L up to where it stands, and not above P",
    S3: "who serves has claimed, with the fold of L up to that claim",
    S4: "every durable success of an older epoch is in the state of who serves",
    S6: "what truncation removed is in a verified snapshot that can be restored",
    Calm: "nobody calls a sound log corrupt, gapped or lost",
}

/// The invariants that do not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Broken(u32);

impl Broken {
    pub(super) fn add(&mut self, invariant: Invariant) {
        self.0 |= 1 << invariant as u32;
    }

    pub(super) fn has(self, invariant: Invariant) -> bool {
        self.0 & (1 << invariant as u32) != 0
    }

    pub(super) fn any(self) -> bool {
        self.0 != 0
    }
}

/// Looks at one state.
pub(super) fn look(world: &World) -> Broken {
    let mut broken = world.truth.broken;
    if !world.truth.lost {
        promised_by_the_store(world, &mut broken);
    }
    if world.truth.nevers.iter().any(|never| world.truth.log.contains(never)) {
        broken.add(Invariant::L12);
    }
    if world.truth.log.iter().any(|content| !world.committed(*content)) {
        broken.add(Invariant::L13);
    }
    broken
}

/// What holds as long as the store keeps what it acknowledged.
fn promised_by_the_store(world: &World, broken: &mut Broken) {
    let Some(prefix) = world.store.prefix() else { return };
    let (mut before, mut first) = (None, None);
    for (id, record) in world.store.batches() {
        let here = header(record);
        let last = here.first_seq.get() + contents(record).len() as u64 - 1;
        let joins = before.is_none_or(|(id_before, last_before): (BatchId, u64)| {
            id_before.next() == Some(id) && last_before + 1 == here.first_seq.get()
        });
        if here.batch_id != id || !joins {
            broken.add(Invariant::L1);
        }
        if id == BatchId::new(1) && here.first_seq.get() != world.truth.base + 1 {
            broken.add(Invariant::L14);
        }
        before = Some((id, last));
        first = first.or(Some(id));
    }
    if before.is_some_and(|(id, _)| id != prefix.batch_id) {
        broken.add(Invariant::L1);
    }
    let ends_at = before.map_or(world.truth.base, |(_, last)| last);
    if ends_at != prefix.last_seq.get() || (before.is_none() && prefix.batch_id != BatchId::ZERO) {
        broken.add(Invariant::L2);
    }
    if let Some(first) = first.filter(|first| first.get() > 1) {
        let covers =
            |s: &super::world::Snapshot| s.verified && s.sound && s.fold.position.batch_id.next() >= Some(first);
        if !world.catalogue.iter().any(covers) {
            broken.add(Invariant::S6);
        }
    }
    if world.truth.told.iter().any(|told| !world.truth.has(told.seq, told.content)) {
        broken.add(Invariant::L5);
    }
    let folds = world.nodes.iter().filter(|node| follows(&node.role)).map(|node| &node.fold);
    for fold in folds.chain(world.catalogue.iter().map(|s| &s.fold)) {
        if !world.truth.log.starts_with(&fold.entries) || fold.position.last_seq > prefix.last_seq {
            broken.add(Invariant::S1);
        }
    }
}

fn follows(role: &Role) -> bool {
    !matches!(role, Role::Out | Role::Legacy { .. } | Role::LegacyWriting(_))
}
