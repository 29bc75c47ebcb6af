//! Owns the segment id: what is allowed in one. How a text id behaves is `text_id`'s.

crate::text_id::text_id! {
    /// The name of one segment of memory, unique for all time: 1 to 255 bytes of UTF-8 without control characters.
    SegmentId,
    /// Why a text is no segment id.
    SegmentIdError,
    what: "segment id",
    max_bytes: 255,
    rule: "control characters are not allowed",
    allowed: |_at, c| !c.is_control(),
}
