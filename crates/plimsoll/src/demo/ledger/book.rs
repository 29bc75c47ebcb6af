//! Owns the file of a ledger: appended to line by line while calls run, read back as a whole.
//!
//! The client processes are not killed, so a line that was written is there; the disk need not be waited for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::{Answer, Call, Event, Line};
use crate::demo::clock;

/// A ledger being written.
#[derive(Debug)]
pub(crate) struct Book {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    last_op: u64,
}

/// A ledger read back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// In the order in which they were written.
    pub(crate) lines: Vec<Line>,
}

/// One call of a ledger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made<'a> {
    pub(crate) sent_ns: u64,
    pub(crate) call: &'a Call,
    /// When its answer came, and which.
    pub(crate) answered: Option<(u64, &'a Answer)>,
}

/// Why a ledger cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LedgerError {
    /// The file failed.
    #[error("the ledger {} failed: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// A line is not one of ours.
    #[error("the ledger {} has a bad line {line}: {reason}", path.display())]
    Line { path: PathBuf, line: usize, reason: String },
}

impl Book {
    /// A new file; an existing one is an error, because its calls are not ours.
    pub(crate) fn create(path: &Path) -> Result<Self, LedgerError> {
        let file = File::options().append(true).create_new(true).open(path).map_err(|source| Self::io(path, source))?;
        Ok(Self { path: path.into(), inner: Mutex::new(Inner { file, last_op: 0 }) })
    }

    /// Writes the intent and gives the call its number.
    pub(crate) fn sent(&self, call: &Call) -> Result<u64, LedgerError> {
        let mut inner = self.inner.lock();
        inner.last_op += 1;
        let op = inner.last_op;
        self.append(&mut inner.file, op, Event::Sent(call.clone()))?;
        Ok(op)
    }

    /// Writes the reply.
    pub(crate) fn answered(&self, op: u64, answer: &Answer) -> Result<(), LedgerError> {
        self.append(&mut self.inner.lock().file, op, Event::Answered(answer.clone()))
    }

    fn append(&self, file: &mut File, op: u64, event: Event) -> Result<(), LedgerError> {
        let line = Line { op, at_ns: clock::now_ns(), event };
        let mut text = serde_json::to_vec(&line).map_err(|e| Self::io(&self.path, e.into()))?;
        text.push(b'\n');
        file.write_all(&text).map_err(|source| Self::io(&self.path, source))
    }

    fn io(path: &Path, source: std::io::Error) -> LedgerError {
        LedgerError::Io { path: path.into(), source }
    }
}

impl Ledger {
    /// Reads a file that nobody writes any more.
    pub(crate) fn read(path: &Path) -> Result<Self, LedgerError> {
        let text = std::fs::read_to_string(path).map_err(|source| Book::io(path, source))?;
        let bad = |line, reason| LedgerError::Line { path: path.into(), line, reason };
        let mut lines = Vec::new();
        let mut open: BTreeMap<u64, ()> = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let line: Line = serde_json::from_str(line).map_err(|e| bad(number + 1, e.to_string()))?;
            let fits = match &line.event {
                Event::Sent(_) => open.insert(line.op, ()).is_none(),
                Event::Answered(_) => open.remove(&line.op).is_some(),
            };
            if !fits {
                return Err(bad(number + 1, format!("call {} is sent or answered twice", line.op)));
            }
            lines.push(line);
        }
        Ok(Self { lines })
    }

    /// Every call, in the order they were sent.
    pub(crate) fn calls(&self) -> Vec<Made<'_>> {
        let mut calls: BTreeMap<u64, Made<'_>> = BTreeMap::new();
        for line in &self.lines {
            match &line.event {
                Event::Sent(call) => {
                    calls.insert(line.op, Made { sent_ns: line.at_ns, call, answered: None });
                }
                Event::Answered(answer) => {
                    if let Some(made) = calls.get_mut(&line.op) {
                        made.answered = Some((line.at_ns, answer));
                    }
                }
            }
        }
        calls.into_values().collect()
    }
}

impl Made<'_> {
    /// Whether it ran at that moment.
    pub(crate) fn in_flight_at(&self, at_ns: u64) -> bool {
        self.sent_ns <= at_ns && self.answered.is_none_or(|(answered_ns, _)| answered_ns > at_ns)
    }

    /// When a change was promised for good; `None` if it never was, or changes nothing.
    pub(crate) fn durable_ns(&self) -> Option<u64> {
        let (at_ns, answer) = self.answered?;
        (self.call.is_change() && *answer == Answer::Durable).then_some(at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::ledger::Promise;

    #[test]
    fn what_is_written_is_read_back_and_an_open_call_stays_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ledger");
        let book = Book::create(&path).unwrap();
        let put = Call::PutEnd { key: "k".into(), incarnation: 7.into(), promise: Promise::Durable };
        let first = book.sent(&put).unwrap();
        let get = Call::Get { key: "k".into() };
        book.sent(&get).unwrap();
        book.answered(first, &Answer::Durable).unwrap();
        let ledger = Ledger::read(&path).unwrap();
        let calls: Vec<_> = ledger.calls().into_iter().map(|made| (made.call, made.answered.map(|a| a.1))).collect();
        assert_eq!(calls, [(&put, Some(&Answer::Durable)), (&get, None)]);
        assert!(Book::create(&path).is_err(), "a ledger is never written into twice");
    }

    #[test]
    fn a_torn_or_doubled_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ledger");
        let sent = r#"{"op":1,"at_ns":5,"event":{"sent":{"get":{"key":"k"}}}}"#;
        for (text, reason) in [(format!("{sent}\n{{\"op\":2"), "line 2"), (format!("{sent}\n{sent}\n"), "twice")] {
            std::fs::write(&path, text).unwrap();
            let error = Ledger::read(&path).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
