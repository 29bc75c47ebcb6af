//! Owns the tenant id: what is allowed in one. How a text id behaves is `text_id`'s.

crate::text_id::text_id! {
    /// The name of one tenant: 1 to 128 bytes of UTF-8 without control characters and without a leading `_`.
    TenantId,
    /// Why a text is no tenant id.
    TenantIdError,
    what: "tenant id",
    max_bytes: 128,
    rule: "control characters and a leading '_' are not allowed",
    allowed: |at, c| !(c.is_control() || (at == 0 && c == '_')),
}

impl TenantId {
    /// The tenant of calls and records that name none.
    #[must_use]
    pub fn default_tenant() -> Self {
        Self("default".into())
    }
}
