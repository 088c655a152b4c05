//! Instruction counts of the codec, for the frames that a busy broker reads and writes: transfer, disposition, flow,
//! and attach for comparison. Counts under callgrind are the same in every run, so a change shows that a clock would hide.
//!
//! `docs/performance.md` says how to run this.

#![allow(
    missing_docs,
    reason = "the macros make public items that nobody reads"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark is a program, and ends as one"
)]

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use gungraun::{library_benchmark, library_benchmark_group, main};
use qq_proto_amqp::performative::{
    Attach, DeliveryState, Disposition, Flow, Performative, Role, Source, Target, TargetKind,
    Transfer,
};
use qq_proto_amqp::types::{DecodeError, DeliveryTag, Str, Value};

fn transfer() -> Performative {
    Performative::Transfer(Transfer {
        handle: 1,
        delivery_id: Some(70_000),
        delivery_tag: DeliveryTag::new(b"12345678"),
        message_format: Some(0),
        settled: Some(false),
        ..Transfer::default()
    })
}

/// As clients write it that say all that they have to say (fe2o3-amqp).
fn wordy_transfer() -> Performative {
    let Performative::Transfer(transfer) = transfer() else {
        unreachable!("a transfer is a transfer")
    };
    Performative::Transfer(Transfer {
        batchable: true,
        ..transfer
    })
}

fn disposition() -> Performative {
    Performative::Disposition(Disposition {
        role: Role::Receiver,
        first: 70_000,
        last: Some(70_100),
        settled: true,
        state: Some(DeliveryState::Accepted),
        batchable: false,
    })
}

fn flow() -> Performative {
    Performative::Flow(Flow {
        next_incoming_id: Some(70_000),
        incoming_window: 512,
        next_outgoing_id: 80_000,
        outgoing_window: i32::MAX as u32,
        handle: Some(1),
        delivery_count: Some(70_000),
        link_credit: Some(256),
        ..Flow::default()
    })
}

fn attach() -> Performative {
    let address = Some(Value::Str(Str::from_static("/queues/orders")));
    Performative::Attach(Box::new(Attach {
        name: Str::from_static("container-orders-sender"),
        handle: 1,
        source: Some(Source::default()),
        target: Some(TargetKind::Target(Target {
            address,
            ..Target::default()
        })),
        initial_delivery_count: Some(0),
        max_message_size: Some(16 << 20),
        ..Attach::default()
    }))
}

/// A frame's body, with the 100 bytes of a message behind a transfer.
fn encoded(performative: &Performative) -> Bytes {
    let mut buf = BytesMut::new();
    performative.encode(&mut buf);
    if matches!(performative, Performative::Transfer(_)) {
        buf.extend_from_slice(&[b'x'; 100]);
    }
    buf.freeze()
}

fn with_room(performative: Performative) -> (Performative, BytesMut) {
    (performative, BytesMut::with_capacity(1_024))
}

#[library_benchmark]
#[bench::transfer(encoded(&transfer()))]
#[bench::wordy_transfer(encoded(&wordy_transfer()))]
#[bench::disposition(encoded(&disposition()))]
#[bench::flow(encoded(&flow()))]
#[bench::attach(encoded(&attach()))]
fn decode(body: Bytes) -> (Bytes, Result<(Performative, usize), DecodeError>) {
    // The buffer goes out with the result, so that freeing it is not counted.
    let decoded = Performative::decode(black_box(&body));
    (body, decoded)
}

#[library_benchmark]
#[bench::transfer(with_room(transfer()))]
#[bench::disposition(with_room(disposition()))]
#[bench::flow(with_room(flow()))]
#[bench::attach(with_room(attach()))]
fn encode((performative, mut buf): (Performative, BytesMut)) -> (Performative, BytesMut) {
    black_box(&performative).encode(&mut buf);
    (performative, buf)
}

library_benchmark_group!(name = codec, benchmarks = [decode, encode]);

main!(library_benchmark_groups = codec);
