//! Owns how the figures are shown: one JSON object a line, or tables.

use crate::case::{Case, Layout};
use crate::rounds::median;
use crate::space::{ENTRIES, Space};

/// The figures of one store: `rates` by round and case, in the order of `cases`.
pub(crate) fn print(backend: &str, cases: &[Case], rates: &[Vec<f64>], spaces: &[Space], json: bool) {
    let figures = Figures { cases, rates };
    if json {
        figures.json(backend);
    } else {
        figures.tables(backend);
    }
    for Space { layout, live_keys, stored_bytes } in spaces {
        let (name, each) = (layout.name(), *stored_bytes as f64 / ENTRIES as f64);
        if json {
            println!(
                "{{\"suite\":\"layout\",\"backend\":\"{backend}\",\"layout\":\"{name}\",\"entries\":{ENTRIES},\
                 \"live_keys\":{live_keys},\"stored_bytes\":{stored_bytes},\"stored_bytes_per_entry\":{each:.1}}}"
            );
        } else {
            println!(
                "  {ENTRIES} entries as {name:>7}: {live_keys:>5} live keys, {stored_bytes:>7} bytes, {each:.1} an entry"
            );
        }
    }
}

struct Figures<'a> {
    cases: &'a [Case],
    rates: &'a [Vec<f64>],
}

impl Figures<'_> {
    fn index(&self, layout: Layout, producers: usize, waiting: bool) -> usize {
        let wanted = Case { layout, producers, waiting };
        self.cases.iter().position(|case| *case == wanted).expect("a case of the matrix")
    }

    fn rate(&self, case: usize) -> f64 {
        median(self.rates.iter().map(|round| round[case]).collect())
    }

    /// The median of the ratios within rounds.
    fn ratio(&self, of: usize, to: usize) -> f64 {
        median(self.rates.iter().map(|round| round[of] / round[to]).collect())
    }

    /// Of batches, against: puts with one in flight, with 64, with as many as there are producers, and the grouped writer's.
    fn ratios(&self, producers: usize, waiting: bool) -> [f64; 4] {
        let batches = self.index(Layout::Batches, producers, waiting);
        let puts = |in_flight| self.index(Layout::Puts, in_flight, true);
        [puts(1), puts(64), puts(producers), self.index(Layout::Grouped, producers, waiting)]
            .map(|to| self.ratio(batches, to))
    }

    fn json(&self, backend: &str) {
        for (at, case) in self.cases.iter().enumerate() {
            let Case { layout, producers, waiting } = *case;
            let (name, rate) = (layout.name(), self.rate(at));
            let ratios = if layout == Layout::Batches {
                let [one, many, equal, grouped] = self.ratios(producers, waiting);
                format!(
                    ",\"to_puts_1\":{one:.3},\"to_puts_64\":{many:.3},\"to_puts_equal\":{equal:.3},\"to_grouped\":{grouped:.3}"
                )
            } else {
                String::new()
            };
            println!(
                "{{\"suite\":\"layout\",\"backend\":\"{backend}\",\"layout\":\"{name}\",\"producers\":{producers},\
                 \"waiting\":{waiting},\"entries_per_s\":{rate:.0}{ratios}}}"
            );
        }
    }

    fn tables(&self, backend: &str) {
        println!(
            "{backend}, entries/s; in brackets batches to: puts 1 in flight, 64 in flight, equally many in flight, grouped"
        );
        for waiting in [false, true] {
            for producers in Case::PRODUCERS {
                let [puts, grouped, batches] = Layout::ALL
                    .map(|layout| self.rate(self.index(layout, producers, waiting || layout == Layout::Puts)));
                let [one, many, equal, by_grouped] = self.ratios(producers, waiting);
                let what = if waiting { "waiting" } else { "not waiting" };
                println!(
                    "  {producers:>2} {what:>11}: puts {puts:>7.0}, grouped {grouped:>8.0}, batches {batches:>8.0} \
                     ({one:.2}, {many:.2}, {equal:.2}, {by_grouped:.2})"
                );
            }
        }
    }
}
