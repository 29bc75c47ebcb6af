//! Owns how a node starts and dies.

use super::Turn;
use crate::model::fold::Fold;
use crate::model::rules::Rule;
use crate::model::situation::Situation;
use crate::model::world::{Next, Role};

impl Turn<'_> {
    /// Reads the prefix; without one it is the node's to create, if nothing else is there.
    pub(super) fn start_up(&mut self, at: usize) {
        if let Role::CuttingOver { unsure: true, .. } = self.world.nodes[at].role
            && self.world.store.prefix().is_some()
        {
            self.note(Situation::CutoverFoundByReading);
        }
        if self.world.store.prefix().is_some() {
            return self.become_role(at, Role::Following);
        }
        let other_state = self.world.store.batches().next().is_some() || !self.world.catalogue.is_empty();
        if other_state && self.keep(Rule::MissingIsNotFresh) {
            self.note(Situation::MissingPrefixRefused);
            return self.become_role(at, Role::Out);
        }
        if self.old_primary_elected() && self.keep(Rule::CutoverLooksForOldPrimary) {
            self.note(Situation::ElectedRefuses);
            return self.become_role(at, Role::Starting);
        }
        let latest = self.world.store.latest().map(|seq| seq.get());
        self.become_role(at, Role::CuttingOver { latest, unsure: false });
    }

    pub(super) fn crash(&mut self, at: usize) {
        let node = &mut self.world.nodes[at];
        let under_way = match &node.role {
            Role::Writing(writing) => writing.sent || writing.next != Next::Append,
            Role::Unsure { .. } | Role::Claimed { .. } => true,
            _ => false,
        };
        (node.fold, node.role) = (Fold::default(), Role::Starting);
        self.world.spent.crashes += 1;
        if under_way {
            self.note(Situation::Crashed);
        }
    }
}
