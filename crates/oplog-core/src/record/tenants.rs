//! Owns the tenants of a record that is being read: one without an allocation, many with one.

use ha_types::TenantId;

use super::error::{RecordError, RecordErrorKind};
use super::layout::{MAX_BATCH_ENTRIES, MIN_TENANT_BYTES};
use super::reader::Reader;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tenants<'a> {
    One(&'a str),
    Many(Vec<&'a str>),
}

impl<'a> Tenants<'a> {
    #[inline]
    pub(super) fn get(&self, index: u64) -> Option<&'a str> {
        match self {
            Self::One(name) => (index == 0).then_some(*name),
            Self::Many(names) => names.get(usize::try_from(index).ok()?).copied(),
        }
    }

    pub(super) fn as_slice(&self) -> &[&'a str] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        let offset = reader.offset();
        let count = reader.number("tenant count", u64::MAX)?;
        let most = (reader.left() / MIN_TENANT_BYTES).min(MAX_BATCH_ENTRIES);
        let count = usize::try_from(count).ok().filter(|n| (1..=most).contains(n)).ok_or_else(|| {
            let expected = format_args!("1 to {most} tenants, as many as the bytes left can hold");
            RecordError::new(RecordErrorKind::Malformed, "tenant count", offset, expected, count)
        })?;
        if count == 1 {
            return Ok(Self::One(read_one(reader)?));
        }
        let mut names = Vec::with_capacity(count);
        let first = reader.offset();
        for _ in 0..count {
            names.push(read_one(reader)?);
        }
        let mut sorted = names.clone();
        sorted.sort_unstable();
        if let Some([twice, _]) = sorted.array_windows().find(|[a, b]| a == b) {
            let found = format_args!("{twice:?} twice");
            return Err(RecordError::new(RecordErrorKind::Constraint, "tenants", first, "each tenant once", found));
        }
        Ok(Self::Many(names))
    }
}

fn read_one<'a>(reader: &mut Reader<'a>) -> Result<&'a str, RecordError> {
    let offset = reader.offset();
    let len = reader.number("tenant length", u64::MAX)?;
    let fault = |found: &dyn std::fmt::Display| {
        let expected = "a tenant id of 1 to 128 bytes of UTF-8 without control characters or leading '_'";
        RecordError::new(RecordErrorKind::Constraint, "tenant", offset, expected, found)
    };
    if !(1..=TenantId::MAX_BYTES as u64).contains(&len) {
        return Err(fault(&format_args!("{len} bytes")));
    }
    let bytes = reader.field("tenant", len)?;
    let name = std::str::from_utf8(bytes).map_err(|e| fault(&e))?;
    TenantId::check(name).map_err(|e| fault(&e))?;
    Ok(name)
}
