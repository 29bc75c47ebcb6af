//! Owns the small numbers that stand for tenants inside records. Two tenants never share one (M6).

use ha_types::TenantId;
use hashbrown::HashMap;

/// The number of a tenant within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TenantIx(u32);

impl TenantIx {
    pub(crate) const fn get(self) -> u32 {
        self.0
    }
}

/// All tenants ever seen. Numbers are never used again.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    names: Vec<TenantId>,
    by_name: HashMap<TenantId, TenantIx>,
    /// The one asked for last: replay asks for one tenant many times in a row.
    last: Option<TenantIx>,
}

impl Tenants {
    pub(crate) fn get(&self, name: &str) -> Option<TenantIx> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn name(&self, ix: TenantIx) -> &TenantId {
        &self.names[ix.0 as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// As [`Self::get`], remembering the answer for the next call.
    pub(crate) fn get_in_replay(&mut self, name: &str) -> Option<TenantIx> {
        if let Some(last) = self.last
            && self.name(last).as_str() == name
        {
            return Some(last);
        }
        self.last = self.get(name);
        self.last
    }

    /// The number of `name`, a new one if it has none. `None` at the end of the numbers.
    pub(crate) fn intern(&mut self, name: &TenantId) -> Option<TenantIx> {
        if let Some(ix) = self.get(name.as_str()) {
            return Some(ix);
        }
        let ix = TenantIx(u32::try_from(self.names.len()).ok()?);
        self.names.push(name.clone());
        self.by_name.insert(name.clone(), ix);
        Some(ix)
    }
}
