//! Owns how a call ends when it does not succeed, by what its caller may conclude.

use ha_rpc::v1::{ErrorCode, ErrorDetail};

/// Why a call did not succeed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum CallError {
    /// The server refused it; nothing was done.
    #[error("{}", .0.message)]
    Refused(ErrorDetail),
    /// No leader was reached in time; nothing was done.
    #[error("nothing was done: {0}")]
    NotDone(String),
    /// It may or may not have taken effect, or take effect yet.
    #[error("outcome unknown: {0}; read to see whether it took effect")]
    Unknown(String),
}

impl CallError {
    /// The server's code, if the server answered with one.
    pub(crate) fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(detail) => Some(detail.code()),
            Self::Unknown(_) => Some(ErrorCode::Unknown),
            Self::NotDone(_) => None,
        }
    }
}
