//! Owns what happens if code after a commit panics: serving ends, because log and state may differ from there on.

use crate::gate::Gate;

/// Armed from a commit until the state has followed it.
pub(crate) struct AfterCommit<'a> {
    gate: &'a Gate,
    armed: bool,
}

impl<'a> AfterCommit<'a> {
    pub(crate) fn arm(gate: &'a Gate) -> Self {
        Self { gate, armed: true }
    }

    /// The state has followed.
    pub(crate) fn followed(mut self) {
        self.armed = false;
    }
}

impl Drop for AfterCommit<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.gate.close("the state did not follow a committed entry; the node must start again from the log");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_between_commit_and_state_ends_serving() {
        let gate = Gate::open();
        AfterCommit::arm(&gate).followed();
        assert!(gate.check().is_ok());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _after = AfterCommit::arm(&gate);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(gate.check().unwrap_err().code(), "NOT_LEADER");
    }
}
