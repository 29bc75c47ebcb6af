//! Owns the storage key, `tenant 0x00 user-key`: the only name that an object has on a disk. No tenant id holds a 0x00, so the
//! first one ends the tenant, and two objects never share a storage key (invariant M6).

use std::fmt;
use std::sync::Arc;

use ha_types::{ObjectKey, ObjectKeyError, TenantId, TenantIdError};

/// A tenant and its object's key in one run of bytes. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StorageKey(Arc<[u8]>);

/// Why some bytes are no storage key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}; {}", self.what(), self.remedy())]
pub enum StorageKeyError {
    /// No 0x00 ends the tenant.
    NoSeparator {
        /// The first bytes, escaped.
        key: String,
    },
    /// The tenant is no UTF-8.
    TenantNotText {
        /// The first byte that does not belong.
        at: usize,
    },
    /// What comes before the separator is no tenant id.
    Tenant(#[from] TenantIdError),
    /// What comes after the separator is no object key.
    Key(#[from] ObjectKeyError),
}

impl StorageKeyError {
    /// What is wrong and where, without what to do about it.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            Self::NoSeparator { key } => format!("the storage key \"{key}\" has no 0x00 between tenant and object key"),
            Self::TenantNotText { at } => format!("the tenant of the storage key is no UTF-8 from byte {at} on"),
            Self::Tenant(error) => format!("the tenant of the storage key: {error}"),
            Self::Key(error) => format!("the storage key after its tenant: {error}"),
        }
    }

    /// What to give instead.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        "give tenant, a zero byte, key, both not empty"
    }
}

impl StorageKey {
    /// The longest, in bytes.
    pub const MAX_BYTES: usize = TenantId::MAX_BYTES + 1 + ObjectKey::MAX_BYTES;
    /// The shortest, in bytes: one of tenant, the separator, one of key.
    pub const MIN_BYTES: usize = 3;
    /// Ends the tenant.
    pub const SEPARATOR: u8 = 0;

    /// The storage key of an object.
    #[must_use]
    pub fn new(tenant: &TenantId, key: &ObjectKey) -> Self {
        let (tenant, key) = (tenant.as_str().as_bytes(), key.as_bytes());
        let mut bytes = Vec::with_capacity(tenant.len() + 1 + key.len());
        bytes.extend_from_slice(tenant);
        bytes.push(Self::SEPARATOR);
        bytes.extend_from_slice(key);
        Self(bytes.into())
    }

    /// Checks and keeps the bytes.
    ///
    /// # Errors
    /// [`StorageKeyError`] if there is no separator, or what is before or after it is no tenant id or object key.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StorageKeyError> {
        Self::check(bytes)?;
        Ok(Self(bytes.into()))
    }

    /// Checks without keeping.
    ///
    /// # Errors
    /// As [`Self::from_bytes`].
    pub fn check(bytes: &[u8]) -> Result<(), StorageKeyError> {
        let Some((tenant, key)) = Self::split(bytes) else {
            let first = &bytes[..bytes.len().min(64)];
            return Err(StorageKeyError::NoSeparator { key: first.escape_ascii().to_string() });
        };
        let tenant = std::str::from_utf8(tenant).map_err(|e| StorageKeyError::TenantNotText { at: e.valid_up_to() })?;
        TenantId::check(tenant)?;
        Ok(ObjectKey::check(key)?)
    }

    /// The bytes before the first separator and those after it. `None` if there is none. Checks nothing else.
    #[must_use]
    pub fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        let at = bytes.iter().position(|byte| *byte == Self::SEPARATOR)?;
        Some((&bytes[..at], &bytes[at + 1..]))
    }

    /// The tenant's bytes, which are a valid [`TenantId`].
    #[must_use]
    pub fn tenant(&self) -> &[u8] {
        Self::split(&self.0).map_or(&[], |(tenant, _)| tenant)
    }

    /// The object's key inside its tenant.
    #[must_use]
    pub fn user_key(&self) -> &[u8] {
        Self::split(&self.0).map_or(&[], |(_, key)| key)
    }

    /// All bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// All bytes, shared.
    #[must_use]
    pub fn shared(&self) -> Arc<[u8]> {
        Arc::clone(&self.0)
    }
}

impl From<StorageKey> for Arc<[u8]> {
    fn from(key: StorageKey) -> Self {
        key.0
    }
}

impl std::borrow::Borrow<[u8]> for StorageKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for StorageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().fmt(f)
    }
}

impl fmt::Debug for StorageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StorageKey(\"{self}\")")
    }
}

#[cfg(test)]
mod tests {
    use ha_types::{ObjectKey, ObjectKeyError, TenantId, TenantIdError};
    use proptest::prelude::*;

    use super::{StorageKey, StorageKeyError};

    fn key(tenant: &str, key: &[u8]) -> StorageKey {
        StorageKey::new(&TenantId::new(tenant).unwrap(), &ObjectKey::new(key).unwrap())
    }

    #[test]
    fn m6_the_first_zero_byte_ends_the_tenant() {
        let made = key("default", b"a\0b\xff");
        assert_eq!(made.as_bytes(), b"default\0a\0b\xff");
        assert_eq!((made.tenant(), made.user_key()), (&b"default"[..], &b"a\0b\xff"[..]));
        assert_eq!(StorageKey::from_bytes(made.as_bytes()), Ok(made.clone()));
        assert_eq!(made.to_string(), "default\\x00a\\x00b\\xff");
    }

    #[test]
    fn d8_tenants_and_keys_that_look_alike_are_distinct() {
        assert_ne!(key("a/b", b"c"), key("a", b"b/c"));
        assert_ne!(key("a", b"b\0c"), key("a", b"b"));
        assert_ne!(key("ab", b"c"), key("a", b"bc"));
    }

    #[test]
    fn what_is_no_storage_key_is_named() {
        use StorageKeyError as E;
        let cases: [(&[u8], E); 7] = [
            (b"", E::NoSeparator { key: String::new() }),
            (b"no-tenant\xff", E::NoSeparator { key: "no-tenant\\xff".into() }),
            (b"\0key", E::Tenant(TenantIdError::Empty)),
            (b"tenant\0", E::Key(ObjectKeyError::Empty)),
            (b"te\xffnant\0k", E::TenantNotText { at: 2 }),
            (b"_t\0k", E::Tenant(TenantIdError::Character { id: "_t".into(), found: '_', at: 0 })),
            (&[b'k'; 5000], E::NoSeparator { key: "k".repeat(64) }),
        ];
        for (bytes, why) in cases {
            let text = why.to_string();
            assert!(
                text.contains("storage key") && text.ends_with("; give tenant, a zero byte, key, both not empty"),
                "{text}"
            );
            assert_eq!(StorageKey::from_bytes(bytes), Err(why));
        }
        let long = [&[b't'; 129][..], b"\0k"].concat();
        assert_eq!(StorageKey::check(&long), Err(E::Tenant(TenantIdError::TooLong { len: 129 })));
        let longest = [&[b't'; 128][..], &[0], &[0; 4096]].concat();
        assert_eq!(longest.len(), StorageKey::MAX_BYTES);
        assert_eq!(StorageKey::check(&longest), Ok(()));
        assert_eq!(
            StorageKey::check(&[&longest[..], b"k"].concat()),
            Err(E::Key(ObjectKeyError::TooLong { len: 4097 }))
        );
    }

    proptest! {
        #[test]
        fn m6_two_objects_never_share_a_storage_key(
            a in ("[a-c/]{1,3}", proptest::collection::vec(0_u8..3, 1..4)),
            b in ("[a-c/]{1,3}", proptest::collection::vec(0_u8..3, 1..4)),
        ) {
            prop_assert_eq!(key(&a.0, &a.1) == key(&b.0, &b.1), a == b);
        }

        #[test]
        fn m6_what_passes_is_some_objects_storage_key(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            if let Ok(made) = StorageKey::from_bytes(&bytes) {
                let tenant = TenantId::new(std::str::from_utf8(made.tenant()).unwrap()).unwrap();
                prop_assert_eq!(StorageKey::new(&tenant, &ObjectKey::new(made.user_key()).unwrap()), made);
            }
        }
    }
}
