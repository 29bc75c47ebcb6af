//! Owns the decision at the base: what becomes of a state that stands in the legacy log when there is a durable prefix. Pure.

use oplog_core::Seq;

/// How a state that stands in the legacy log gets to the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crossing {
    /// By the entries up to the base and none above it, though higher ones may be there; by none if it stands there already.
    ThroughBase,
    /// By starting again: the state holds entries that are not in the log.
    Anew,
}

impl Crossing {
    /// Decides. A state that went on behind a hole starts again too: the missing entry may have come since, and every other node
    /// that starts now will hold it.
    pub(super) fn of(applied: Seq, skipped: bool, base: Seq) -> Self {
        if applied > base || skipped { Self::Anew } else { Self::ThroughBase }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table() {
        for (applied, base, whole, with_holes) in [
            (0, 0, Crossing::ThroughBase, Crossing::Anew),
            (4, 5, Crossing::ThroughBase, Crossing::Anew),
            (5, 5, Crossing::ThroughBase, Crossing::Anew),
            (6, 5, Crossing::Anew, Crossing::Anew),
        ] {
            assert_eq!(Crossing::of(Seq::new(applied), false, Seq::new(base)), whole, "{applied} {base}");
            assert_eq!(Crossing::of(Seq::new(applied), true, Seq::new(base)), with_holes, "{applied} {base}");
        }
    }
}
