//! Owns the bytes of one segment: which are free, which are kept for somebody who may still use them. No range is ever in two
//! places. Knows neither objects nor the log.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;

use ha_types::MonoTime;
use rangemap::RangeSet;

/// The bytes of one segment.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// Free ranges, merged.
    free: RangeSet<u64>,
    /// The same as (length, start): the smallest that is large enough is found at once.
    by_length: BTreeSet<(u64, u64)>,
    free_bytes: u64,
    /// Ranges of what is gone, kept until a moment: (until, start, end).
    held: BinaryHeap<Reverse<(MonoTime, u64, u64)>>,
    held_bytes: u64,
}

impl Space {
    /// A space whose addresses `all` are free.
    pub(crate) fn new(all: Range<u64>) -> Self {
        let mut space = Self::default();
        space.give_back(all);
        space
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Takes exactly `range`. `false`, and nothing has changed, unless all of it is free.
    pub(crate) fn take(&mut self, range: &Range<u64>) -> bool {
        let Some(hole) = self.free.get(&range.start).filter(|hole| range.end <= hole.end).cloned() else {
            return false;
        };
        self.cut(&hole, range);
        true
    }

    /// The first address of `all` outside `inside` that is not free.
    #[cfg(feature = "mooncake")]
    pub(crate) fn taken_outside(&self, all: &Range<u64>, inside: &Range<u64>) -> Option<u64> {
        let outside = [all.start..inside.start, inside.end..all.end];
        outside
            .into_iter()
            .filter(|part| !part.is_empty())
            .find_map(|part| self.free.gaps(&part).next().map(|gap| gap.start))
    }

    /// Forgets what of `all` lies outside `inside`, all of which is free.
    ///
    /// # Panics
    /// If a part of it is not: somebody has it.
    #[cfg(feature = "mooncake")]
    pub(crate) fn narrow(&mut self, all: &Range<u64>, inside: &Range<u64>) {
        for part in [all.start..inside.start, inside.end..all.end] {
            assert!(part.is_empty() || self.take(&part), "{part:#x?} is outside a segment and taken");
        }
    }

    /// Whether all of `range` is free.
    #[cfg(test)]
    pub(crate) fn is_free(&self, range: &Range<u64>) -> bool {
        self.free.get(&range.start).is_some_and(|hole| range.end <= hole.end)
    }

    /// Takes `length` bytes from the smallest free range that has them.
    pub(crate) fn allocate(&mut self, length: u64, now: MonoTime) -> Option<u64> {
        self.release_due(now);
        let &(hole_length, start) = self.by_length.range((length, 0)..).next()?;
        self.cut(&(start..start + hole_length), &(start..start + length));
        Some(start)
    }

    /// Whether [`Self::allocate`] would find `length` bytes.
    pub(crate) fn could_allocate(&self, length: u64) -> bool {
        self.by_length.range((length, 0)..).next().is_some()
    }

    /// Makes `range` free.
    ///
    /// # Panics
    /// If a part of it is free already: it had two owners, and one of them is about to lose its bytes (M2).
    pub(crate) fn give_back(&mut self, range: Range<u64>) {
        assert!(!self.free.overlaps(&range), "range {range:?} is released twice");
        let before = range.start.checked_sub(1).and_then(|last| self.free.get(&last)).map(|hole| hole.start);
        let after = self.free.get(&range.end).map(|hole| hole.end);
        if let Some(start) = before {
            self.by_length.remove(&(range.start - start, start));
        }
        if let Some(end) = after {
            self.by_length.remove(&(end - range.end, range.end));
        }
        let merged = before.unwrap_or(range.start)..after.unwrap_or(range.end);
        self.by_length.insert((merged.end - merged.start, merged.start));
        self.free_bytes += range.end - range.start;
        self.free.insert(range);
    }

    /// Makes `range` free at `until`, or now if that has passed.
    pub(crate) fn give_back_at(&mut self, range: Range<u64>, until: MonoTime, now: MonoTime) {
        if until <= now {
            return self.give_back(range);
        }
        self.held_bytes += range.end - range.start;
        self.held.push(Reverse((until, range.start, range.end)));
    }

    /// Makes free what was kept until `now` or before.
    pub(crate) fn release_due(&mut self, now: MonoTime) {
        while let Some(Reverse((until, start, end))) = self.held.peek().copied() {
            if until > now {
                return;
            }
            self.held.pop();
            self.held_bytes -= end - start;
            self.give_back(start..end);
        }
    }

    fn cut(&mut self, hole: &Range<u64>, range: &Range<u64>) {
        self.by_length.remove(&(hole.end - hole.start, hole.start));
        if hole.start < range.start {
            self.by_length.insert((range.start - hole.start, hole.start));
        }
        if range.end < hole.end {
            self.by_length.insert((hole.end - range.end, range.end));
        }
        self.free.remove(range.clone());
        self.free_bytes -= range.end - range.start;
    }

    /// The free ranges, in order.
    #[cfg(test)]
    pub(crate) fn free_ranges(&self) -> Vec<Range<u64>> {
        self.free.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests;
