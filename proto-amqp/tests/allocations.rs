//! The frames that a busy broker reads must not allocate: transfer, disposition and flow, in every form that clients
//! send. Allocations of this thread are counted by the allocator itself.

use allocation_counter::measure;
use bytes::{Bytes, BytesMut};
use qq_proto_amqp::performative::{
    Attach, DeliveryState, Disposition, Flow, Performative, RcvSettleMode, Role, Transfer,
};
use qq_proto_amqp::types::{DeliveryTag, Str};

fn encoded(performative: &Performative) -> Bytes {
    let mut buf = BytesMut::new();
    performative.encode(&mut buf);
    buf.freeze()
}

fn bytes_of(hex: &str) -> Bytes {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// Allocations of reading a body and forgetting what was read.
fn cost_of(body: &Bytes) -> u64 {
    let mut kind = None;
    let info = measure(|| {
        let decoded = Performative::decode(body);
        kind = decoded
            .ok()
            .map(|(performative, used)| (std::mem::discriminant(&performative), used));
    });
    assert!(kind.is_some(), "{body:02x?} decodes");
    info.count_total
}

#[test]
fn the_counter_counts() {
    let attach = Performative::Attach(Box::new(Attach {
        name: Str::from_static("link"),
        role: Role::Sender,
        ..Attach::default()
    }));
    assert!(cost_of(&encoded(&attach)) > 0, "an attach is boxed");
}

#[test]
fn transfers_allocate_nothing() {
    let full = Transfer {
        handle: 300,
        delivery_id: Some(u32::MAX),
        delivery_tag: DeliveryTag::new(&[7; 32]),
        message_format: Some(0),
        settled: Some(false),
        more: true,
        rcv_settle_mode: Some(RcvSettleMode::Second),
        state: None,
        resume: true,
        aborted: true,
        batchable: true,
    };
    let least = Transfer::default();
    for transfer in [full, least] {
        assert_eq!(cost_of(&encoded(&Performative::Transfer(transfer))), 0);
    }
    for (what, body) in [
        // handle 0, id 0, tag 00, with 11 bytes of payload behind
        ("short", "005314c007044343a0010043005375a00568656c6c6f"),
        // list32, uint32 everywhere, binary32, booleans as 56 00
        (
            "wide",
            "005314d00000002e0000000670000000007000000000b00000000100700000000056005600",
        ),
        // descriptor as ulong of eight bytes, and as a symbol
        ("ulong", "00800000000000000014c007044343a001004300"),
        (
            "symbol",
            "00a312616d71703a7472616e736665723a6c697374c007044343a0010043",
        ),
    ] {
        let mut body = bytes_of(body).to_vec();
        if what == "wide" {
            // Behind the constructor: size (of what follows it) and count.
            let size = u32::try_from(body.len() - 8).expect("short");
            body[4..8].copy_from_slice(&size.to_be_bytes());
        }
        assert_eq!(cost_of(&Bytes::from(body)), 0, "{what}");
    }
}

#[test]
fn dispositions_without_contents_allocate_nothing() {
    let states = [
        None,
        Some(DeliveryState::Accepted),
        Some(DeliveryState::Released),
        Some(DeliveryState::Rejected(None)),
        Some(DeliveryState::Received {
            section_number: 1,
            section_offset: 1 << 40,
        }),
    ];
    for state in states {
        for last in [None, Some(70_000)] {
            let disposition = Disposition {
                role: Role::Receiver,
                first: 5,
                last,
                settled: last.is_some(),
                state: state.clone(),
                batchable: last.is_none(),
            };
            let body = encoded(&Performative::Disposition(disposition));
            assert_eq!(cost_of(&body), 0, "{state:?}");
        }
    }
    // accepted as a list8 without entries, and with a descriptor of eight bytes
    for body in [
        "005315c00b05414340410053 24c00100",
        "005315c010054143404100800000000000000024 45",
    ] {
        let body = bytes_of(&body.replace(' ', ""));
        assert_eq!(cost_of(&body), 0, "{body:02x?}");
    }
}

#[test]
fn flows_without_properties_allocate_nothing() {
    let session = Flow {
        next_incoming_id: Some(1),
        incoming_window: 2_048,
        next_outgoing_id: 80_000,
        outgoing_window: u32::MAX,
        ..Flow::default()
    };
    let link = Flow {
        handle: Some(3),
        delivery_count: Some(u32::MAX),
        link_credit: Some(100),
        available: Some(0),
        drain: true,
        echo: true,
        ..session.clone()
    };
    for flow in [session, link] {
        assert_eq!(cost_of(&encoded(&Performative::Flow(flow))), 0);
    }
}
