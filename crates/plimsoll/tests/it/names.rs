//! Two nodes of one name notice each other; a killed one is not locked out for long.

use crate::kit::{Place, finish, refused};

#[test]
fn the_second_serve_of_a_name_is_refused_and_the_first_goes_on() {
    let place = Place::new(1000);
    let mut a = place.node("a");
    a.wait_for_role("leader");
    let second = finish(place.serve("a"));
    refused(&second, 1, &a.grpc, "choose another name");
    assert!(second.err.contains(&format!("pid {}", a.pid())), "{}", second.err);
    assert!(a.is_running());
    assert_eq!(a.role()["role"], "leader");
}

#[test]
fn a_killed_node_has_its_name_back_after_its_lease() {
    let place = Place::new(1000);
    let a = place.node("a");
    a.wait_for_role("leader");
    a.kill_9();
    place.node("a").wait_for_role("leader");
}

#[test]
fn a_node_that_ended_gives_its_name_back_at_once() {
    // Far above what a role is waited for.
    let place = Place::new(120_000);
    let a = place.node("a");
    a.wait_for_role("leader");
    a.signal("TERM");
    assert_eq!(a.ended(), Some(0));
    place.node("a").wait_for_role("leader");
}
