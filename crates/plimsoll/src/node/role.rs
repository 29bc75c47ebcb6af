//! Owns what a node says it is.

use ha_rpc::v1;

/// What a node does at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It starts, or pauses between two roles.
    Starting,
    /// It follows the log.
    Standby,
    /// It claims the log and catches up.
    Promoting,
    /// It serves.
    Leader,
    /// It lets the last calls end and gives up leadership.
    Draining,
    /// It follows no more; an operator is needed.
    Unhealthy,
}

/// A role and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoleState {
    /// The role.
    pub(crate) role: Role,
    /// Why, in one sentence, where the role needs a reason.
    pub(crate) reason: Option<String>,
}

impl Role {
    /// All of them.
    pub(crate) const ALL: [Self; 6] =
        [Self::Starting, Self::Standby, Self::Promoting, Self::Leader, Self::Draining, Self::Unhealthy];

    /// The word for people, metrics and JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Standby => "standby",
            Self::Promoting => "promoting",
            Self::Leader => "leader",
            Self::Draining => "draining",
            Self::Unhealthy => "unhealthy",
        }
    }

    /// The number on the wire.
    pub(crate) const fn wire(self) -> v1::Role {
        match self {
            Self::Starting => v1::Role::Starting,
            Self::Standby => v1::Role::Standby,
            Self::Promoting => v1::Role::Promoting,
            Self::Leader => v1::Role::Leader,
            Self::Draining => v1::Role::Draining,
            Self::Unhealthy => v1::Role::Unhealthy,
        }
    }
}
