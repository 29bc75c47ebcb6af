//! Owns the one list of figures that are shown: name, meaning, value.

use crate::node::{Figures, Role};

/// What a figure does over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only rises, until the process or the term begins anew.
    Counter,
    /// It is what it is now.
    Gauge,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: Kind,
    pub(super) value: u64,
}

/// Said wherever the log's size shows.
pub(super) const LOG_GROWS: &str = "nothing truncates the log yet, so it only grows";

/// All figures. All of them are always there; what a role does not have is 0.
pub(super) fn figures(f: &Figures) -> Vec<Figure> {
    let mut all = Vec::with_capacity(64);
    all.extend(log(f));
    all.extend(writer(f));
    all.extend(standby(f));
    all.extend(election(f));
    all.extend(master(f));
    all
}

fn gauge(name: &'static str, help: &'static str, value: u64) -> Figure {
    Figure { name, help, kind: Kind::Gauge, value }
}

fn counter(name: &'static str, help: &'static str, value: u64) -> Figure {
    Figure { name, help, kind: Kind::Counter, value }
}

fn log(f: &Figures) -> [Figure; 6] {
    let (log, (batch, seq)) = (f.log(), f.durable());
    [
        gauge("log_batches", "Batch records in the log; nothing truncates the log yet, so it only grows", log.batches),
        gauge("log_entries", "Entries in the log; nothing truncates the log yet, so it only grows", log.entries),
        gauge("log_bytes", "Bytes of the batch records; nothing truncates the log yet, so it only grows", log.bytes),
        gauge("log_durable_batch_id", "The durable prefix as this node knows it: batch", batch),
        gauge("log_durable_seq", "The durable prefix as this node knows it: sequence", seq),
        gauge("log_epoch", "The epoch claimed by this node, or seen in the durable prefix", f.epoch()),
    ]
}

fn writer(f: &Figures) -> [Figure; 19] {
    let term = f.term.as_ref();
    let m = term.map(|t| t.writer.clone()).unwrap_or_default();
    let status = term.map(|t| &t.status);
    [
        gauge("writer_accepting", "Whether the log takes entries", status.is_some_and(|s| s.accepting).into()),
        gauge(
            "writer_unanswered",
            "Whether the store is silent to the writer",
            status.is_some_and(|s| s.unanswered_since.is_some()).into(),
        ),
        gauge("writer_terminal", "Whether the writer has ended", status.is_some_and(|s| s.terminal.is_some()).into()),
        counter("writer_committed", "Entries committed in this term", m.committed),
        counter("writer_durable", "Entries durable in this term", m.durable),
        counter("writer_batches", "Batches durable in this term", m.batches),
        counter("writer_bytes", "Record bytes durable in this term", m.bytes),
        counter("writer_retries", "Transactions sent again in this term", m.retries),
        counter("writer_cuts", "Batches cut in this term because the store found them too large", m.cuts),
        counter(
            "writer_recovered_unknown",
            "Unknown outcomes of this term that turned out to be durable",
            m.recovered_unknown,
        ),
        gauge("writer_waiting_entries", "Entries waiting for a batch", m.waiting_entries),
        gauge("writer_waiting_bytes", "Bytes waiting for a batch", m.waiting_bytes),
        gauge("writer_stuck_batch_age_milliseconds", "Age of the batch in flight", m.stuck_batch_age_ms),
        gauge("writer_prefix_lag_entries", "Entries committed and not durable yet", m.prefix_lag_entries),
        gauge("writer_prefix_lag_milliseconds", "Age of the oldest of them", m.prefix_lag_ms),
        gauge("writer_slots", "Slots of the queue taken by reservations and by entries that wait", m.slots),
        gauge("writer_bulk_slots", "Of them, those of bulk", m.bulk_slots),
        gauge("writer_callbacks_waiting", "Callbacks that have not run yet", m.callbacks_waiting),
        counter("writer_callback_panics", "Callbacks of this term that panicked", m.callback_panics),
    ]
}

fn standby(f: &Figures) -> [Figure; 21] {
    let s = f.standby.clone().unwrap_or_default();
    let follows = matches!(f.role.role, Role::Standby | Role::Promoting);
    let lag = |lag: u64| if follows { lag } else { 0 };
    [
        gauge(
            "standby_healthy",
            "Whether this node follows a log that is as it must be",
            (follows && s.health.name() == "following").into(),
        ),
        gauge("standby_store_answers", "Whether the last look reached the store", (follows && s.store_answers).into()),
        gauge("standby_applied_seq", "The last sequence replayed", s.applied_seq),
        gauge("standby_applied_batch_id", "The last batch replayed", s.applied_batch),
        gauge("standby_lag_entries", "Entries behind the durable prefix", lag(s.lag_entries)),
        gauge("standby_lag_batches", "Batches behind the durable prefix", lag(s.lag_batches)),
        counter("standby_entries", "Entries replayed in this life", s.entries),
        counter("standby_bytes", "Record bytes replayed in this life", s.bytes),
        counter("standby_reads", "Requests to the store in this life", s.reads),
        counter("standby_hints", "Looks caused by a hint", s.hints),
        counter("standby_polls", "Looks caused by the poll interval", s.polls),
        counter("standby_store_errors", "Requests to the store that failed", s.store_errors),
        counter("standby_unconfirmed", "Doubtful readings that a second one took back", s.unconfirmed),
        gauge(
            "standby_legacy_following",
            "Whether this node stands in the legacy log, from where it cannot lead",
            (follows && s.legacy.following).into(),
        ),
        gauge("standby_legacy_latest_seq", "What the legacy log's latest said last", s.legacy.latest_seq),
        gauge("standby_legacy_base_seq", "Where the legacy log was cut over", s.legacy.base_seq.unwrap_or(0)),
        gauge(
            "standby_legacy_missing",
            "Whether a missing legacy entry is waited for",
            (follows && s.legacy.missing_seq.is_some()).into(),
        ),
        counter(
            "standby_legacy_skipped",
            "Missing legacy entries that were passed over in this life",
            s.legacy.skipped,
        ),
        counter("standby_legacy_restarts", "States thrown away at the cutover in this life", s.legacy.restarts),
        counter(
            "standby_legacy_roll_backs",
            "States rolled back and replayed for a damaged reading of the legacy log in this life",
            s.legacy.roll_backs,
        ),
        gauge(
            "standby_legacy_entry_above_base",
            "The alarm: whether a legacy entry lies above the base",
            (follows && s.legacy.alarm.is_some()).into(),
        ),
    ]
}

fn election(f: &Figures) -> [Figure; 7] {
    let e = &f.election;
    [
        gauge("leadership_held", "Whether this node may act as leader", e.leading.into()),
        gauge("leadership_remaining_milliseconds", "How long it may act without another keep-alive", e.remaining_ms),
        counter("leadership_terms_won", "Terms won", e.terms_won),
        counter("leadership_attempts", "Times the lease was asked for", e.attempts),
        counter("leadership_attempts_failed", "Times it could not be asked for", e.attempts_failed),
        counter("leadership_keep_alives_ok", "Keep-alives confirmed", e.keep_alives_ok),
        counter("leadership_keep_alives_failed", "Keep-alives not confirmed", e.keep_alives_failed),
    ]
}

fn master(f: &Figures) -> [Figure; 11] {
    let m = f.term.as_ref().map(|t| &t.master);
    let of = |value: fn(&master::MasterStats) -> u64| m.map_or(0, value);
    [
        gauge("calls_in_flight", "Calls being answered", f.in_flight as u64),
        gauge("objects", "Objects, those with a removal on its way included", of(|m| m.objects)),
        gauge("running_puts", "Puts that run", of(|m| m.running_puts)),
        gauge("pending_removals", "Removals not yet finalized", of(|m| m.pending_removals)),
        gauge("segments", "Segments mounted", of(|m| m.segments.len() as u64)),
        gauge("segment_bytes", "Bytes of all segments", of(|m| m.total_bytes)),
        gauge("segment_free_bytes", "Bytes free, quarantined ones included", of(|m| m.free_bytes)),
        gauge("segment_quarantined_bytes", "Bytes free that are not handed out yet", of(|m| m.quarantined_bytes)),
        gauge("segment_held_bytes", "Bytes kept while a client may still use them", of(|m| m.held_bytes)),
        gauge(
            "quarantine_milliseconds",
            "How much longer the quarantine after the promotion lasts",
            of(|m| m.quarantine_ms),
        ),
        counter("leases_granted", "Leases granted in this term", of(|m| m.leases_granted)),
    ]
}
