//! Owns how histories are drawn from a seed. It decides nothing about what may come of them.

use ha_types::{Entropy as _, SeededEntropy};

use crate::disk::Away;
use crate::step::{Begin, Death, History, KEYS, Open, Step};

impl History {
    /// The history of a seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let draw = Draw(SeededEntropy::new(seed));
        let begin = if seed.is_multiple_of(3) { Begin::Mooncake } else { Begin::Empty };
        let first = Open { away: draw.away(if begin == Begin::Mooncake { 3 } else { 1 }), ..draw.open() };
        let first = Open { keep: false, ..first };
        let mut steps = Vec::new();
        match seed % 10 {
            3 => steps.extend(evicted_twin()),
            7 => steps.extend(tangle()),
            _ => {}
        }
        let many = 15 + draw.below(50);
        steps.extend((0..many).map(|_| draw.step()));
        Self { begin, first, steps }
    }
}

/// Two buckets, each of which holds an older record of what the other one holds a newer one of.
fn tangle() -> Vec<Step> {
    let write = |keys: &[u8]| Step::Write { keys: keys.into(), large: true, hint: None };
    let open =
        |away: Vec<(u8, Away)>| Step::End { death: Death::Close, open: Open { eager: true, away, ..Open::default() } };
    vec![
        write(&[1, 2]),
        write(&[0, 1]),
        // Now the newer one of 1 is away, and the older one is served as what there is.
        open(vec![(1, Away::ReadTable)]),
        write(&[0, 3]),
        Step::Delete(vec![2, 3]),
        Step::GcIdle,
        open(vec![]),
    ]
}

/// An object that is evicted while what was written of it before is away.
fn evicted_twin() -> Vec<Step> {
    let write = |keys: &[u8]| Step::Write { keys: keys.into(), large: true, hint: None };
    let open = Open { crowded: true, away: vec![(0, Away::ReadTable)], ..Open::default() };
    vec![
        write(&[4, 5]),
        Step::End { death: Death::Close, open },
        Step::RewriteAway(0),
        write(&[0, 1, 2, 3]),
        write(&[2]),
        Step::GcIdle,
    ]
}

struct Draw(SeededEntropy);

impl Draw {
    fn below(&self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    fn byte(&self) -> u8 {
        self.below(256) as u8
    }

    fn one_in(&self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn keys(&self, most: u64) -> Vec<u8> {
        let many = 1 + self.below(most);
        let mut keys: Vec<_> = (0..many).map(|_| self.below(KEYS.into()) as u8).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn away(&self, most: u64) -> Vec<(u8, Away)> {
        let many = self.below(most + 1);
        (0..many).map(|_| (self.byte(), Away::ALL[self.below(5) as usize])).collect()
    }

    fn open(&self) -> Open {
        Open {
            away: self.away(3),
            keep: self.one_in(3),
            relaxed: self.one_in(4),
            crowded: self.one_in(3),
            eager: !self.one_in(3),
            cut: self.one_in(6).then(|| self.below(40) as u16),
            pick: self.below(1 << 20) as u32,
        }
    }

    fn death(&self) -> Death {
        match self.below(5) {
            0 | 1 => Death::Close,
            2 => Death::Process,
            _ => Death::Power(self.below(1 << 20) as u32),
        }
    }

    fn step(&self) -> Step {
        match self.below(60) {
            0..12 => self.write(),
            12..15 => Step::Rewrite(self.byte()),
            15..18 => Step::RewriteAway(self.byte()),
            18..20 => Step::RewriteDamaged(self.byte()),
            20..26 => Step::Delete(self.keys(3)),
            26..29 => Step::DeleteAny(self.byte()),
            29..31 => Step::DeleteAway(self.byte()),
            31..34 => Step::Gc { steps: self.below(12) as u16, refuse: self.below(3) as u8 },
            34..40 => Step::GcIdle,
            40..41 => Step::Publish,
            41..44 => Step::Maintain,
            44..46 => Step::Damage(self.byte()),
            46..49 => Step::Look,
            49..56 => Step::End { death: self.death(), open: self.open() },
            _ => {
                let then = match self.below(5) {
                    0 => self.write(),
                    1 => Step::Delete(self.keys(3)),
                    2 => Step::DeleteAny(self.byte()),
                    3 => Step::Maintain,
                    _ => Step::GcIdle,
                };
                let death = if self.one_in(3) { Death::Process } else { Death::Power(self.below(1 << 20) as u32) };
                Step::Cut { ops: 1 + self.below(40) as u16, then: Box::new(then), death, open: self.open() }
            }
        }
    }

    fn write(&self) -> Step {
        let hint = self.one_in(4).then(|| self.below(2));
        Step::Write { keys: self.keys(4), large: !self.one_in(3), hint }
    }
}
