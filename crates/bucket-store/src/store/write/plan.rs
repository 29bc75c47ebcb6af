//! Owns which objects of a batch share a bucket. Pure: sizes and hints in, positions out.

use std::collections::BTreeMap;

use super::WriteObject;
use crate::format::record::RecordHeader;
use crate::format::table::{Slot, Table};

/// One bucket to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    /// The objects' positions in the batch, in the order of their records.
    pub(super) objects: Vec<usize>,
    /// Bytes of the data file.
    pub(super) data_len: u64,
    /// Bytes of the table.
    pub(super) table_len: u64,
}

impl Planned {
    const NEW: Self = Self { objects: Vec::new(), data_len: 0, table_len: Table::EMPTY_BYTES };
}

/// Groups the objects at these positions by their hints, and cuts each group where a limit is reached. Every object fits into a bucket
/// alone: that has been checked.
pub(super) fn plan(
    objects: &[WriteObject<'_>],
    positions: impl Iterator<Item = usize>,
    most_bytes: u64,
    most_keys: usize,
) -> Vec<Planned> {
    let mut groups: BTreeMap<Option<u64>, Vec<Planned>> = BTreeMap::new();
    for at in positions {
        let object = &objects[at];
        let record_len = RecordHeader::record_len(object.key.len(), object.value.len() as u32);
        let group = groups.entry(object.placement).or_default();
        let full = |last: &Planned| last.objects.len() == most_keys || last.data_len + record_len > most_bytes;
        if group.last().is_none_or(full) {
            group.push(Planned::NEW);
        }
        if let Some(last) = group.last_mut() {
            last.objects.push(at);
            last.data_len += record_len;
            last.table_len += Slot::encoded_len(object.key.len());
        }
    }
    groups.into_values().flatten().collect()
}

#[cfg(test)]
mod tests {
    use ha_types::ObjectIncarnation;

    use super::{Planned, WriteObject, plan};

    fn positions(sizes: &[(usize, Option<u64>)], most_bytes: u64, most_keys: usize) -> Vec<Vec<usize>> {
        let bytes = [7; 1000];
        let object = |(len, placement): &(usize, Option<u64>)| WriteObject {
            key: b"t\0k",
            incarnation: ObjectIncarnation::LEGACY,
            value: &bytes[..*len],
            placement: *placement,
        };
        let objects: Vec<_> = sizes.iter().map(object).collect();
        let planned = plan(&objects, 0..objects.len(), most_bytes, most_keys);
        for Planned { objects, data_len, .. } in &planned {
            assert_eq!(*data_len, objects.iter().map(|at| 47 + sizes[*at].0 as u64).sum::<u64>());
        }
        planned.into_iter().map(|planned| planned.objects).collect()
    }

    #[test]
    fn both_limits_are_exact() {
        let alike = [(53, None); 5];
        assert_eq!(positions(&alike, 300, 9), [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(positions(&alike, 299, 9), [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(positions(&alike, 9000, 3), [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(positions(&[], 1, 1), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn objects_of_one_hint_share_buckets_and_no_others() {
        let mixed = [(1, Some(2)), (1, None), (1, Some(1)), (1, Some(2)), (1, None)];
        assert_eq!(positions(&mixed, 9000, 9), [vec![1, 4], vec![2], vec![0, 3]]);
    }
}
