//! Owns the judgement: whether what clients were promised is in the log and at the new primary. It must not use a decoder, a
//! type or a rule of the server: what it knows of the log is `docs/formats/batch-record.md` and
//! `docs/formats/entry-payloads.md`, read by code of its own.

mod bytes;
mod crc;
mod fold;
mod log;
mod payload;
mod prefix;
mod promises;
mod record;
mod verdict;

#[cfg(test)]
mod tests;

pub(crate) use fold::Fold;
pub(crate) use log::{claims, read};
pub(crate) use promises::Promises;
pub(crate) use verdict::{Finding, Kind, Verdict, judge};
