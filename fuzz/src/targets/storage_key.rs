//! Owns storage keys and the names of a bucket directory: what passes is the key of one object, the name of one file.

use bucket_store::StorageKey;
use bucket_store::format::names::{BucketId, NameKind, temporary_name};
use ha_types::{ObjectKey, TenantId};

use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "storage_key", run, seeds };

fn run(data: &[u8]) -> Verdict {
    if let Ok(name) = std::str::from_utf8(data) {
        means_one_file(name);
    }
    match bound::within(data.len(), 8, || StorageKey::from_bytes(data)) {
        Ok(key) => {
            assert_eq!(key.as_bytes(), data);
            let tenant = TenantId::new(std::str::from_utf8(key.tenant()).expect("text")).expect("a tenant id");
            let again = StorageKey::new(&tenant, &ObjectKey::new(key.user_key()).expect("an object key"));
            assert_eq!(again, key, "one object, one key");
            Verdict::Accepted
        }
        Err(e) => Verdict::refused(&e),
    }
}

fn means_one_file(name: &str) {
    let kind = bound::within(name.len(), 8, || NameKind::of(name));
    match kind {
        NameKind::Data(id) => assert!(id.is_valid() && id.data_name() == name),
        NameKind::Table(id) => assert!(id.is_valid() && id.table_name() == name),
        _ => {}
    }
    let temporary = NameKind::of(&temporary_name(name, 7));
    let of_ours = !matches!(kind, NameKind::Strange | NameKind::Temporary);
    assert_eq!(temporary == NameKind::Temporary, of_ours, "{name:?} is {kind:?}, its temporary name {temporary:?}");
    assert!(BucketId::parse(name).is_none_or(|id| id.to_string() == name));
}

fn seeds() -> Vec<Seed> {
    vec![
        Seed::good("plain", *b"default\0key"),
        Seed::good("zeros_in_the_key", *b"t\0\0\xff\0"),
        Seed::bad("no_separator", "key"),
        Seed::bad("no_tenant", *b"\0key"),
        Seed::bad("no_key", *b"tenant\0"),
        Seed::bad("underscore", *b"_t\0key"),
        Seed::bad("not_text", *b"\xfft\0key"),
        Seed::bad("long_tenant", [&[b't'; 129][..], b"\0key"].concat()),
        Seed::bad("data_name", "42.bucket"),
        Seed::bad("table_name", "9223372036854775807.meta"),
        Seed::bad("zero_name", "0.meta"),
        Seed::bad("temporary_name", ".42.meta.7.tmp"),
    ]
}
