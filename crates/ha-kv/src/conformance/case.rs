//! Owns the list of cases and what a case gets to work with.

use std::pin::Pin;

use bytes::Bytes;

use super::{Client, Factory, concurrent, lease, limits, plain, range, txn, watch};
use crate::{Capabilities, KvError, LeaseKv, TxnKv, WatchKv, prefix_end};

/// Why a case did not pass.
#[derive(Debug)]
pub(super) enum Violation {
    /// A promise is broken.
    Broken(String),
    /// The case does not fit this store.
    Skipped(String),
}

impl From<KvError> for Violation {
    fn from(error: KvError) -> Self {
        Self::Broken(format!("unexpected error {:?}: {error}", error.kind))
    }
}

pub(super) type Verdict = Result<(), Violation>;

/// Ends the case with what is broken unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::conformance::case::Violation::Broken(format!($($message)+)));
        }
    };
}
pub(super) use ensure;

/// What a case needs beyond `Kv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Kv,
    Txn,
    Lease,
    Watch,
}

type Run = for<'a> fn(&'a Cx<'a>) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// One case.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) needs: Needs,
    pub(super) run: Run,
}

/// How many clients a case has.
pub(super) const CLIENTS: usize = 3;

/// A case's clients and its part of the key space.
pub(super) struct Cx<'f> {
    pub(super) factory: &'f dyn Factory,
    pub(super) clients: Vec<Client>,
    root: Vec<u8>,
}

impl<'f> Cx<'f> {
    /// Clients, and a cleared part of the key space.
    pub(super) async fn prepare(factory: &'f dyn Factory, name: &str) -> Result<Self, Violation> {
        let mut root = factory.root().to_vec();
        root.extend_from_slice(name.as_bytes());
        root.push(b'/');
        let cx = Self { factory, clients: factory.clients(CLIENTS).await, root };
        ensure!(cx.clients.len() == CLIENTS, "the factory gave {} clients, not {CLIENTS}", cx.clients.len());
        let (start, end) = cx.all();
        cx.client(0)?.kv.delete_range(&start, &end).await?;
        Ok(cx)
    }

    /// A key of this case.
    pub(super) fn key(&self, rest: impl AsRef<[u8]>) -> Bytes {
        [&self.root, rest.as_ref()].concat().into()
    }

    /// All keys of this case, as a range.
    pub(super) fn all(&self) -> (Bytes, Bytes) {
        let end = prefix_end(&self.root).unwrap_or_else(|| Bytes::from_static(&[0xff]));
        (Bytes::copy_from_slice(&self.root), end)
    }

    pub(super) fn client(&self, number: usize) -> Result<&Client, Violation> {
        self.clients.get(number).ok_or_else(|| Violation::Broken("the factory gave too few clients".into()))
    }

    pub(super) fn txn(&self, number: usize) -> Result<&dyn TxnKv, Violation> {
        self.client(number)?.txn.as_deref().ok_or_else(|| Violation::Skipped("the store has no transactions".into()))
    }

    pub(super) fn lease(&self, number: usize) -> Result<&dyn LeaseKv, Violation> {
        self.client(number)?.lease.as_deref().ok_or_else(|| Violation::Skipped("the store has no leases".into()))
    }

    pub(super) fn watch(&self, number: usize) -> Result<&dyn WatchKv, Violation> {
        self.client(number)?.watch.as_deref().ok_or_else(|| Violation::Skipped("the store has no watches".into()))
    }

    pub(super) fn capabilities(&self) -> Result<Capabilities, Violation> {
        Ok(self.client(0)?.kv.capabilities())
    }
}

macro_rules! cases {
    ($($needs:ident $module:ident::$case:ident,)+) => {
        &[$(Case {
            name: stringify!($case),
            needs: Needs::$needs,
            run: |cx| Box::pin($module::$case(cx)),
        }),+]
    };
}

/// All cases, in the order they run.
pub(super) const CASES: &[Case] = cases![
    Kv plain::capabilities_agree_with_the_interfaces,
    Kv plain::absent_key_reads_as_none,
    Kv plain::put_is_read_back_and_overwritten,
    Kv plain::empty_value_is_not_absence,
    Kv plain::keys_and_values_are_any_bytes,
    Kv plain::delete_removes_one_key_or_none,
    Kv plain::empty_key_is_refused,
    Kv plain::reads_see_every_answered_write,
    Kv range::range_is_ordered_and_half_open,
    Kv range::range_without_keys_is_empty,
    Kv range::pages_by_pairs_cover_everything_once,
    Kv range::pages_by_bytes_cover_everything_once,
    Kv range::replies_above_the_limit_are_paged,
    Kv range::delete_range_removes_that_range_only,
    Kv limits::value_at_the_limit_is_taken_and_above_refused,
    Txn limits::operations_at_the_limit_are_taken_and_above_refused,
    Txn limits::transaction_at_the_limit_is_taken_and_above_refused,
    Txn limits::key_written_twice_is_refused,
    Txn txn::commit_applies_everything,
    Txn txn::failed_compare_changes_nothing,
    Txn txn::compare_is_exact,
    Txn txn::transaction_without_writes_is_answered,
    Txn txn::repeated_transaction_fails_its_compare,
    Txn txn::dropped_future_applies_wholly_or_not,
    Txn concurrent::one_creator_wins,
    Txn concurrent::no_update_is_lost,
    Txn concurrent::a_range_sees_no_half_transaction,
    Lease lease::grant_is_at_least_as_long_as_asked,
    Lease lease::unknown_lease_is_not_found,
    Lease lease::key_belongs_to_one_lease,
    Lease lease::key_without_lease_is_never_taken,
    Lease lease::kept_alive_lease_keeps_its_key,
    Lease lease::dead_lease_is_taken_over_and_stays_dead,
    Lease lease::revoke_frees_the_key_at_once,
    Lease lease::plain_put_drops_the_lease,
    Watch watch::change_is_hinted,
    Watch watch::two_watches_are_independent,
];
