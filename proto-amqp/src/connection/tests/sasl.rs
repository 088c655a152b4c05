//! Mechanisms of several steps (part 5, 5.3.2): challenges and responses by turns, out of turn, and too large.

use std::vec::Vec;

use bytes::Bytes;

use super::{Pair, Peer, carry, config};
use crate::connection::{Config, Credentials, Event, SaslCode, UsageError};
use crate::types::{Str, Symbol};

const SCRAM: Symbol = Symbol::from_static("SCRAM-SHA-256");

fn server() -> Config {
    let mut config = config();
    config.sasl.mechanisms = std::vec![SCRAM];
    config.sasl.required = true;
    config
}

fn client(credentials: Credentials) -> Config {
    let mut config = Config {
        container_id: Str::from_static("client"),
        ..Config::default()
    };
    config.sasl.credentials = Some(credentials);
    config
}

fn scram() -> Credentials {
    Credentials::Steps {
        mechanism: SCRAM,
        initial_response: Some(Bytes::from_static(b"client-first")),
    }
}

/// Carries bytes until nothing moves. Nobody answers anything.
fn carry_all(pair: &mut Pair) -> (Vec<Event>, Vec<Event>) {
    while carry(pair.now, &mut pair.client, &mut pair.server)
        + carry(pair.now, &mut pair.server, &mut pair.client)
        > 0
    {}
    let at_client = core::iter::from_fn(|| pair.client.poll_event()).collect();
    let at_server = core::iter::from_fn(|| pair.server.poll_event()).collect();
    (at_client, at_server)
}

/// Up to the server's first decision.
fn asked() -> Pair {
    let mut pair = Pair::new(client(scram()), server());
    pair.client.open();
    let (_, at_server) = carry_all(&mut pair);
    match &at_server[..] {
        [
            Event::SaslInit {
                mechanism,
                response,
                ..
            },
        ] => {
            assert_eq!(*mechanism, SCRAM);
            assert_eq!(response, "client-first");
        }
        other => panic!("{other:?}"),
    }
    pair
}

/// One more step in each direction.
fn step(pair: &mut Pair, challenge: &'static str, response: &'static str) {
    pair.server
        .sasl_challenge(Bytes::from_static(challenge.as_bytes()))
        .expect("the server decides");
    let (at_client, _) = carry_all(pair);
    match &at_client[..] {
        [Event::SaslChallenge { challenge: came }] => assert_eq!(came, challenge),
        other => panic!("{other:?}"),
    }
    pair.client
        .sasl_respond(Bytes::from_static(response.as_bytes()))
        .expect("a challenge came");
    let (_, at_server) = carry_all(pair);
    match &at_server[..] {
        [Event::SaslResponse { response: came }] => assert_eq!(came, response),
        other => panic!("{other:?}"),
    }
}

#[test]
fn challenges_and_responses_take_turns_until_the_outcome() {
    let mut pair = asked();
    step(&mut pair, "server-first", "client-final");
    step(&mut pair, "", "");
    pair.server
        .sasl_accept(Bytes::from_static(b"server-final"))
        .expect("the server decides");
    let (at_client, at_server) = carry_all(&mut pair);
    match &at_client[..] {
        [Event::SaslDone { additional_data }] => assert_eq!(additional_data, "server-final"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(at_server[..], [Event::Opened]), "{at_server:?}");
}

#[test]
fn a_denial_may_come_after_any_step() {
    let mut pair = asked();
    step(&mut pair, "server-first", "wrong");
    pair.server.sasl_outcome(SaslCode::Auth);
    let (at_client, _) = carry_all(&mut pair);
    match &at_client[..] {
        [Event::Closed { error: Some(error) }] => {
            assert_eq!(error.condition, crate::condition::UNAUTHORIZED_ACCESS);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_without_steps_does_not_wait_for_a_challenge_to_be_answered() {
    let mut offering = server();
    offering.sasl.mechanisms = std::vec![Symbol::from_static("ANONYMOUS")];
    let mut pair = Pair::new(client(Credentials::Anonymous), offering);
    pair.client.open();
    carry_all(&mut pair);
    pair.server
        .sasl_challenge(Bytes::from_static(b"who?"))
        .expect("the server decides");
    let (at_client, _) = carry_all(&mut pair);
    assert!(
        matches!(at_client[..], [Event::Closed { .. }]),
        "{at_client:?}"
    );
}

/// Part 5, 5.3.1: 512 bytes are the most that a SASL frame has: 8 of header, 3 of descriptor, 9 of list, 5 of binary.
#[test]
fn steps_keep_to_512_bytes() {
    let mut pair = asked();
    let fits = |len: usize| Bytes::from(std::vec![b'x'; len]);
    assert_eq!(
        pair.server.sasl_challenge(fits(488)),
        Err(UsageError::TooLarge)
    );
    pair.server
        .sasl_challenge(fits(487))
        .expect("512 bytes, and nothing changed before");
    carry_all(&mut pair);
    assert_eq!(
        pair.client.sasl_respond(fits(488)),
        Err(UsageError::TooLarge)
    );
    pair.client.sasl_respond(fits(487)).expect("512 bytes");
    carry_all(&mut pair);
    assert_eq!(
        pair.server.sasl_accept(fits(488)),
        Err(UsageError::TooLarge)
    );
    pair.server.sasl_accept(fits(100)).expect("decides still");
}

#[test]
fn steps_out_of_place_are_refused() {
    let bytes = || Bytes::from_static(b"x");
    let mut pair = Pair::new(client(scram()), server());
    assert_eq!(
        pair.server.sasl_challenge(bytes()),
        Err(UsageError::WrongState)
    );
    assert_eq!(
        pair.server.sasl_accept(bytes()),
        Err(UsageError::WrongState)
    );
    assert_eq!(
        pair.client.sasl_respond(bytes()),
        Err(UsageError::WrongState)
    );
    let mut pair = asked();
    pair.server.sasl_challenge(bytes()).expect("decides");
    assert_eq!(
        pair.server.sasl_challenge(bytes()),
        Err(UsageError::WrongState),
        "the client's turn"
    );
    pair.server.sasl_outcome(SaslCode::Ok);
    let (at_client, _) = carry_all(&mut pair);
    assert!(
        matches!(at_client[..], [Event::SaslChallenge { .. }]),
        "an outcome in the client's turn does nothing: {at_client:?}"
    );
}

/// Part 5, 5.3.2: a response before any challenge, and a second init instead of a response, end the connection.
#[test]
fn frames_out_of_turn_end_the_connection() {
    let header = "414d515003010000";
    let init = "0000001f02010000005341c01202a30d534352414d2d5348412d323536a000";
    let response = "0000001202010000005343c00501a0027879";
    for (before, out_of_turn, has_challenge) in [("", response, false), (init, init, true)] {
        let mut peer = Peer::new(server());
        peer.is_friendly = false;
        peer.feed(&[header, before].concat());
        if has_challenge {
            peer.conn
                .sasl_challenge(Bytes::from_static(b"x"))
                .expect("an init came");
        }
        peer.feed(out_of_turn);
        let events = peer.take_events();
        assert!(
            matches!(events.last(), Some(Event::Closed { .. })),
            "{events:?}"
        );
    }
}
