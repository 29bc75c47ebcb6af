//! Owns the walk over all live objects, in pages. It reads no record.

use std::sync::Arc;

use super::Store;
use super::read::ObjectInfo;
use super::state::{Location, SlotState, State};
use crate::error::{Problem, StoreError};
use crate::format::names::BucketId;

/// Where a list goes on: behind the last object of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListCursor(Location);

/// Some live objects, in the order of their places on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// The objects.
    pub objects: Vec<ObjectInfo>,
    /// For the next page; `None` after the last.
    pub next: Option<ListCursor>,
}

impl Store {
    /// Gives at most `most` live objects behind `after`, from the begin if that is `None`.
    ///
    /// Walking through all pages misses no object that lives throughout. It may meet one twice that GC moved meanwhile, and meets one
    /// that is written or deleted meanwhile or does not. A page looks at no more than a bounded number of records, so it may be short or
    /// empty and still have a next one.
    ///
    /// # Errors
    /// `ARGUMENT` if `most` is 0 or more than `max_list_page`.
    pub fn list(&self, after: Option<ListCursor>, most: usize) -> Result<ListPage, StoreError> {
        if most == 0 || most > self.config.max_list_page {
            let expected = format!("give 1 to max_list_page, which is {}", self.config.max_list_page);
            return Err(Problem::Argument { argument: "most", expected, found: most.to_string() }.into());
        }
        let first = after.map_or(Location { bucket: BucketId(0), slot: 0 }, |ListCursor(last)| last);
        Ok(page(&self.state.read(), first, most, most.max(LOOKED_AT)))
    }
}

/// A page looks at this many records, or at as many as it may hold if that is more.
const LOOKED_AT: usize = 10_000;

/// Targets of GC have higher ids than everything before them, so what moves while someone walks is met behind the cursor, not missed.
fn page(state: &State, first: Location, most: usize, look_at: usize) -> ListPage {
    let mut page = ListPage::default();
    let places = state.buckets_from(first.bucket).flat_map(|bucket| {
        let slots =
            (0u32..).zip(bucket.slots()).map(move |(slot, entry)| (Location { bucket: bucket.id(), slot }, entry));
        slots.filter(move |(at, _)| *at >= first)
    });
    for (looked, (at, entry)) in places.enumerate() {
        if page.objects.len() == most || looked == look_at {
            page.next = Some(ListCursor(at));
            break;
        }
        if entry.state() == SlotState::Live {
            let (key, incarnation, value_len) = (Arc::clone(&entry.key), entry.incarnation, entry.value_len);
            page.objects.push(ObjectInfo { key, incarnation, value_len, bucket: at.bucket });
        }
    }
    page
}
