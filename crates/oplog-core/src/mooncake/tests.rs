//! Owns the tests of Mooncake's bytes: vectors of the original, and every way in which they can be wrong.

mod batches;
mod prefixes;
