//! Owns the tests of what is and is not an id.

use crate::{ClusterId, ClusterIdError, SegmentId, SegmentIdError, TenantId, TenantIdError};

#[test]
fn the_longest_is_accepted_and_one_byte_more_is_refused_by_its_length() {
    assert!(ClusterId::new(&"a".repeat(128)).is_ok());
    assert_eq!(ClusterId::new(&"a".repeat(129)), Err(ClusterIdError::TooLong { len: 129 }));
    assert!(TenantId::new(&"a".repeat(128)).is_ok());
    assert_eq!(TenantId::new(&"a".repeat(129)), Err(TenantIdError::TooLong { len: 129 }));
    assert!(SegmentId::new(&"a".repeat(255)).is_ok());
    assert_eq!(SegmentId::new(&"a".repeat(256)), Err(SegmentIdError::TooLong { len: 256 }));
}

#[test]
fn length_counts_bytes_not_characters() {
    assert_eq!(TenantId::new(&"ä".repeat(65)), Err(TenantIdError::TooLong { len: 130 }));
    assert!(TenantId::new(&"ä".repeat(64)).is_ok());
}

#[test]
fn empty_is_refused_with_the_limit() {
    assert_eq!(ClusterId::new("").unwrap_err().to_string(), "the cluster id is empty; give 1 to 128 bytes");
    assert_eq!(TenantId::new("").unwrap_err().to_string(), "the tenant id is empty; give 1 to 128 bytes");
    assert_eq!(SegmentId::new("").unwrap_err().to_string(), "the segment id is empty; give 1 to 255 bytes");
}

#[test]
fn a_cluster_id_cannot_leave_its_path_part() {
    for id in ["a", "a.b", "A-9_z", "..", "0"] {
        assert_eq!(ClusterId::new(id).unwrap().as_str(), id);
    }
    for (id, found, at) in [("a/b", '/', 1), ("a b", ' ', 1), ("ä", 'ä', 0), ("a\0", '\0', 1), ("x*", '*', 1)] {
        assert_eq!(ClusterId::new(id), Err(ClusterIdError::Character { id: id.into(), found, at }));
    }
}

#[test]
fn control_characters_are_refused_outside_ascii_too() {
    for (id, found, at) in [("a\nb", '\n', 1), ("a\u{7f}", '\u{7f}', 1), ("ä\u{85}", '\u{85}', 2)] {
        assert_eq!(SegmentId::new(id), Err(SegmentIdError::Character { id: id.into(), found, at }));
        assert_eq!(TenantId::new(id), Err(TenantIdError::Character { id: id.into(), found, at }));
    }
}

#[test]
fn an_underscore_may_not_lead_a_tenant_but_may_follow() {
    let refused = TenantId::new("_system").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the tenant id \"_system\" has '_' at byte 0; control characters and a leading '_' are not allowed"
    );
    assert!(TenantId::new("a_system").is_ok());
    assert!(SegmentId::new("_a").is_ok());
}

#[test]
fn ids_look_themselves_up_as_text() {
    let map = std::collections::HashMap::from([(TenantId::default_tenant(), 1)]);
    assert_eq!(map.get("default"), Some(&1));
    assert_eq!(
        format!("{:?} {}", TenantId::default_tenant(), TenantId::default_tenant()),
        "TenantId(\"default\") default"
    );
}
