//! Logins: the one who decides sees who asks, and a denial is told when its delay is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use qq_proto_amqp::condition;
use qq_proto_amqp::connection::{Config, Credentials, Event, SaslConfig};
use qq_proto_amqp::types::Symbol;

use super::{Bench, WALL_START_MS, client_config, face_config};
use crate::face::{Login, LoginAnswer, LoginStep};
use crate::vocab::ConnId;

/// Everybody whose password is not "right" is denied after so long.
fn bench(delay: Duration) -> Bench {
    Bench::with(face_config(Arc::new(move |login: &Login<'_>| {
        if login.response == b"\0joe\0right" {
            LoginAnswer::Accepted
        } else {
            LoginAnswer::Denied { delay }
        }
    })))
}

fn joe(password: &str) -> Config {
    Config {
        sasl: SaslConfig {
            credentials: Some(Credentials::Plain {
                user: "joe".to_owned(),
                password: password.to_owned(),
            }),
            ..SaslConfig::default()
        },
        ..client_config()
    }
}

/// The condition that a refused client machine makes of the outcome, if it heard one.
fn heard(bench: &mut Bench, client: usize) -> Option<String> {
    bench.take_events(client).into_iter().find_map(|event| {
        let Event::Closed { error } = event else {
            return None;
        };
        Some(error.map_or_else(String::new, |error| error.condition.as_str().to_owned()))
    })
}

#[test]
fn a_denial_is_told_when_its_delay_is_over_and_not_before() {
    let mut bench = bench(Duration::from_secs(2));
    let client = bench.connect(joe("wrong"));
    bench.pass(Duration::from_millis(1_999));
    assert!(bench.take_events(client).is_empty());
    bench.pass(Duration::from_millis(1));
    assert_eq!(
        heard(&mut bench, client).as_deref(),
        Some(condition::UNAUTHORIZED_ACCESS.as_str())
    );
    // What lingers for the last words is gone soon.
    bench.pass(Duration::from_secs(3));
    assert!(!bench.node.is_connected(ConnId(0)));
    assert_eq!(bench.node.poll_timeout(), None);
}

#[test]
fn a_denial_without_delay_is_told_at_once_and_the_right_password_waits_for_nothing() {
    let mut bench = bench(Duration::ZERO);
    let client = bench.connect(joe("wrong"));
    assert!(heard(&mut bench, client).is_some());
    let client = bench.connect(joe("right"));
    let events = bench.take_events(client);
    assert!(
        matches!(events[..], [Event::SaslDone { .. }, Event::Opened]),
        "{events:?}"
    );
}

/// The peer stays a stranger: the deadline for its open is not put off by a long delay.
#[test]
fn the_open_deadline_outweighs_a_longer_delay() {
    let mut bench = bench(Duration::from_secs(60));
    let client = bench.connect(joe("wrong"));
    bench.pass(Duration::from_secs(11));
    assert_eq!(heard(&mut bench, client).as_deref(), Some(""));
    assert!(!bench.node.is_connected(ConnId(0)));
    assert_eq!(
        bench.node.poll_timeout(),
        None,
        "no deadline of a peer that is gone"
    );
}

#[test]
fn a_peer_that_leaves_before_it_is_told_leaves_nothing_behind() {
    let mut bench = bench(Duration::from_secs(2));
    bench.connect(joe("wrong"));
    bench.node.handle_eof(bench.now, ConnId(0));
    bench.settle();
    assert!(!bench.node.is_connected(ConnId(0)));
    assert_eq!(bench.node.poll_timeout(), None);
}

#[test]
fn who_decides_sees_address_time_and_mechanism() {
    let seen_ms = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&seen_ms);
    let authenticate = Arc::new(move |login: &Login<'_>| {
        let peer = login.peer;
        assert_eq!(peer.address, "192.0.2.0:1");
        assert_eq!(peer.ip, Some(core::net::Ipv4Addr::new(192, 0, 2, 0).into()));
        assert_eq!(login.mechanism, "PLAIN");
        assert_eq!(login.now.wall_ms, WALL_START_MS + 7_000);
        let ms = u64::try_from(login.now.mono.as_millis()).expect("short");
        seen.store(ms, Ordering::Relaxed);
        LoginAnswer::Accepted
    });
    let mut bench = Bench::with(face_config(authenticate));
    bench.advance(Duration::from_secs(7));
    bench.connect(joe("any"));
    assert_eq!(seen_ms.load(Ordering::Relaxed), 7_000);
}

/// A mechanism that asks for a number and wants the next one, twice.
fn counting(login: &Login<'_>) -> LoginAnswer {
    assert_eq!(login.mechanism, "PLAIN");
    let Ok(text) = std::str::from_utf8(login.response) else {
        panic!("a number");
    };
    let number: u64 = text.parse().expect("a number");
    let next = LoginStep(Arc::new(move |login: &Login<'_>| {
        assert_eq!(login.mechanism, "PLAIN");
        if login.response != (number + 1).to_string().as_bytes() {
            LoginAnswer::Denied {
                delay: Duration::from_secs(1),
            }
        } else if number < 20 {
            counting(login)
        } else {
            LoginAnswer::AcceptedWith {
                additional_data: Bytes::from_static(b"enough"),
            }
        }
    }));
    LoginAnswer::Challenge {
        challenge: Bytes::from(number.to_string()),
        next,
    }
}

/// A peer of that mechanism, asked once.
fn counted(first: &'static [u8]) -> (Bench, usize) {
    let mut bench = Bench::with(face_config(Arc::new(counting)));
    let client = bench.connect(Config {
        sasl: SaslConfig {
            credentials: Some(Credentials::Steps {
                mechanism: Symbol::from_static("PLAIN"),
                initial_response: Some(Bytes::from_static(first)),
            }),
            ..SaslConfig::default()
        },
        ..client_config()
    });
    (bench, client)
}

fn respond(bench: &mut Bench, client: usize, response: &'static [u8]) {
    let machine = &mut bench.clients[client].machine;
    let response = Bytes::from_static(response);
    machine.sasl_respond(response).expect("a challenge came");
    bench.settle();
}

#[test]
fn a_mechanism_of_several_steps_carries_what_it_knows_from_one_to_the_next() {
    let (mut bench, client) = counted(b"19");
    let events = bench.take_events(client);
    assert!(
        matches!(&events[..], [Event::SaslChallenge { challenge }] if challenge == "19"),
        "{events:?}"
    );
    respond(&mut bench, client, b"20");
    let events = bench.take_events(client);
    assert!(
        matches!(&events[..], [Event::SaslChallenge { challenge }] if challenge == "20"),
        "{events:?}"
    );
    respond(&mut bench, client, b"21");
    let events = bench.take_events(client);
    assert!(
        matches!(
            &events[..],
            [Event::SaslDone { additional_data }, Event::Opened] if additional_data == "enough"
        ),
        "{events:?}"
    );
}

#[test]
fn a_wrong_response_is_denied_late_as_wrong_passwords_are() {
    let (mut bench, client) = counted(b"19");
    respond(&mut bench, client, b"7");
    assert!(matches!(
        bench.take_events(client)[..],
        [Event::SaslChallenge { .. }]
    ));
    bench.pass(Duration::from_secs(1));
    assert_eq!(
        heard(&mut bench, client).as_deref(),
        Some(condition::UNAUTHORIZED_ACCESS.as_str())
    );
}
