//! Owns the cluster id: what is allowed in one. How a text id behaves is `text_id`'s.

crate::text_id::text_id! {
    /// The name of one cluster: `[A-Za-z0-9_.-]{1,128}`. It becomes a path part of every key.
    ClusterId,
    /// Why a text is no cluster id.
    ClusterIdError,
    what: "cluster id",
    max_bytes: 128,
    rule: "letters, digits, '_', '.' and '-' are allowed",
    allowed: |_at, c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'),
}
