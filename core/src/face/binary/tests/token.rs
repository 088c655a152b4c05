//! Tokens: who is let in, and when a denial is told.

use std::sync::Arc;
use std::time::Duration;

use qq_proto_binary::connection::{Auth, CloseReason, Config, Event};

use super::{Bench, face_config, publish};
use crate::face::LoginAnswer;

/// A face that lets `s3cret` in, and tells others after two seconds.
fn bench() -> Bench {
    let mut config = face_config();
    config.connection.auth = Auth::Required;
    config.authenticate = Arc::new(|login| {
        if login.response == b"s3cret" {
            LoginAnswer::Accepted
        } else {
            LoginAnswer::Denied {
                delay: Duration::from_secs(2),
            }
        }
    });
    Bench::with(config)
}

fn with_token(token: Option<&str>) -> Config {
    Config {
        token: token.map(str::to_owned),
        ..Config::default()
    }
}

#[test]
fn the_right_token_opens_the_door() {
    let mut bench = bench();
    let a = bench.connect_with(with_token(Some("s3cret")));
    assert!(matches!(bench.clients[a].events[..], [Event::Opened]));
    bench.ask(a, &publish("q", "x")).expect("taken");
}

#[test]
fn a_wrong_one_is_told_late_and_that_is_all() {
    let mut bench = bench();
    let a = bench.connect_with(with_token(Some("guess")));
    bench.pass(1);
    assert!(bench.clients[a].events.is_empty());
    bench.pass(2);
    let reason = CloseReason::TokenRefused("invalid token".into());
    assert_eq!(bench.clients[a].events, [Event::Closed { reason }]);
    assert!(bench.clients[a].is_closed);
}

#[test]
fn without_a_token_nothing_passes() {
    let mut bench = bench();
    let a = bench.connect_with(with_token(None));
    let (code, text) = bench.refusal(a, &publish("q", "x"));
    assert_eq!((code, &*text), (9, "authentication required"));
    assert!(bench.node.broker().queue_counters("q").is_none());
    bench.pass(1);
    assert!(bench.clients[a].is_closed);
}
