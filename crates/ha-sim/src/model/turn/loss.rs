//! Owns a store that does not keep its word: it loses its last transaction, or the prefix.

use super::Turn;
use crate::model::situation::Situation;
use crate::model::store::{keys, prefix_key};

impl Turn<'_> {
    /// The last transaction, which wrote a batch, is undone, as a restore from a copy does. Losing a claim is no case: what was
    /// said because of it cannot hold without it.
    pub(in crate::model) fn lose_last(&mut self) {
        let (Some(before), Some(now)) = (self.world.truth.undo.take(), self.world.store.prefix()) else { return };
        self.note(Situation::StoreLostWrites);
        self.world.store.delete(&keys().batch(now.batch_id));
        self.world.store.put(prefix_key().clone(), before.encode().into());
        self.world.truth.log.truncate(before.last_seq.get() as usize);
        self.lost();
    }

    pub(in crate::model) fn lose_prefix(&mut self) {
        self.note(Situation::StoreLostPrefix);
        self.world.store.delete(prefix_key());
        self.world.truth.undo = None;
        self.lost();
    }

    fn lost(&mut self) {
        self.world.truth.lost = true;
        self.world.spent.losses += 1;
    }
}
