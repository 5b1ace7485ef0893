//! Described devices on a host without the connection manager's library. Runs on any machine.

mod common;

use common::described::{count, kit_over, port};
use std::path::Path;
use weft_api::verbs::{Hca, Route};
use weft_types::params::Routes;
use weft_verbs::{RouteWish, Verbs, no_manager, use_manager};

#[test]
fn without_the_library_nobody_is_asked_and_what_is_set_by_hand_counts() {
    assert!(use_manager(Path::new("/nowhere/librdmacm.so.1")), "before anything else");
    let require = RouteWish { ask: Routes::Require, ..RouteWish::default() };
    let error = Verbs::open_with(port("subnet0"), require).unwrap_err().to_string();
    assert!(error.contains("WEFT_ROUTES=require") && error.contains("/nowhere/librdmacm.so.1"), "{error}");
    assert!(error.contains("librdmacm1"), "the remedy: {error}");
    assert!(no_manager().is_some_and(|why| error.contains(why)));
    let wish = RouteWish { service_level: Some(6), ..RouteWish::default() };
    let mut device = Verbs::open_with(port("subnet0"), wish).unwrap();
    let to = device.address();
    assert_eq!(device.route(to, 0), Route::Known { mtu: 4096 }, "at once");
    let text = device.route_text(to, 0).unwrap();
    assert!(text.contains("service level 6") && text.contains("without a route"), "{text}");
    assert!(device.routes().contains("nobody is asked, /nowhere/librdmacm.so.1"), "{}", device.routes());
    drop(device);
    kit_over("subnet1", |_| {}, false);
    assert_eq!((count("subnet1", "asked"), count("subnet1", "service_level")), (0, 0));
    assert_eq!(count("subnet0", "alive") + count("subnet1", "alive"), 0);
}
