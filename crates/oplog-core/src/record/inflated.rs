//! Owns the room for an inflated body, and inflating into it: bounded before anything is allocated, whatever a frame claims.

use std::fmt;

use super::error::{RecordError, RecordErrorKind};

/// Room for the body of a compressed record, used again from record to record. One per reader is enough.
#[derive(Default)]
pub struct Inflated {
    #[cfg(feature = "zstd")]
    context: Option<zstd::zstd_safe::DCtx<'static>>,
    body: Vec<u8>,
}

impl fmt::Debug for Inflated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflated").field("bytes", &self.body.len()).finish_non_exhaustive()
    }
}

impl Inflated {
    /// Nothing yet: it allocates with the first compressed record.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// What the one frame `stored` inflates to.
    #[cfg(feature = "zstd")]
    pub(super) fn inflate(&mut self, stored: &[u8]) -> Result<&[u8], RecordError> {
        use super::layout::{HEADER_BYTES, MAX_BODY_BYTES};
        use super::zstd_frame::ZstdFrame;
        /// zstd's number of the error that there is more than the room it was given; errors are the negative numbers.
        const NO_ROOM: usize = 0_usize.wrapping_sub(70);

        let frame = ZstdFrame::look(stored)?;
        let expected = format_args!("at most {MAX_BODY_BYTES} bytes inflated");
        let too_large = |found: &dyn fmt::Display| {
            RecordError::new(RecordErrorKind::TooLarge, "body", HEADER_BYTES, expected, found)
        };
        let claimed = match frame.claimed.map(usize::try_from) {
            Some(Ok(claimed)) if claimed <= MAX_BODY_BYTES => Some(claimed),
            Some(_) => return Err(too_large(&frame.claimed.unwrap_or(u64::MAX))),
            None => None,
        };
        // What the blocks cannot hold is not allocated, so that a short frame with a large claim gets nothing.
        let room = claimed.unwrap_or(MAX_BODY_BYTES).min(frame.most);
        self.body.clear();
        self.body.reserve_exact(room);
        let context = self.context.get_or_insert_with(zstd::zstd_safe::DCtx::create);
        match context.decompress(&mut self.body, stored) {
            Ok(_) if self.body.len() > MAX_BODY_BYTES => Err(too_large(&self.body.len())),
            Ok(_) => Ok(&self.body),
            Err(NO_ROOM) if claimed.is_none() => Err(too_large(&"more")),
            Err(code) => {
                let length = claimed.map(|bytes| format!(", {bytes} bytes inflated as it claims")).unwrap_or_default();
                let (expected, found) = (format_args!("a sound one{length}"), zstd::zstd_safe::get_error_name(code));
                Err(RecordError::new(RecordErrorKind::Malformed, "zstd frame", HEADER_BYTES, expected, found))
            }
        }
    }

    /// Refuses: this build inflates nothing.
    #[cfg(not(feature = "zstd"))]
    pub(super) fn inflate(&mut self, _: &[u8]) -> Result<&[u8], RecordError> {
        Err(not_in_place())
    }
}

/// A compressed body where only a raw one can be read.
#[cold]
pub(super) fn not_in_place() -> RecordError {
    let expected = if cfg!(feature = "zstd") {
        "a raw body, as the record is read in place (a compressed one is read with room to inflate it)"
    } else {
        "a raw body, as this build of oplog-core is without the feature `zstd`"
    };
    RecordError::new(RecordErrorKind::Compressed, "flags", super::layout::FLAGS_AT, expected, "a zstd body")
}
