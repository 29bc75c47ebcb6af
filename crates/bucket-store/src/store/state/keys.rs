//! Owns the places of one key's records, oldest first. Nearly every key has one.

use super::slots::Location;

#[derive(Debug)]
pub(super) enum KeyRecords {
    /// The usual case, without an allocation.
    One(Location),
    /// In the order of (write number, bucket id).
    Many(Vec<Location>),
}

impl KeyRecords {
    pub(super) fn as_slice(&self) -> &[Location] {
        match self {
            Self::One(at) => std::slice::from_ref(at),
            Self::Many(places) => places,
        }
    }

    /// Adds a place by its rank; `number_of` is the write number of those that are here already.
    pub(super) fn add(&mut self, place: (u64, Location), number_of: impl Fn(Location) -> u64) {
        let at = self.as_slice().partition_point(|other| (number_of(*other), *other) < place);
        let mut places = match std::mem::replace(self, Self::Many(Vec::new())) {
            Self::One(other) => vec![other],
            Self::Many(places) => places,
        };
        places.insert(at, place.1);
        *self = Self::Many(places);
    }

    /// Takes a place away. Whether none is left.
    pub(super) fn remove(&mut self, at: Location) -> bool {
        match self {
            Self::One(only) => *only == at,
            Self::Many(places) => {
                places.retain(|other| *other != at);
                match places[..] {
                    [] => true,
                    [only] => {
                        *self = Self::One(only);
                        false
                    }
                    _ => false,
                }
            }
        }
    }
}
