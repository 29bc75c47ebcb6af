//! Owns what the loop, the gRPC services and the admin pages share: the role, the serving master, the calls in flight.

use ha_rpc::v1::{ErrorCode, ErrorDetail};
use ha_types::ClusterId;
use parking_lot::RwLock;
use standby::Observer;
use tokio::sync::watch;

use super::figures::{Figures, TermFigures};
use super::in_flight::{Entered, InFlight};
use super::leader_lookup::LeaderLookup;
use super::role::{Role, RoleState};
use super::term::Term;
use crate::node_name::NodeName;

/// Who this node is.
#[derive(Clone, Debug)]
pub(crate) struct NodeInfo {
    /// Its name.
    pub(crate) node: NodeName,
    /// Its cluster.
    pub(crate) cluster: ClusterId,
    /// Where clients reach it.
    pub(crate) address: String,
}

/// What all parts of a node share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Who this node is.
    pub(crate) info: NodeInfo,
    /// Calls being answered by a master.
    pub(crate) in_flight: InFlight,
    leader: LeaderLookup,
    role: watch::Sender<RoleState>,
    standby: RwLock<Option<Observer>>,
    term: RwLock<Option<Term>>,
}

/// The right to ask the master, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Call {
    /// The term that answers.
    pub(crate) term: Term,
    _entered: Entered,
}

impl Shared {
    /// A node that starts.
    pub(crate) fn new(info: NodeInfo, leader: LeaderLookup) -> Self {
        let role = watch::Sender::new(RoleState { role: Role::Starting, reason: None });
        Self { info, in_flight: InFlight::default(), leader, role, standby: RwLock::default(), term: RwLock::default() }
    }

    /// What the node is.
    pub(crate) fn role(&self) -> RoleState {
        let mut state = self.role.borrow().clone();
        if state.role == Role::Standby {
            // Above whatever was said last: it says why nobody leads, or that somebody writes what does not count.
            let note = self.standby.read().as_ref().and_then(|standby| standby.metrics().legacy.note());
            state.reason = note.or(state.reason);
        }
        state
    }

    /// Says what the node is from now on.
    pub(crate) fn set_role(&self, role: Role, reason: Option<String>) {
        let state = RoleState { role, reason };
        let changed = self.role.send_if_modified(|old| {
            let changed = *old != state;
            old.clone_from(&state);
            changed
        });
        if changed {
            let reason = state.reason.as_deref().unwrap_or_default();
            tracing::info!(role = role.name(), reason, "role");
        }
    }

    /// Shows `standby` from now on; after its promotion, as it was then.
    pub(crate) fn set_standby(&self, standby: Observer) {
        *self.standby.write() = Some(standby);
    }

    /// The figures of this moment.
    pub(crate) fn figures(&self) -> Figures {
        let term = self.term().map(|term| TermFigures {
            epoch: term.epoch.get(),
            master: term.master.stats(),
            writer: term.master.writer().metrics(),
            status: term.master.writer().status().borrow().clone(),
        });
        Figures {
            role: self.role(),
            election: self.leader.elector().metrics(),
            standby: self.standby.read().as_ref().map(Observer::metrics),
            term,
            in_flight: self.in_flight.now(),
        }
    }

    /// Lets `term` answer, or nobody.
    pub(crate) fn set_term(&self, term: Option<Term>) {
        *self.term.write() = term;
    }

    /// The term that answers, uncounted: for figures.
    pub(crate) fn term(&self) -> Option<Term> {
        self.term.read().clone()
    }

    /// Enters a call.
    ///
    /// # Errors
    /// NOT_LEADER with the leader's address.
    pub(crate) async fn enter(&self) -> Result<Call, ErrorDetail> {
        let call = {
            let term = self.term.read();
            // Counted under the lock: whoever takes the term away sees every call that has it.
            term.clone().map(|term| Call { term, _entered: self.in_flight.enter() })
        };
        match call {
            Some(call) => Ok(call),
            None => Err(self.not_leader("this node does not lead").await),
        }
    }

    /// NOT_LEADER with the leader's address, if another node is the leader.
    pub(crate) async fn not_leader(&self, why: &str) -> ErrorDetail {
        let mut detail = ErrorDetail::new(ErrorCode::NotLeader, "");
        detail.message = match self.leader_address().await {
            Some(address) if address != self.info.address => {
                detail.leader_address.clone_from(&address);
                format!("{why}; ask the leader at {address}")
            }
            _ => format!("{why}, and no other leader is known yet; ask again"),
        };
        detail
    }

    /// Where the leader answers, as the store says.
    pub(crate) async fn leader_address(&self) -> Option<String> {
        self.leader.address().await
    }
}
