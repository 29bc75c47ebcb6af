//! Owns how the figures are shown: one JSON object a line, or a table.

use crate::bare::Bare;
use crate::case::Case;
use crate::store::Opened;

/// The figures of one run of one case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) entries_per_s: f64,
    /// Not waiting: against the bare loop's entries; waiting: against N entries a transaction.
    pub(crate) ratio_to_bare: f64,
    pub(crate) commit_ns: f64,
    pub(crate) cpu_s_per_million: f64,
    pub(crate) mean_batch: f64,
}

pub(crate) struct Report {
    json: bool,
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) fn bare(&mut self, store: &Opened, bares: &[Bare]) {
        let entries = median(bares.iter().map(|b| b.entries_per_s));
        let txn_us = median(bares.iter().map(|b| b.seconds_per_txn)) * 1e6;
        if !self.json {
            let (backend, delay) = (store.store.backend(), store.store.delay_ms());
            println!("{backend} {delay} ms: bare loop {entries:>9.0} entries/s, {txn_us:.0} us a transaction of 1024");
        }
    }

    pub(crate) fn case(&mut self, store: &Opened, case: &Case, rows: &[Row]) {
        let of = |field: fn(&Row) -> f64| median(rows.iter().map(field));
        let (backend, delay) = (store.store.backend(), store.store.delay_ms());
        let Case { producers, waiting, max_entries, seal_delay } = *case;
        let seal_delay_us = seal_delay.as_micros();
        let (entries, ratio) = (of(|r| r.entries_per_s), of(|r| r.ratio_to_bare));
        let (commit, cpu, batch) = (of(|r| r.commit_ns), of(|r| r.cpu_s_per_million), of(|r| r.mean_batch));
        if self.json {
            println!(
                "{{\"suite\":\"writer\",\"backend\":\"{backend}\",\"delay_ms\":{delay},\"producers\":{producers},\
                 \"waiting\":{waiting},\"entries_per_s\":{entries:.0},\"ratio_to_bare\":{ratio:.3},\
                 \"commit_ns\":{commit:.0},\"cpu_s_per_million\":{cpu:.3},\"mean_batch\":{batch:.1},\
                 \"max_entries\":{max_entries},\"seal_delay_us\":{seal_delay_us}}}"
            );
        } else {
            let what = if waiting { "of N/T" } else { "of bare" };
            println!(
                "  {producers:>2} producers{} limit {max_entries} delay {seal_delay_us:>3} us: {entries:>9.0} entries/s \
                 {ratio:.3} {what}, commit {commit:>4.0} ns, {cpu:.2} CPU s a million, batches of {batch:.0}",
                if waiting { ", waiting" } else { "         " },
            );
        }
    }
}
