//! Protocol headers and SASL: SA-01 to SA-07, FR-12, pipelined input at every split.

use std::string::ToString;
use std::vec::Vec;

use super::{BEGIN, HDR, OPEN, Peer, SASL, SND, config, hex};
use crate::connection::{Config, Event, SaslCode};

const SASL_HDR: &str = "414d515003010000";

fn sasl_frames(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut at = 0;
    while at + 8 <= bytes.len() && &bytes[at..at + 4] != b"AMQP" {
        let size = u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
        frames.push(bytes[at + 8..at + size].to_vec());
        at += size;
    }
    frames
}

fn refused(input: &str, config: Config) -> Peer {
    let mut peer = Peer::new(config);
    peer.feed(input);
    peer
}

/// Part 2, 2.2: an unparsable header is answered with a supported one, then the connection closes.
#[test]
fn fr_12_foreign_bytes_get_a_header_and_a_close() {
    let mut required = config();
    required.sasl.required = true;
    let ff = "ff".repeat(4096);
    for input in [
        "474554202f20485454502f312e310d0a486f73743a20780d0a0d0a",
        "16030100c0010000bc0303",
        "68656c6c6f0d0a0d0a",
        ff.as_str(),
        "474554",
        "414d515002010000",
        "414d515000000901",
    ] {
        for (config, wanted) in [(config(), HDR), (required.clone(), SASL_HDR)] {
            let mut peer = refused(input, config);
            assert_eq!(peer.raw(), hex(wanted), "{input}");
            assert!(matches!(peer.take_events()[..], [Event::Closed { .. }]));
            assert!(
                !peer.conn.is_done(),
                "lingers so that the header can be read"
            );
            peer.pass(std::time::Duration::from_secs(1));
            assert!(peer.conn.is_done());
        }
    }
}

#[test]
fn bare_amqp_header_needs_sasl_not_to_be_required() {
    let mut required = config();
    required.sasl.required = true;
    assert_eq!(refused(HDR, required).raw(), hex(SASL_HDR));
    assert_eq!(refused(HDR, config()).raw(), hex(HDR));
}

/// Part 5, 5.3.2: a mechanism that was not offered fails; nothing falls through to ANONYMOUS.
#[test]
fn sa_01_mechanism_not_offered() {
    let mut only_anonymous = config();
    only_anonymous.sasl.mechanisms.truncate(1);
    for init in [
        "0000002302010000005341c01602a305504c41494ea00c006775657374006775657374",
        "0000001602010000005341c00901a306582d4e4f5045",
        "0000001002010000005341c00301a300",
    ] {
        let mut peer = refused(&(SASL_HDR.to_string() + init), only_anonymous.clone());
        let raw = peer.raw();
        let frames = sasl_frames(&raw[8..]);
        assert_eq!(frames.len(), 2, "mechanisms and outcome");
        assert_eq!(frames[1], hex("005344c003015001"), "outcome with code auth");
        assert!(
            matches!(peer.take_events()[..], [Event::Closed { .. }]),
            "the embedder is not asked"
        );
    }
}

#[test]
fn sa_02_refused_credentials_get_an_outcome() {
    let mut peer = Peer::new(config());
    peer.is_friendly = false;
    peer.feed(
        "414d5150030100000000002302010000005341c01602a305504c41494ea00c0067756573740077726f6e67",
    );
    match &peer.take_events()[..] {
        [
            Event::SaslInit {
                mechanism,
                response,
                ..
            },
        ] => {
            assert_eq!(mechanism.as_str(), "PLAIN");
            assert_eq!(&response[..], b"\0guest\0wrong");
        }
        other => panic!("{other:?}"),
    }
    peer.raw();
    peer.conn.sasl_outcome(SaslCode::Auth);
    peer.settle_down();
    assert_eq!(peer.raw(), hex("0000001002010000005344c003015001"));
    assert!(matches!(peer.take_events()[..], [Event::Closed { .. }]));
    peer.feed(HDR).feed(OPEN);
    assert!(peer.raw().is_empty(), "no way in");
}

/// Part 5, 5.3.1 to 5.3.3.
#[test]
fn sa_06_frames_in_the_wrong_state() {
    let twice = SASL[16..].to_string() + &SASL[16..];
    for frame in [
        "0000000802010000",
        twice.as_str(),
        "0000001102010000005343c00401a00178",
        OPEN,
        "0000001502010000005340c00801a305504c41494e",
        &(SASL[16..].to_string() + OPEN),
    ] {
        let mut peer = refused(&(SASL_HDR.to_string() + frame), config());
        let events = peer.take_events();
        assert!(
            matches!(events.last(), Some(Event::Closed { .. })),
            "{frame}: {events:?}"
        );
        assert!(
            !events.iter().any(|event| matches!(event, Event::Opened)),
            "{frame}"
        );
    }
}

/// The whole handshake in one write, and split in two at each byte.
#[test]
fn sa_07_nothing_is_lost_at_the_layer_switch() {
    let all = hex(&[SASL, HDR, OPEN, BEGIN, SND].concat());
    for split in 0..=all.len() {
        let mut peer = Peer::new(config());
        peer.feed_bytes(&all[..split]).feed_bytes(&all[split..]);
        let raw = peer.raw();
        let events = peer.take_events();
        let kinds: Vec<_> = events.iter().map(core::mem::discriminant).collect();
        assert!(
            matches!(
                events[..],
                [
                    Event::SaslInit { .. },
                    Event::Opened,
                    Event::SessionBegun(_),
                    Event::Attached { .. }
                ]
            ),
            "split at {split}: {kinds:?}"
        );
        // SASL header, mechanisms, outcome, AMQP header, then open, begin, attach.
        let amqp = raw
            .windows(8)
            .position(|bytes| bytes == hex(HDR))
            .expect("AMQP header");
        assert_eq!(
            super::frames_of(&raw[amqp + 8..]).len(),
            3,
            "split at {split}"
        );
    }
}

/// The same byte by byte, with a decision that comes late.
#[test]
fn held_input_is_taken_up_after_a_late_decision() {
    let mut peer = Peer::new(config());
    peer.is_friendly = false;
    for byte in hex(&[SASL, HDR, OPEN, BEGIN].concat()) {
        peer.feed_bytes(&[byte]);
    }
    assert!(matches!(peer.take_events()[..], [Event::SaslInit { .. }]));
    peer.conn.sasl_outcome(SaslCode::Ok);
    peer.settle_down();
    assert!(matches!(peer.take_events()[..], [Event::Opened]));
    peer.conn.open();
    peer.settle_down();
    assert!(matches!(peer.take_events()[..], [Event::SessionBegun(_)]));
}

/// An undecided peer cannot fill memory: reading stops.
#[test]
fn held_input_is_bounded_by_wants_read() {
    let mut peer = Peer::new(config());
    peer.is_friendly = false;
    peer.feed(SASL);
    peer.feed_bytes(&[0; 8 * 1024 - 1]);
    assert!(peer.conn.wants_read());
    peer.feed_bytes(&[0]);
    assert!(!peer.conn.wants_read());
}

#[test]
fn frames_before_open_have_a_smaller_bound() {
    let mut peer = Peer::new(config());
    peer.feed(HDR).feed("0010000002000000");
    peer.skip_header();
    assert_eq!(
        peer.close_condition().as_deref(),
        Some("amqp:connection:framing-error")
    );
}

#[test]
fn refused_open_is_open_then_close() {
    let mut peer = Peer::new(config());
    peer.is_friendly = false;
    peer.feed(HDR).feed(OPEN).feed(BEGIN);
    peer.skip_header();
    let error = crate::connection::violation::Violation::LinkLimit.to_error(&config());
    peer.conn.refuse_open(error);
    let bodies = peer.bodies();
    use crate::performative::Performative;
    assert!(
        matches!(bodies[..], [Performative::Open(_), Performative::Close(_)]),
        "{bodies:?}"
    );
}
