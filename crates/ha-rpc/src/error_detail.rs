//! Owns how a typed error travels: an encoded `ErrorDetail` in the status details. It decides nothing.

use bytes::Bytes;
use prost::Message;
use tonic::{Code, Status};

use crate::limits::MAX_ERROR_MESSAGE_BYTES;
use crate::v1::{ErrorCode, ErrorDetail};

impl ErrorDetail {
    /// An error with its sentence.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), leader_address: String::new(), retry_after_ms: 0 }
    }

    /// The same error with a message of at most `max` bytes. It is cut in its middle, at characters: its beginning names the
    /// thing, its end the remedy.
    #[must_use]
    pub fn shortened(mut self, max: usize) -> Self {
        const CUT: &str = "...";
        if self.message.len() > max {
            let kept = max.saturating_sub(CUT.len());
            let end = self.message.floor_char_boundary(kept / 2);
            let start = self.message.ceil_char_boundary(self.message.len() - (kept - kept / 2));
            self.message.replace_range(end..start, CUT);
        }
        self
    }

    /// The detail of a failed call, or `None` if the call failed without one: before it reached a Plimsoll server, or in the
    /// connection.
    #[must_use]
    pub fn of(status: &Status) -> Option<Self> {
        // The status is from the network: what does not decode is no detail.
        let detail = Self::decode(status.details()).ok()?;
        (detail.code() != ErrorCode::Unspecified).then_some(detail)
    }
}

impl From<ErrorDetail> for Status {
    /// A message longer than [`MAX_ERROR_MESSAGE_BYTES`] is cut: it travels in headers, twice, and a call whose headers are too
    /// large fails without any detail.
    fn from(detail: ErrorDetail) -> Self {
        let detail = detail.shortened(MAX_ERROR_MESSAGE_BYTES);
        let details = Bytes::from(detail.encode_to_vec());
        Status::with_details(grpc_code(detail.code()), detail.message, details)
    }
}

/// What a client that knows nothing of `ErrorDetail` sees.
fn grpc_code(code: ErrorCode) -> Code {
    match code {
        ErrorCode::NotLeader | ErrorCode::RetryAfter | ErrorCode::ReplicaIsNotReady => Code::Unavailable,
        ErrorCode::NotApplied => Code::Aborted,
        ErrorCode::Unknown | ErrorCode::Unspecified => Code::Unknown,
        ErrorCode::Invalid => Code::InvalidArgument,
        ErrorCode::ObjectNotFound | ErrorCode::SegmentNotFound => Code::NotFound,
        ErrorCode::ObjectAlreadyExists | ErrorCode::SegmentAlreadyMounted => Code::AlreadyExists,
        ErrorCode::SegmentOverlaps | ErrorCode::SegmentBusy | ErrorCode::GrantExpired => Code::FailedPrecondition,
        ErrorCode::WrongOwner => Code::PermissionDenied,
        ErrorCode::NoAvailableSpace => Code::ResourceExhausted,
        ErrorCode::Unauthenticated => Code::Unauthenticated,
        ErrorCode::Internal => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_survives_the_status() {
        let mut detail = ErrorDetail::new(ErrorCode::NotLeader, "node b leads; ask it");
        detail.leader_address = "http://127.0.0.1:7401".into();
        detail.retry_after_ms = 7;
        let status = Status::from(detail.clone());
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(ErrorDetail::of(&status), Some(detail));
    }

    #[test]
    fn a_long_message_is_cut_between_thing_and_remedy_and_keeps_its_code() {
        let key = "ы".repeat(5000);
        let detail = ErrorDetail::new(ErrorCode::ObjectNotFound, format!("object {key} is away; put it"));
        let seen = ErrorDetail::of(&Status::from(detail.clone())).unwrap();
        assert_eq!(seen.code(), ErrorCode::ObjectNotFound);
        assert!(seen.message.len() <= MAX_ERROR_MESSAGE_BYTES && seen.message.contains("ы...ы"), "{}", seen.message);
        assert!(seen.message.starts_with("object ы") && seen.message.ends_with("; put it"), "{}", seen.message);
        for max in 0..60 {
            assert!(detail.clone().shortened(max).message.len() <= max.max(3), "{max}");
        }
        assert_eq!(ErrorDetail::new(ErrorCode::SegmentBusy, "short").shortened(5).message, "short");
    }

    #[test]
    fn a_status_without_or_with_foreign_details_has_none() {
        assert_eq!(ErrorDetail::of(&Status::unavailable("connection refused")), None);
        let foreign = Status::with_details(Code::Unknown, "x", Bytes::from_static(b"\xff\xff\xff"));
        assert_eq!(ErrorDetail::of(&foreign), None);
    }
}
