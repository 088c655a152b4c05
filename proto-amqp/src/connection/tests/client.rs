//! Client and server machine against each other.

use std::vec::Vec;

use bytes::Bytes;

use super::{Pair, config, delivery, source, target};
use crate::connection::{Config, Credentials, Event, LinkId, NewLink, SessionId, UsageError};
use crate::performative::{DeliveryState, RcvSettleMode, SndSettleMode};
use crate::types::Str;

fn client(credentials: Option<Credentials>) -> Config {
    let mut config = Config {
        container_id: Str::from_static("client"),
        ..Config::default()
    };
    config.sasl.credentials = credentials;
    config
}

fn begun(client: Config, server: Config) -> (Pair, SessionId) {
    let mut pair = Pair::new(client, server);
    pair.client.open();
    let (at_client, _) = pair.drive();
    assert!(
        at_client.iter().any(|event| matches!(event, Event::Opened)),
        "{at_client:?}"
    );
    let session = pair.client.begin().expect("open");
    let (at_client, at_server) = pair.drive();
    assert!(matches!(at_client[..], [Event::SessionBegun(id)] if id == session));
    assert!(matches!(at_server[..], [Event::SessionBegun(_)]));
    (pair, session)
}

fn link(name: &'static str, is_sender: bool) -> NewLink {
    NewLink {
        name: Str::from_static(name),
        is_sender,
        source: Some(source("q1")),
        target: Some(target("q1")),
        snd_settle_mode: SndSettleMode::Mixed,
        rcv_settle_mode: RcvSettleMode::First,
        max_message_size: None,
        unsettled: None,
        properties: None,
    }
}

fn attach(pair: &mut Pair, session: SessionId, new: NewLink) -> (LinkId, LinkId) {
    let ours = pair.client.attach(session, new).expect("begun");
    let (at_client, at_server) = pair.drive();
    assert!(
        matches!(at_client[..], [Event::LinkAccepted { link, .. }] if link == ours),
        "{at_client:?}"
    );
    let [Event::Attached { link: theirs, .. }] = at_server[..] else {
        panic!("{at_server:?}")
    };
    (ours, theirs)
}

#[test]
fn every_way_in() {
    for credentials in [
        None,
        Some(Credentials::Anonymous),
        Some(Credentials::Plain {
            user: "guest".into(),
            password: "guest".into(),
        }),
    ] {
        let (pair, _) = begun(client(credentials), config());
        assert_eq!(
            pair.client
                .remote_open()
                .expect("open")
                .container_id
                .as_str(),
            "broker"
        );
        assert_eq!(
            pair.server
                .remote_open()
                .expect("open")
                .container_id
                .as_str(),
            "client"
        );
    }
}

#[test]
fn a_client_that_asks_for_what_is_not_there() {
    let mut no_sasl = config();
    no_sasl.sasl.mechanisms.clear();
    let mut pair = Pair::new(client(Some(Credentials::Anonymous)), no_sasl);
    pair.client.open();
    let (at_client, _) = pair.drive();
    assert!(
        matches!(at_client[..], [Event::Closed { .. }]),
        "{at_client:?}"
    );
    assert_eq!(pair.client.begin(), Err(UsageError::NotOpen));

    let mut only_plain = config();
    only_plain.sasl.mechanisms.remove(0);
    let mut pair = Pair::new(client(Some(Credentials::Anonymous)), only_plain);
    pair.client.open();
    let (at_client, _) = pair.drive();
    assert!(
        matches!(at_client[..], [Event::Closed { .. }]),
        "{at_client:?}"
    );
}

fn pattern(size: usize) -> Bytes {
    (0..size)
        .map(|at| (at % 251) as u8)
        .collect::<Vec<u8>>()
        .into()
}

/// The state that puts a message into a transaction comes with the first frame, however many there are.
#[test]
fn messages_of_a_transaction_name_it() {
    let id = Bytes::from_static(&[7; 32]);
    let small = |config: Config| Config {
        frame_size_max: 512,
        incoming_window: 2,
        ..config
    };
    let (mut pair, session) = begun(small(client(None)), small(config()));
    let (sender, receiver) = attach(&mut pair, session, link("s", true));
    pair.server.grant(receiver, 10).expect("receiver");
    pair.drive();
    // At once, of many frames, and behind a closed window.
    let payloads = [3, 2_000, 400, 1].map(pattern);
    for (token, payload) in payloads.iter().enumerate() {
        let out = delivery(token as u64, payload);
        let sent = match token {
            2 => pair.client.send(sender, out),
            _ => pair.client.send_within(sender, out, &id),
        };
        sent.expect("credit");
    }
    let long = Bytes::from_static(&[7; 33]);
    let out = delivery(9, &payloads[0]);
    let refused = pair.client.send_within(sender, out, &long);
    assert_eq!(refused, Err(UsageError::TooLarge));
    let (_, at_server) = pair.drive();
    assert_eq!(at_server.len(), payloads.len());
    for (token, (event, wanted)) in at_server.iter().zip(&payloads).enumerate() {
        let Event::Delivery { payload, state, .. } = event else {
            panic!("{event:?}")
        };
        assert_eq!(payload, wanted);
        let within = (token != 2).then(|| DeliveryState::Transactional {
            txn_id: id.clone(),
            outcome: None,
        });
        assert_eq!(state.as_deref(), within.as_ref());
    }
}

/// Messages of all sizes through frames of all sizes, with ids that wrap; settled in the first mode.
#[test]
fn messages_arrive_whole_and_in_order() {
    for frame_size_max in [512, 600, 4_096, 131_072] {
        for first_outgoing_id in [0, u32::MAX - 7] {
            let small = |config: Config| Config {
                frame_size_max,
                first_outgoing_id,
                incoming_window: 8,
                ..config
            };
            let (mut pair, session) = begun(small(client(None)), small(config()));
            let (sender, receiver) = attach(&mut pair, session, link("s", true));
            let sizes = [
                0, 1, 100, 400, 480, 512, 1_000, 5_000, 20_000, 70_000, 300_000, 3,
            ];
            pair.server.grant(receiver, 100).expect("receiver");
            pair.drive();
            assert_eq!(pair.client.credit(sender), 100);
            let payloads = sizes.map(pattern);
            for (token, payload) in payloads.iter().enumerate() {
                let out = super::OutgoingDelivery {
                    head: b"head",
                    ..delivery(token as u64, payload)
                };
                pair.client.send(sender, out).expect("credit");
            }
            let (at_client, at_server) = pair.drive();
            assert!(
                at_client
                    .iter()
                    .all(|event| matches!(event, Event::Flow { .. })),
                "{at_client:?}"
            );
            assert_eq!(at_server.len(), sizes.len());
            for (event, wanted) in at_server.iter().zip(&payloads) {
                let Event::Delivery {
                    delivery, payload, ..
                } = event
                else {
                    panic!("{event:?}")
                };
                assert_eq!((&payload[..4], &payload[4..]), (&b"head"[..], &wanted[..]));
                pair.server
                    .settle(*delivery, DeliveryState::Accepted, true)
                    .expect("unsettled");
            }
            let (at_client, _) = pair.drive();
            let tokens: Vec<u64> = at_client
                .iter()
                .filter_map(|event| match event {
                    Event::Outcome {
                        token,
                        settled: true,
                        state: Some(DeliveryState::Accepted),
                        ..
                    } => Some(*token),
                    _ => None,
                })
                .collect();
            assert_eq!(tokens, (0..sizes.len() as u64).collect::<Vec<_>>());
            assert_eq!(pair.client.unsent_bytes() + pair.server.unsent_bytes(), 0);
        }
    }
}

/// The other direction, drained, in the second mode.
#[test]
fn receiving_with_drain_and_second_mode() {
    let (mut pair, session) = begun(client(None), config());
    let new = NewLink {
        rcv_settle_mode: RcvSettleMode::Second,
        ..link("r", false)
    };
    let (receiver, sender) = attach(&mut pair, session, new);
    pair.client.grant_drain(receiver, 10).expect("receiver");
    let (_, at_server) = pair.drive();
    assert!(
        matches!(
            at_server[..],
            [Event::Flow {
                credit: 10,
                drain: true,
                ..
            }]
        ),
        "{at_server:?}"
    );
    let payload = Bytes::from_static(b"x");
    pair.server
        .send(sender, delivery(7, &payload))
        .expect("credit");
    pair.server.drained(sender).expect("sender");
    let (at_client, _) = pair.drive();
    let [
        Event::Delivery { delivery: id, .. },
        Event::Flow {
            credit: 0,
            drain: true,
            ..
        },
    ] = at_client[..]
    else {
        panic!("{at_client:?}");
    };
    pair.client
        .settle(id, DeliveryState::Accepted, false)
        .expect("unsettled");
    let (_, at_server) = pair.drive();
    assert!(matches!(
        at_server[..],
        [Event::Outcome {
            token: 7,
            settled: false,
            ..
        }]
    ));
    pair.server
        .settle_outgoing(sender, 7, Some(DeliveryState::Accepted))
        .expect("unsettled");
    let (at_client, _) = pair.drive();
    assert!(matches!(at_client[..], [Event::IncomingSettled { delivery, .. }] if delivery == id));
}

#[test]
fn client_ends_and_closes() {
    let (mut pair, session) = begun(client(None), config());
    let (sender, theirs) = attach(&mut pair, session, link("s", true));
    pair.client.detach(sender, true, None).expect("attached");
    let (at_client, at_server) = pair.drive();
    assert!(matches!(at_client[..], [Event::LinkClosed { .. }]));
    assert!(
        matches!(at_server[..], [Event::LinkClosed { link, closed: true, .. }] if link == theirs)
    );
    pair.client.end(session, None).expect("begun");
    let (at_client, at_server) = pair.drive();
    assert!(matches!(at_client[..], [Event::SessionEnded { .. }]));
    assert!(matches!(at_server[..], [Event::SessionEnded { .. }]));
    let again = pair.client.begin().expect("open");
    assert_ne!(again, session);
    pair.drive();
    pair.client.close(None);
    pair.drive();
    assert!(pair.client.is_done() && pair.server.is_done());
}

/// Channels of ours above what the peer takes are not used.
#[test]
fn sessions_are_bounded_by_both() {
    let (mut pair, _) = begun(
        client(None),
        Config {
            channel_max: 2,
            ..config()
        },
    );
    pair.client.begin().expect("second");
    pair.client.begin().expect("third");
    assert_eq!(pair.client.begin(), Err(UsageError::Exhausted));
}
