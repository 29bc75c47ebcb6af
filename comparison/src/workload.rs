//! Owns the input of both sides: which objects there are, what they hold, and which die.

use clap::ValueEnum;

/// How the dead half lies among the living.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// Every second object, deleted in the order they were written
    Alternate,
    /// A seeded half, deleted in a seeded order: each group of deletes meets many buckets
    Scattered,
    /// Runs of 1,024 objects: what was written together dies together
    Runs,
}

#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub objects: u64,
    pub value_bytes: usize,
    pub pattern: Pattern,
}

impl Workload {
    /// `tenant 0x00 key`, as every holder writes them.
    pub fn key(self, n: u64) -> Vec<u8> {
        let mut key = b"default\0".to_vec();
        key.extend_from_slice(format!("model-7b/block/{n:012x}").as_bytes());
        key
    }

    /// Bytes without a pattern, different for each object.
    pub fn value(self, n: u64) -> Vec<u8> {
        let mut random = Random(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut value = Vec::with_capacity(self.value_bytes + 8);
        while value.len() < self.value_bytes {
            value.extend_from_slice(&random.next().to_le_bytes());
        }
        value.truncate(self.value_bytes);
        value
    }

    /// Half of the objects, in the order they are deleted.
    pub fn dead(self) -> Vec<u64> {
        match self.pattern {
            Pattern::Alternate => (0..self.objects).step_by(2).collect(),
            Pattern::Runs => (0..self.objects).filter(|n| n / 1024 % 2 == 0).collect(),
            Pattern::Scattered => {
                let mut all: Vec<u64> = (0..self.objects).collect();
                let mut random = Random(0x0dd5_eed5);
                for last in (1..all.len()).rev() {
                    all.swap(last, (random.next() % (last as u64 + 1)) as usize);
                }
                all.truncate(all.len() / 2);
                all
            }
        }
    }
}

/// Marsaglia's xorshift: only the same numbers on both sides matter here.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
