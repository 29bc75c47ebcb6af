//! Owns the reference model: the writer's rules once more, over plain lists, without encoding, wakers or figures.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Outcome;
use crate::writer::class::Class;

/// How the writer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Fenced,
    Corrupt,
    Rejected,
    Shutdown,
    RetryBudget,
}

/// What is to be done next for the batch in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Append,
    ReadPrefix,
    ReadBatch,
    /// A pause, then this.
    PauseAppend,
    PauseReadPrefix,
    PauseReadBatch,
    Committed,
    Cut,
    End(End, Outcome),
}

/// What the store says to an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Committed,
    CompareFailed,
    Unknown,
    /// The store is full, and may have applied it all the same.
    Full,
    RefusedForNow,
    TooLarge,
    RefusedForGood,
    AnotherStore,
}

/// What a read of the prefix finds, relative to the batch in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    New,
    Expected,
    ClaimedHere,
    ClaimedAndWritten,
    Lower,
    OtherOwner,
    Absent,
    Rubbish,
    Failed,
}

/// What a read of the stored batch finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Mine,
    Higher,
    Absent,
    Failed,
}

/// One entry: its sequence, for whom its slot was, whether it calls back, and what it takes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) seq: u64,
    class: Class,
    pub(super) calls_back: bool,
    pub(super) bytes: usize,
}

/// One who stands in line. With a slot it has been granted it and has not looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InLine {
    pub(super) number: u64,
    class: Class,
    pub(super) granted: bool,
}

/// Why there is no slot, though admission is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// Bulk has its share of the slots.
    BulkEntries,
    /// What waits of bulk fills its share of a batch.
    BulkBytes,
    Entries,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Flight {
    pub(super) entries: Vec<Entry>,
    unknown: bool,
    doubted: bool,
    failed_reads: u32,
    fenced: bool,
    /// Time without an answer so far, and since when it runs on.
    silent: Duration,
    silent_since: Option<Duration>,
}

/// When a request was sent and when its answer, or the lack of one, was known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) began: Duration,
    pub(super) now: Duration,
}

/// The writer.
#[derive(Debug)]
pub(super) struct Model {
    limit: usize,
    /// A batch is full with so many bytes.
    seal_bytes: usize,
    /// How long a batch may be without an answer in all.
    budget: Option<Duration>,
    /// Reservations, each for its class.
    reserved: Vec<Class>,
    pub(super) waiting: VecDeque<Entry>,
    /// In line for a slot, first come first served among those who may have one.
    pub(super) line: Vec<InLine>,
    pub(super) flight: Option<Flight>,
    /// Parts of a cut, which hold no slots.
    pub(super) cut: VecDeque<Vec<Entry>>,
    pub(super) failing: bool,
    pub(super) draining: bool,
    pub(super) end: Option<End>,
    pub(super) next_seq: u64,
    pub(super) durable: u64,
    /// In the order in which callbacks have to be called.
    pub(super) told: Vec<(u64, Outcome)>,
}

impl Model {
    pub(super) fn new(limit: usize, seal_bytes: usize, budget: Option<Duration>) -> Self {
        Self {
            limit,
            seal_bytes,
            budget,
            reserved: Vec::new(),
            waiting: VecDeque::new(),
            line: Vec::new(),
            flight: None,
            cut: VecDeque::new(),
            failing: false,
            draining: false,
            end: None,
            next_seq: 1,
            durable: 0,
            told: Vec::new(),
        }
    }

    fn all_slots(&self) -> impl Iterator<Item = Class> {
        let granted = self.line.iter().filter(|who| who.granted).map(|who| who.class);
        self.reserved.iter().copied().chain(self.waiting.iter().map(|entry| entry.class)).chain(granted)
    }

    pub(super) fn slots(&self) -> usize {
        self.all_slots().count()
    }

    pub(super) fn seal_bytes(&self) -> usize {
        self.seal_bytes
    }

    pub(super) fn bulk_slots(&self) -> usize {
        self.all_slots().filter(|class| *class == Class::Bulk).count()
    }

    /// Whether somebody of this class holds a reservation.
    pub(super) fn holds(&self, class: Class) -> bool {
        self.reserved.contains(&class)
    }

    /// Seven eighths, rounded down, but for one that is all there is.
    fn bulk_share(of: usize) -> usize {
        (of * 7 / 8).max(1)
    }

    /// Why `class` may not have `n` slots now.
    pub(super) fn full(&self, class: Class, n: usize) -> Option<Full> {
        if class == Class::Bulk {
            let waiting: usize = self.waiting.iter().filter(|e| e.class == class).map(|e| e.bytes).sum();
            if self.bulk_slots() + n > Self::bulk_share(self.limit) {
                return Some(Full::BulkEntries);
            }
            if waiting >= Self::bulk_share(self.seal_bytes) {
                return Some(Full::BulkBytes);
            }
        }
        (self.slots() + n > self.limit).then_some(Full::Entries)
    }

    pub(super) fn accepting(&self) -> bool {
        !self.failing && !self.draining && self.end.is_none()
    }

    /// Whether anybody of this class is in line without a slot.
    pub(super) fn somebody_waits(&self, class: Class) -> bool {
        self.line.iter().any(|who| who.class == class && !who.granted)
    }

    /// How many `class` may have at most.
    pub(super) fn most(&self, class: Class) -> usize {
        if class == Class::Bulk { Self::bulk_share(self.limit) } else { self.limit }
    }

    pub(super) fn reserve(&mut self, class: Class, n: usize) -> bool {
        let ok = self.accepting()
            && (1..=self.most(class)).contains(&n)
            && !self.somebody_waits(class)
            && self.full(class, n).is_none();
        if ok {
            self.reserved.extend(std::iter::repeat_n(class, n));
        }
        ok
    }

    /// Whether the slot was free at once; else joined the line as `number` (if the writer accepts).
    pub(super) fn join(&mut self, class: Class, number: u64) -> bool {
        if self.reserve(class, 1) {
            return true;
        }
        if self.accepting() {
            self.line.push(InLine { number, class, granted: false });
        }
        false
    }

    /// `Some(true)`: has the slot now; `Some(false)`: goes on waiting; `None`: was turned away.
    pub(super) fn turn(&mut self, number: u64) -> Option<bool> {
        let at = self.line.iter().position(|who| who.number == number)?;
        if self.line[at].granted {
            let who = self.line.remove(at);
            self.reserved.push(who.class);
            return Some(true);
        }
        Some(false)
    }

    pub(super) fn leave(&mut self, number: u64) {
        self.line.retain(|who| who.number != number);
        self.grant();
    }

    /// A slot goes to whoever came first of those who may have one: bulk is passed while it has its share, and by nobody else.
    fn grant(&mut self) {
        while let Some(at) = self.line.iter().position(|who| !who.granted && self.full(who.class, 1).is_none()) {
            self.line[at].granted = true;
        }
    }

    fn turn_away(&mut self) {
        self.line.retain(|who| who.granted);
    }

    fn give_up(&mut self, class: Class) {
        let at = self.reserved.iter().position(|held| *held == class).expect("a reservation of this class");
        self.reserved.remove(at);
    }

    pub(super) fn abort(&mut self, class: Class) {
        self.give_up(class);
        self.grant();
    }

    /// `fits` says whether the entry could be in a batch, `bytes` what it takes of one.
    pub(super) fn commit(&mut self, class: Class, calls_back: bool, fits: bool, bytes: usize) -> Option<u64> {
        if self.end.is_some() || !fits {
            self.abort(class);
            return None;
        }
        self.give_up(class);
        let seq = self.next_seq;
        self.next_seq += 1;
        self.waiting.push_back(Entry { seq, class, calls_back, bytes });
        Some(seq)
    }

    /// `count` entries leave as one batch.
    pub(super) fn depart(&mut self, count: usize) {
        let entries: Vec<_> = match self.cut.pop_front() {
            Some(part) => part,
            None => self.waiting.drain(..count).collect(),
        };
        assert_eq!(entries.len(), count);
        self.flight = Some(Flight { entries, ..Flight::default() });
        self.grant();
    }

    fn fate(&self) -> Outcome {
        if self.flight.as_ref().is_some_and(|f| f.unknown) { Outcome::Unknown } else { Outcome::Never }
    }

    fn fail(&mut self) {
        self.failing = true;
        self.turn_away();
    }

    fn latch(&mut self, end: End) {
        self.end = Some(self.end.unwrap_or(end));
        self.turn_away();
    }

    fn ends(&mut self, end: End, batch: Outcome) -> Next {
        self.latch(end);
        Next::End(end, batch)
    }

    fn flight(&mut self) -> &mut Flight {
        self.flight.as_mut().expect("in flight")
    }

    /// The store gave no answer in this span.
    fn silence(&mut self, span: Span) -> Option<Next> {
        let flight = self.flight();
        flight.silent += span.now - flight.silent_since.unwrap_or(span.began).max(span.began);
        flight.silent_since = Some(span.now);
        self.over_budget()
    }

    fn over_budget(&mut self) -> Option<Next> {
        let (budget, silent) = (self.budget?, self.flight().silent);
        if silent < budget {
            return None;
        }
        let fate = self.fate();
        Some(self.ends(End::RetryBudget, fate))
    }

    /// A pause is over; it counts if the store was silent before it.
    pub(super) fn pause_over(&mut self, now: Duration) -> Option<Next> {
        let flight = self.flight();
        if let Some(since) = flight.silent_since {
            flight.silent += now - since;
            flight.silent_since = Some(now);
        }
        self.over_budget()
    }

    pub(super) fn append(&mut self, answer: Answer, span: Span) -> Next {
        if answer == Answer::Committed {
            return Next::Committed;
        }
        self.fail();
        let fate = self.fate();
        if answer != Answer::Unknown {
            self.flight().silent_since = None;
        }
        match answer {
            Answer::Committed => unreachable!(),
            Answer::CompareFailed => Next::ReadPrefix,
            Answer::Unknown => {
                self.flight().unknown = true;
                self.silence(span).unwrap_or(Next::ReadPrefix)
            }
            Answer::Full => {
                self.flight().unknown = true;
                Next::ReadPrefix
            }
            Answer::RefusedForNow => Next::PauseAppend,
            Answer::TooLarge if self.flight().entries.len() > 1 && fate == Outcome::Never => Next::Cut,
            Answer::TooLarge | Answer::RefusedForGood => self.ends(End::Rejected, fate),
            Answer::AnotherStore => self.ends(End::Corrupt, fate),
        }
    }

    pub(super) fn prefix(&mut self, found: Found, span: Span) -> Next {
        if found == Found::New {
            return Next::Committed;
        }
        self.fail();
        match found {
            Found::New => unreachable!(),
            Found::Expected => {
                self.flight().doubted = false;
                Next::PauseAppend
            }
            Found::ClaimedHere => self.ends(End::Fenced, Outcome::Never),
            Found::ClaimedAndWritten => {
                self.flight().fenced = true;
                self.latch(End::Fenced);
                Next::ReadBatch
            }
            Found::Lower | Found::OtherOwner | Found::Absent | Found::Rubbish => {
                if std::mem::replace(&mut self.flight().doubted, true) {
                    let fate = self.fate();
                    return self.ends(End::Corrupt, fate);
                }
                Next::PauseReadPrefix
            }
            Found::Failed => self.silence(span).unwrap_or(Next::PauseReadPrefix),
        }
    }

    pub(super) fn stored(&mut self, stored: Stored, span: Span) -> Next {
        let outcome = match stored {
            Stored::Mine => Outcome::Durable,
            Stored::Higher => Outcome::Never,
            Stored::Absent => Outcome::Unknown,
            Stored::Failed => {
                self.flight().failed_reads += 1;
                if self.flight().failed_reads < 8 && self.silence(span).is_none() {
                    return Next::PauseReadBatch;
                }
                Outcome::Unknown
            }
        };
        Next::End(End::Fenced, outcome)
    }

    pub(super) fn interrupt(&mut self, sent: bool) -> Next {
        self.flight().unknown |= sent;
        if self.flight().fenced {
            return Next::End(End::Fenced, Outcome::Unknown);
        }
        let fate = self.fate();
        self.ends(End::Shutdown, fate)
    }

    pub(super) fn finish(&mut self) {
        let flight = self.flight.take().expect("in flight");
        self.durable = flight.entries.last().expect("an entry").seq;
        self.failing = false;
        self.tell(&flight.entries, Outcome::Durable);
    }

    /// `refused` is the size of the batch if a store has found it too large: no later one is filled to more than half of it.
    pub(super) fn cut(&mut self, parts: &[usize], refused: Option<usize>) {
        self.seal_bytes = refused.map_or(self.seal_bytes, |bytes| self.seal_bytes.min(bytes / 2));
        let mut entries = self.flight.take().expect("in flight").entries;
        for count in parts.iter().rev() {
            let part = entries.split_off(entries.len() - count);
            self.cut.push_front(part);
        }
        assert!(entries.is_empty());
    }

    pub(super) fn stop(&mut self) {
        self.latch(End::Shutdown);
    }

    pub(super) fn drain(&mut self) {
        self.draining = true;
        self.turn_away();
    }

    /// Everything is over; the last sequence that is durable or unknown.
    pub(super) fn over(&mut self, batch: Outcome) -> u64 {
        self.latch(End::Shutdown);
        let mut through = self.durable;
        if let Some(flight) = self.flight.take() {
            let last = flight.entries.last().expect("an entry").seq;
            if batch != Outcome::Never {
                through = last;
            }
            if batch == Outcome::Durable {
                self.durable = last;
            }
            self.tell(&flight.entries, batch);
        }
        let rest: Vec<_> = self.cut.drain(..).flatten().chain(self.waiting.drain(..)).collect();
        self.tell(&rest, Outcome::Never);
        self.grant();
        through
    }

    fn tell(&mut self, entries: &[Entry], outcome: Outcome) {
        self.told.extend(entries.iter().filter(|e| e.calls_back).map(|e| (e.seq, outcome)));
    }
}
