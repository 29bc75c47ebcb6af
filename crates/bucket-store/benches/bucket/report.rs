//! Owns how a figure is printed: a line of a table, or a JSON object.

/// One line.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) case: String,
    /// Baseline's time over ours, or our rate over the baseline's: higher is better.
    pub(crate) ratio: Option<f64>,
    /// With GC over without: lower is better.
    pub(crate) p99_ratio: Option<f64>,
    /// Bytes that GC wrote for each byte that it freed.
    pub(crate) amplification: Option<f64>,
    /// Of ours.
    pub(crate) mb_per_s: Option<f64>,
    /// Growth of the resident memory's peak.
    pub(crate) rss_growth_mb: Option<f64>,
    /// What is asked for, in words.
    pub(crate) aim: &'static str,
}

pub(crate) struct Report {
    json: bool,
    lines: usize,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, lines: 0 }
    }

    pub(crate) fn add(&mut self, row: &Row) {
        let figures = [
            ("ratio", row.ratio),
            ("p99_ratio", row.p99_ratio),
            ("amplification", row.amplification),
            ("mb_per_s", row.mb_per_s),
            ("rss_growth_mb", row.rss_growth_mb),
        ];
        if self.json {
            let present = figures.iter().filter_map(|(name, value)| Some((name, (*value)?)));
            let fields: String = present.map(|(name, value)| format!(",\"{name}\":{value:.3}")).collect();
            println!("{{\"suite\":\"bucket\",\"case\":\"{}\"{fields}}}", row.case);
        } else {
            if self.lines == 0 {
                println!(
                    "{:<58} {:>8} {:>8} {:>8} {:>9} {:>7}  aim",
                    "case", "ratio", "p99", "amplif.", "MB/s", "RSS+MB"
                );
            }
            let cells: String = figures
                .iter()
                .zip([8, 8, 8, 9, 7])
                .map(|((_, value), width)| match value {
                    Some(value) if *value >= 100.0 => format!(" {value:>width$.0}"),
                    Some(value) => format!(" {value:>width$.2}"),
                    None => format!(" {:>width$}", ""),
                })
                .collect();
            println!("{:<58}{cells}  {}", row.case, row.aim);
        }
        self.lines += 1;
    }
}
