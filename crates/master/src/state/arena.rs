//! Owns the memory of one shard's objects: chunks that never move, so that growing copies nothing and wastes less than a
//! chunk. Places of what was removed are used again; chunks are not given back.

/// Objects of one chunk.
const CHUNK: usize = 32;

/// Values, each at a place of its own.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    /// Full ones.
    chunks: Vec<Vec<Option<T>>>,
    /// The one being filled; here, so that adding follows one pointer only.
    last: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), last: Vec::new(), free: Vec::new() }
    }
}

impl<T> Arena<T> {
    /// Keeps `value` and says where.
    ///
    /// # Panics
    /// Beyond 2^32 values, which is more than memory holds.
    pub(crate) fn add(&mut self, value: T) -> u32 {
        if let Some(at) = self.free.pop() {
            *self.slot(at) = Some(value);
            return at;
        }
        if self.last.len().is_multiple_of(CHUNK) {
            self.start_chunk();
        }
        let at = self.chunks.len() * CHUNK + self.last.len();
        self.last.push(Some(value));
        u32::try_from(at).expect("fewer than 2^32 objects in a shard")
    }

    #[cold]
    fn start_chunk(&mut self) {
        let full = std::mem::replace(&mut self.last, Vec::with_capacity(CHUNK));
        if !full.is_empty() {
            self.chunks.push(full);
        }
    }

    pub(crate) fn get(&self, at: u32) -> &T {
        let at = at as usize;
        let chunk = self.chunks.get(at / CHUNK).unwrap_or(&self.last);
        chunk[at % CHUNK].as_ref().expect("the table names places in use")
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> &mut T {
        self.slot(at).as_mut().expect("the table names places in use")
    }

    pub(crate) fn remove(&mut self, at: u32) -> T {
        let value = self.slot(at).take().expect("the table names places in use");
        self.free.push(at);
        value
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().chain(&self.last).flatten()
    }

    fn slot(&mut self, at: u32) -> &mut Option<T> {
        let at = at as usize;
        &mut self.chunks.get_mut(at / CHUNK).unwrap_or(&mut self.last)[at % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_stay_and_are_used_again() {
        let mut arena = Arena::default();
        let places: Vec<u32> = (0..100).map(|i| arena.add(i)).collect();
        assert_eq!(arena.iter().count(), 100);
        for at in places.iter().step_by(3) {
            assert_eq!(arena.remove(*at), *at);
        }
        for (i, at) in places.iter().enumerate().filter(|(i, _)| i % 3 != 0) {
            assert_eq!(*arena.get(*at), i as u32);
            *arena.get_mut(*at) += 1000;
        }
        let again: Vec<u32> = (0..34).map(|i| arena.add(2000 + i)).collect();
        assert!(again.iter().all(|at| places.contains(at)), "no new place before the old ones are used");
        assert_eq!(arena.iter().count(), 100);
        assert_eq!(arena.add(0), 100);
    }
}
