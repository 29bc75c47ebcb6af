//! Owns how a figure is printed: a line of a table with whether its aims are met, or a JSON object.

/// What is asked for of one figure.
#[derive(Clone, Copy)]
pub(crate) enum Aim {
    /// The figure of this name is at least so much.
    AtLeast(&'static str, f64),
    /// The figure of this name is at most so much.
    AtMost(&'static str, f64),
}

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
    /// What is asked for; of a row without any the figures are reported and no more.
    pub(crate) aims: &'static [Aim],
}

pub(crate) struct Report {
    json: bool,
    lines: usize,
    missed: Vec<String>,
}

impl Row {
    fn figures(&self) -> [(&'static str, Option<f64>); 5] {
        [
            ("ratio", self.ratio),
            ("p99_ratio", self.p99_ratio),
            ("amplification", self.amplification),
            ("mb_per_s", self.mb_per_s),
            ("rss_growth_mb", self.rss_growth_mb),
        ]
    }

    /// What is asked for, and whether it is so. A figure that the system does not give meets nothing.
    fn judged(&self) -> impl Iterator<Item = (String, bool)> {
        self.aims.iter().map(|aim| {
            let (name, sign, bound) = match *aim {
                Aim::AtLeast(name, bound) => (name, ">=", bound),
                Aim::AtMost(name, bound) => (name, "<=", bound),
            };
            let figure = self.figures().into_iter().find(|(of, _)| *of == name).and_then(|(_, figure)| figure);
            let met = figure.is_some_and(|figure| if sign == ">=" { figure >= bound } else { figure <= bound });
            (format!("{name} {sign} {bound}"), met)
        })
    }
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, lines: 0, missed: Vec::new() }
    }

    pub(crate) fn add(&mut self, row: &Row) {
        if self.json {
            let present = row.figures().into_iter().filter_map(|(name, value)| Some((name, value?)));
            let fields: String = present.map(|(name, value)| format!(",\"{name}\":{value:.3}")).collect();
            println!("{{\"suite\":\"bucket\",\"case\":\"{}\"{fields}}}", row.case);
            return;
        }
        if self.lines == 0 {
            println!("{:<62} {:>8} {:>8} {:>8} {:>9} {:>7}  aim", "case", "ratio", "p99", "amplif.", "MB/s", "RSS+MB");
        }
        let cells: String = row
            .figures()
            .iter()
            .zip([8, 8, 8, 9, 7])
            .map(|((_, value), width)| match value {
                Some(value) if *value >= 100.0 => format!(" {value:>width$.0}"),
                Some(value) => format!(" {value:>width$.2}"),
                None => format!(" {:>width$}", ""),
            })
            .collect();
        let judged: Vec<_> =
            row.judged().map(|(aim, met)| format!("{aim}: {}", if met { "met" } else { "MISSED" })).collect();
        let judged = if judged.is_empty() { "reported".to_owned() } else { judged.join(", ") };
        println!("{:<62}{cells}  {judged}", row.case);
        self.lines += 1;
        self.missed.extend(row.judged().filter(|(_, met)| !met).map(|(aim, _)| format!("{}: {aim}", row.case)));
    }

    /// What was not met, at the end of a table.
    pub(crate) fn close(self) {
        if self.json {
            return;
        }
        match &self.missed[..] {
            [] => println!("all aims of these cases are met"),
            missed => println!("missed: {}", missed.join("; ")),
        }
    }
}
