//! Owns the tenants of a batch that is being filled: each once, in order of first use. Reused from batch to batch.

use ha_types::TenantId;

use super::entry_error::EntryError;
use super::varint;

/// Finds a tenant's index by the last one used, then by binary search: no hashing, no allocation at rest.
#[derive(Debug, Default)]
pub(super) struct TenantTable {
    wire: Vec<u8>,
    spans: Vec<(usize, usize)>,
    by_name: Vec<u32>,
    last: Option<Last>,
}

/// The tenant of the entry before, which mostly is the next one's, too.
#[derive(Clone, Copy, Debug)]
struct Last {
    index: u32,
    start: usize,
    end: usize,
}

impl TenantTable {
    pub(super) fn clear(&mut self) {
        self.wire.clear();
        self.spans.clear();
        self.by_name.clear();
        self.last = None;
    }

    /// The tenants as the record has them, without their number.
    pub(super) fn wire(&self) -> &[u8] {
        &self.wire
    }

    pub(super) fn count(&self) -> usize {
        self.spans.len()
    }

    fn name(&self, index: u32) -> &[u8] {
        let span = usize::try_from(index).ok().and_then(|i| self.spans.get(i));
        span.and_then(|(start, end)| self.wire.get(*start..*end)).unwrap_or_default()
    }

    /// The tenant's index, and by how many bytes [`Self::wire`] grew for it.
    #[inline]
    pub(super) fn index(&mut self, tenant: &str) -> Result<(u32, usize), EntryError> {
        match self.last {
            Some(last) if self.wire.get(last.start..last.end).is_some_and(|name| same(name, tenant.as_bytes())) => {
                Ok((last.index, 0))
            }
            _ => self.find_or_add(tenant),
        }
    }

    #[inline(never)]
    fn find_or_add(&mut self, tenant: &str) -> Result<(u32, usize), EntryError> {
        let place = match self.place(tenant) {
            Ok(place) => place,
            Err(place) => return self.add(place, tenant),
        };
        let index = self.by_name.get(place).copied().unwrap_or_default();
        let span = usize::try_from(index).ok().and_then(|i| self.spans.get(i));
        self.last = span.map(|(start, end)| Last { index, start: *start, end: *end });
        Ok((index, 0))
    }

    fn place(&self, tenant: &str) -> Result<usize, usize> {
        self.by_name.binary_search_by(|index| self.name(*index).cmp(tenant.as_bytes()))
    }

    /// How many bytes `tenant` takes on the wire.
    pub(super) fn wire_len(tenant: &str) -> usize {
        varint::len(tenant.len() as u64) + tenant.len()
    }

    fn add(&mut self, place: usize, tenant: &str) -> Result<(u32, usize), EntryError> {
        TenantId::check(tenant)?;
        let index = u32::try_from(self.spans.len()).map_err(|_| EntryError::BatchFull)?;
        let before = self.wire.len();
        varint::push(&mut self.wire, tenant.len() as u64);
        let start = self.wire.len();
        self.wire.extend_from_slice(tenant.as_bytes());
        let end = self.wire.len();
        self.spans.push((start, end));
        self.by_name.insert(place, index);
        self.last = Some(Last { index, start, end });
        Ok((index, end - before))
    }
}

/// Equality without a call for the usual lengths: this is asked once an entry.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    match a.len() {
        len if len != b.len() => false,
        4..=8 => a.first_chunk::<4>() == b.first_chunk() && a.last_chunk::<4>() == b.last_chunk(),
        9..=16 => a.first_chunk::<8>() == b.first_chunk() && a.last_chunk::<8>() == b.last_chunk(),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn every_changed_byte_of_every_length_makes_a_difference() {
        for len in 0..40_usize {
            let name: Vec<u8> = (0..len as u8).collect();
            assert!(same(&name, &name.clone()));
            assert!(!same(&name, &[&name[..], b"x"].concat()));
            for at in 0..len {
                let mut other = name.clone();
                other[at] ^= 1;
                assert!(!same(&name, &other), "byte {at} of {len}");
            }
        }
    }
}
