//! Owns which images a power loss may leave. It knows nothing of who wrote them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ha_types::{Entropy as _, SeededEntropy};

use super::change::{Inode, Names};
use super::content::Content;
use super::disk::SimDisk;
use super::image::Image;
use super::state::{Pending, State};

/// Which of the changes that are not durable survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Any subset: all that POSIX promises.
    Weak,
    /// Only those up to some moment, as on a disk that keeps the order. It hides what the weak rule finds: for comparison only.
    Kept,
}

/// How the images of a [`CrashPoint`] are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashStates {
    /// The rule.
    pub order: Order,
    /// Up to this many changes every subset is an image. Above it: every prefix, each change alone lost, each alone kept, and samples.
    pub exhaustive_up_to: usize,
    /// Whether above it there is all of that, or only nothing, everything and the samples.
    pub thorough: bool,
    /// How many samples are drawn above.
    pub samples: usize,
    /// What they are drawn with.
    pub seed: u64,
}

impl Default for CrashStates {
    fn default() -> Self {
        Self { order: Order::Weak, exhaustive_up_to: 12, thorough: true, samples: 64, seed: 0 }
    }
}

/// A moment at which the power may go: what is durable then, and what is not.
#[derive(Clone)]
pub struct CrashPoint {
    names: Names,
    contents: BTreeMap<Inode, Content>,
    changes: Vec<Pending>,
}

impl fmt::Debug for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names.keys().collect();
        f.debug_struct("CrashPoint").field("durable", &names).field("changes", &self.changes.len()).finish()
    }
}

impl CrashPoint {
    pub(super) fn new(names: Names, contents: BTreeMap<Inode, Content>, changes: Vec<Pending>) -> Self {
        Self { names, contents, changes }
    }

    /// How many changes may each be lost: units of data, lengths, operations of the directory.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.changes.len()
    }

    /// The images, some of them perhaps equal, each made when it is asked for. At least one.
    pub fn images(&self, states: CrashStates) -> impl Iterator<Item = Image> + '_ {
        Choices::new(self.changes.len(), states).map(|choice| self.image(&choice))
    }

    /// What is left if nothing survives that was not durable.
    #[must_use]
    pub fn least(&self) -> Image {
        self.image(&vec![false; self.changes.len()])
    }

    /// What is left if everything survives.
    #[must_use]
    pub fn most(&self) -> Image {
        self.image(&vec![true; self.changes.len()])
    }

    /// A disk as it is after the process died at this moment and the power did not go: everything is there, and what was not durable is not.
    #[must_use]
    pub fn restart(&self) -> SimDisk {
        SimDisk::at(|capacity| State::at(&self.names, &self.contents, &self.changes, capacity))
    }

    fn image(&self, survives: &[bool]) -> Image {
        let mut names = self.names.clone();
        let mut contents: BTreeMap<Inode, Content> = BTreeMap::new();
        for (pending, _) in self.changes.iter().zip(survives).filter(|(_, survives)| **survives) {
            let change = &pending.change;
            change.apply_to_names(&mut names);
            if let Some(inode) = change.inode() {
                change.apply_to_content(contents.entry(inode).or_insert_with(|| self.contents[&inode].clone()));
            }
        }
        let content = |inode: &Inode| contents.get(inode).unwrap_or_else(|| &self.contents[inode]).clone();
        Image::new(names.iter().map(|(name, inode)| (Arc::clone(name), content(inode))).collect())
    }
}

/// Which changes survive, one choice after the other.
struct Choices {
    of: usize,
    states: CrashStates,
    next: usize,
    entropy: SeededEntropy,
}

impl Choices {
    fn new(of: usize, states: CrashStates) -> Self {
        let states = CrashStates { exhaustive_up_to: states.exhaustive_up_to.min(24), ..states };
        Self { of, states, next: 0, entropy: SeededEntropy::new(states.seed) }
    }
}

impl Iterator for Choices {
    type Item = Vec<bool>;

    fn next(&mut self) -> Option<Vec<bool>> {
        let (of, index) = (self.of, self.next);
        self.next += 1;
        let choice = |survives: &dyn Fn(usize) -> bool| Some((0..of).map(survives).collect());
        if self.states.order == Order::Weak && of <= self.states.exhaustive_up_to {
            return if index >> of == 0 { choice(&|change| index >> change & 1 == 1) } else { None };
        }
        if self.states.order == Order::Weak && !self.states.thorough {
            return match index {
                0 | 1 => choice(&|_| index == 1),
                _ if index - 2 >= self.states.samples => None,
                _ => Some(self.sample()),
            };
        }
        if index <= of {
            return choice(&|change| change < index);
        }
        if self.states.order == Order::Kept {
            return None;
        }
        let index = index - of - 1;
        if index < of {
            return choice(&|change| change != index);
        }
        if index < 2 * of {
            return choice(&|change| change == index - of);
        }
        if index - 2 * of >= self.states.samples {
            return None;
        }
        Some(self.sample())
    }
}

impl Choices {
    /// Some samples are thick and some thin, so that not all of them lose half of everything.
    fn sample(&self) -> Vec<bool> {
        let keep = self.entropy.next_u64() % 8;
        (0..self.of).map(|_| self.entropy.next_u64() % 8 <= keep).collect()
    }
}
