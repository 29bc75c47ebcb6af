//! Owns how JSON is written where other programs read it byte by byte. It knows no format that is made of it.

mod ascii;

pub(crate) use ascii::to_ascii_vec;
