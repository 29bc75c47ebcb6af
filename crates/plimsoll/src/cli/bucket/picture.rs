//! Owns the picture of one bucket: a strip from its first byte to its last, each cell showing what lies there.

use bucket_store::inspect::{BucketContents, RecordState};

/// What the cells mean.
pub(super) const LEGEND: &str =
    "█ live  ▓ more live than dead  ▒ more dead than live  ░ dead  × not served  · no record";

/// The strip of a bucket, `width` cells wide; empty for an empty bucket.
pub(super) fn strip(bucket: &BucketContents, width: usize) -> String {
    if bucket.data_len == 0 {
        return String::new();
    }
    let mut cells = vec![Cell::default(); width];
    for record in &bucket.records {
        for (cell, bytes) in pieces(record.offset, record.record_len, bucket.data_len, width) {
            match record.state {
                RecordState::Live => cells[cell].live += bytes,
                RecordState::Superseded | RecordState::Tombstoned => cells[cell].dead += bytes,
                RecordState::Unserved => cells[cell].unserved += bytes,
            }
        }
    }
    cells.iter().map(Cell::glyph).collect()
}

/// The cells that a range of the file touches, with its share of each in units that compare.
fn pieces(offset: u64, len: u64, file_len: u64, width: usize) -> impl Iterator<Item = (usize, u128)> {
    let (width, whole) = (width as u128, u128::from(file_len));
    // Positions times the width: a cell is then as long as the file, and nothing is rounded away.
    let (from, to) = (u128::from(offset) * width, u128::from(offset.saturating_add(len).min(file_len)) * width);
    let last = if to > from { (to - 1) / whole } else { from / whole };
    (from / whole..=last.min(width - 1)).map(move |cell| {
        let (begin, end) = (cell * whole, (cell + 1) * whole);
        (cell as usize, to.min(end).saturating_sub(from.max(begin)))
    })
}

#[derive(Clone, Copy, Default)]
struct Cell {
    live: u128,
    dead: u128,
    unserved: u128,
}

impl Cell {
    fn glyph(&self) -> char {
        match *self {
            Self { live: 0, dead: 0, unserved: 0 } => '·',
            Self { unserved, live, dead } if unserved > live + dead => '×',
            Self { dead: 0, .. } => '█',
            Self { live: 0, .. } => '░',
            Self { live, dead, .. } if live >= dead => '▓',
            _ => '▒',
        }
    }
}

#[cfg(test)]
mod tests {
    use bucket_store::format::names::BucketId;
    use bucket_store::inspect::{RecordLook, Standing};
    use ha_types::ObjectIncarnation;

    use super::*;

    fn bucket(data_len: u64, records: &[(u64, u64, RecordState)]) -> BucketContents {
        let id = BucketId(1);
        let record = |(offset, record_len, state): &(u64, u64, RecordState)| RecordLook {
            key: (*b"t\0k").into(),
            incarnation: ObjectIncarnation::LEGACY,
            write_number: 1,
            bucket: id,
            offset: *offset,
            record_len: *record_len,
            value_len: 1,
            state: *state,
        };
        let records = records.iter().map(record).collect();
        let (standing, allocated_bytes) = (Standing::Served, data_len);
        BucketContents { id, standing, layout: None, age: None, data_len, allocated_bytes, records }
    }

    #[test]
    fn each_cell_shows_what_lies_there() {
        use RecordState::{Live, Superseded, Tombstoned, Unserved};
        let shown = |records: &[(u64, u64, RecordState)], width| strip(&bucket(80, records), width);
        assert_eq!(shown(&[(0, 40, Live), (40, 40, Tombstoned)], 8), "████░░░░");
        assert_eq!(shown(&[(0, 45, Live), (45, 35, Superseded)], 8), "████▓░░░");
        assert_eq!(shown(&[(0, 44, Live), (44, 36, Superseded)], 8), "████▒░░░");
        assert_eq!(shown(&[(0, 10, Unserved), (70, 10, Live)], 8), "×······█");
        assert_eq!(shown(&[(0, 80, Live)], 3), "███");
        assert_eq!(shown(&[(79, 1, Live)], 80).chars().last(), Some('█'));
        assert_eq!(shown(&[], 4), "····");
        assert_eq!(strip(&bucket(0, &[]), 4), "");
        // More cells than bytes, and numbers near the end of the range.
        assert_eq!(strip(&bucket(2, &[(0, 1, Live), (1, 1, Tombstoned)]), 6), "███░░░");
        assert_eq!(strip(&bucket(u64::MAX, &[(u64::MAX / 2 + 1, u64::MAX, Live)]), 4), "··██");
    }
}
