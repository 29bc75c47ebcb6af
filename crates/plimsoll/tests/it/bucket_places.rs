//! Where a bucket directory may lie and what may lie in it, as every command sees it: each refusal names the file, and changes nothing.

use std::path::Path;
use std::sync::Arc;

use bucket_store::format::names::MARKER;
use bucket_store::format::test_kit::identity;
use bucket_store::vfs::{Access, DiskDir};
use bucket_store::{Adoption, Store, StoreError};
use serde_json::json;

use crate::buckets::{Buckets, says};

const ADOPT: [&str; 5] = ["--segment", "ssd-1", "--cluster", "c1", "--one-way"];

fn open(place: &Buckets, adoption: Adoption) -> Result<(), StoreError> {
    let dir = Arc::new(DiskDir::open(&place.path(), Access::Store).unwrap());
    let clock = Arc::new(ha_types::SystemClock::new());
    Store::builder(identity(), clock).adoption(adoption).open(dir).map(drop)
}

type Make = fn(&Path);
const DIRECTORY: Make = |at| std::fs::create_dir(at).unwrap();
const FILE: Make = |at| std::fs::write(at, "x").unwrap();
const LINK: Make = |at| std::os::unix::fs::symlink("2.bucket", at).unwrap();

/// Every command and the library refuse it by this name, or show it, and change nothing.
fn is_strange(name: &str, make: Make, kind: &str) {
    for place in [Buckets::usual(), Buckets::mooncakes()] {
        let ours = place.path().join(MARKER).exists();
        if name == MARKER && ours {
            place.remove(MARKER);
        }
        make(&place.path().join(name));
        let before = place.snapshot();
        let faults = place.faults();
        assert!(faults.contains(&format!("{kind} {name} the name")), "{name}: {faults:?}");
        assert_eq!(place.looks("ls", &[]).code, 0);
        assert!(place.looks("ls", &["--json"]).json()["strange"].as_array().unwrap().contains(&json!(name)));
        let told = place.looks("explain", &["--json"]).json()["open"].clone();
        let refused = told["refused"].as_array().unwrap();
        assert!(refused.iter().any(|fault| fault["file"] == json!(name) && fault["kind"] == json!(kind)), "{told}");
        assert_eq!(place.looks("fsck", &["--repair"]).code, 1, "{name}");
        let adopted = place.looks("adopt", &ADOPT);
        assert_eq!(adopted.code, 1, "{name}: {adopted:?}");
        for adoption in [Adoption::Refuse, Adoption::OneWay] {
            let error = open(&place, adoption).unwrap_err();
            assert_eq!((error.code(), error.place()), ("STRANGE_FILE", format!("{name}: the name")), "{error}");
        }
        assert_eq!(place.snapshot(), before, "{name}");
    }
}

#[test]
fn lost_and_found_is_the_file_systems_only_as_a_directory() {
    let place = Buckets::usual();
    DIRECTORY(&place.path().join("lost+found"));
    assert_eq!(place.faults(), [""; 0]);
    says(&place.looks("explain", &[]).out, &["serves 3 buckets"]);
    open(&place, Adoption::Refuse).unwrap();
    let place = Buckets::mooncakes();
    DIRECTORY(&place.path().join("lost+found"));
    assert_eq!(place.does("adopt", &ADOPT).code, 0);

    is_strange("lost+found", FILE, "strange_name");
    is_strange("lost+found", LINK, "not_a_file");
}

#[test]
fn names_of_ours_that_are_no_files_are_refused_by_name() {
    for name in ["8.bucket", "8.meta", ".bucket_gc_intent", ".bucket_reserve", MARKER] {
        is_strange(name, DIRECTORY, "not_a_file");
        is_strange(name, LINK, "not_a_file");
    }
    is_strange("sub", DIRECTORY, "not_a_file");
    is_strange("007.bucket", FILE, "strange_name");
}

#[test]
fn a_link_above_the_directory_is_followed_and_the_directory_itself_is_not() {
    let place = Buckets::usual();
    let above = place.temp.path().join("above");
    std::os::unix::fs::symlink(place.temp.path(), &above).unwrap();
    let at = above.join("buckets").display().to_string();
    let ran = crate::kit::run(&["bucket", "ls", &at, "--json"]);
    assert_eq!((ran.code, &ran.json()["totals"]["buckets"]), (0, &json!(3)), "{ran:?}");
}
