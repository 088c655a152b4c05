//! Instruction counts of whole reads: bytes of a socket with 64 frames in, events out; and 64 messages out.
//!
//! `docs/performance.md` says how to run this. Divide by 64 for the cost of a frame.

#![allow(
    missing_docs,
    reason = "the macros make public items that nobody reads"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark is a program, and ends as one"
)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gungraun::{library_benchmark, library_benchmark_group, main};
use qq_proto_amqp::connection::{
    Config, Connection, Event, LinkId, LinkReply, OutgoingDelivery, Side,
};
use qq_proto_amqp::frame::{PROTOCOL_AMQP, TYPE_AMQP, encode_frame};
use qq_proto_amqp::performative::{
    Attach, Begin, DeliveryState, Disposition, Flow, Open, Performative, Role, Source, Target,
    TargetKind, Transfer,
};
use qq_proto_amqp::types::{DeliveryTag, Str};

const FRAMES: u32 = 64;
const NOW: Duration = Duration::ZERO;

/// A server with one link, past everything but its traffic.
struct Bench {
    connection: Connection,
    link: LinkId,
    input: BytesMut,
    events: Vec<Event>,
    output: VecDeque<Bytes>,
}

fn put(buf: &mut BytesMut, performative: &Performative, payload: &[u8]) {
    encode_frame(buf, 0, TYPE_AMQP, |body| {
        performative.encode(body);
        body.extend_from_slice(payload);
    });
}

impl Bench {
    fn new(role: Role) -> Self {
        let mut connection = Connection::new(Side::Server, Config::default(), NOW);
        let mut input = BytesMut::from(&PROTOCOL_AMQP[..]);
        let open = Open {
            container_id: Str::from_static("client"),
            ..Open::default()
        };
        let begin = Begin {
            incoming_window: 2_048,
            outgoing_window: 2_048,
            ..Begin::default()
        };
        let attach = Attach {
            name: Str::from_static("link"),
            role,
            source: Some(Source::default()),
            target: Some(TargetKind::Target(Target::default())),
            ..Attach::default()
        };
        let credit = Flow {
            incoming_window: 2_048,
            outgoing_window: 2_048,
            handle: Some(0),
            delivery_count: Some(0),
            link_credit: Some(1_000),
            ..Flow::default()
        };
        put(&mut input, &Performative::Open(Box::new(open)), b"");
        put(&mut input, &Performative::Begin(Box::new(begin)), b"");
        put(&mut input, &Performative::Attach(Box::new(attach)), b"");
        put(&mut input, &Performative::Flow(credit), b"");
        connection.handle_input(NOW, &mut input);
        let mut link = None;
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Opened => connection.open(),
                Event::Attached {
                    link: asked,
                    attach,
                    ..
                } => {
                    let reply = LinkReply {
                        source: attach.source,
                        target: attach.target,
                        ..LinkReply::default()
                    };
                    connection.accept_link(asked, reply).expect("asked");
                    if role == Role::Sender {
                        connection.grant(asked, 1_000).expect("accepted");
                    }
                    link = Some(asked);
                }
                _ => {}
            }
        }
        let mut bench = Self {
            connection,
            link: link.expect("attached"),
            input: BytesMut::with_capacity(64 * 1_024),
            events: Vec::with_capacity(FRAMES as usize),
            output: VecDeque::with_capacity(FRAMES as usize),
        };
        bench.transmit();
        bench
    }

    fn transmit(&mut self) {
        while self
            .connection
            .poll_transmit(NOW, &mut self.output, 64 * 1_024)
            > 0
        {}
    }

    fn send(&mut self) {
        let payload = Bytes::from_static(&[b'x'; 100]);
        for token in 0..u64::from(FRAMES) {
            let out = OutgoingDelivery {
                tag: DeliveryTag::new(&token.to_be_bytes()).unwrap_or_default(),
                token,
                settled: false,
                message_format: 0,
                head: &[],
                payload: &payload,
                batchable: false,
            };
            self.connection.send(self.link, out).expect("credit");
        }
        self.transmit();
    }
}

/// 64 transfers of 100 bytes each wait in the buffer.
fn with_transfers() -> Bench {
    let mut bench = Bench::new(Role::Sender);
    for id in 0..FRAMES {
        let transfer = Transfer {
            delivery_id: Some(id),
            delivery_tag: DeliveryTag::new(&id.to_be_bytes()),
            message_format: Some(0),
            settled: Some(false),
            ..Transfer::default()
        };
        put(
            &mut bench.input,
            &Performative::Transfer(transfer),
            &[b'x'; 100],
        );
    }
    bench
}

/// 64 deliveries are out, 64 dispositions wait in the buffer.
fn with_dispositions() -> Bench {
    let mut bench = Bench::new(Role::Receiver);
    bench.send();
    bench.output.clear();
    for id in 0..FRAMES {
        let disposition = Disposition {
            role: Role::Receiver,
            first: id,
            last: None,
            settled: true,
            state: Some(DeliveryState::Accepted),
            batchable: false,
        };
        put(
            &mut bench.input,
            &Performative::Disposition(disposition),
            b"",
        );
    }
    bench
}

/// The consumer has credit, 64 messages are to go out.
fn with_credit() -> Bench {
    let mut bench = Bench::new(Role::Receiver);
    bench.output.clear();
    bench
}

#[library_benchmark]
#[bench::transfers(with_transfers())]
#[bench::dispositions(with_dispositions())]
fn read(mut bench: Bench) -> Bench {
    bench
        .connection
        .handle_input(NOW, black_box(&mut bench.input));
    while let Some(event) = bench.connection.poll_event() {
        bench.events.push(event);
    }
    assert_eq!(bench.events.len(), FRAMES as usize);
    bench
}

#[library_benchmark]
#[bench::transfers(with_credit())]
fn write(mut bench: Bench) -> Bench {
    bench.send();
    bench
}

library_benchmark_group!(name = connection, benchmarks = [read, write]);

main!(library_benchmark_groups = connection);
