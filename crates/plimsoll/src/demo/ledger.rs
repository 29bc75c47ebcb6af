//! Owns what a client process writes down: the intent before a call is sent, the reply after. It must not judge.

mod book;
mod incarnation;
mod line;

pub(crate) use book::{Book, Ledger, LedgerError};
pub(crate) use incarnation::Incarnation;
pub(crate) use line::{Answer, Call, Event, Line, Promise};
