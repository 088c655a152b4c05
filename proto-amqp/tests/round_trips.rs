//! Performatives of any content: what is written is read again, and nothing that a peer sends does harm.

mod support;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use qq_proto_amqp::performative::{
    AmqpError, Attach, Close, Coordinator, DeliveryState, Detach, Disposition, End, Flow, Modified,
    Open, Performative, RcvSettleMode, Role, SndSettleMode, Source, Target, TargetKind, Transfer,
};
use qq_proto_amqp::types::{DeliveryTag, Described, Map, Symbol, Value};
use support::{any_bytes, any_str, any_symbol, any_value, sym};

fn encode(performative: &Performative) -> Bytes {
    let mut buf = BytesMut::new();
    performative.encode(&mut buf);
    buf.freeze()
}

fn any_map() -> impl Strategy<Value = Option<Map>> {
    prop::option::of(prop::collection::vec(
        (any_symbol().prop_map(Value::Symbol), any_value()),
        0..3,
    ))
}

fn any_symbols() -> impl Strategy<Value = Vec<Symbol>> {
    prop::collection::vec(any_symbol(), 0..4)
}

fn any_error() -> impl Strategy<Value = Option<Box<AmqpError>>> {
    let error = (any_symbol(), prop::option::of(any_str()), any_map());
    prop::option::of(error.prop_map(|(condition, description, info)| {
        Box::new(AmqpError {
            condition,
            description,
            info,
        })
    }))
}

fn any_state() -> impl Strategy<Value = DeliveryState> {
    let leaf = prop_oneof![
        Just(DeliveryState::Accepted),
        Just(DeliveryState::Released),
        any_error().prop_map(DeliveryState::Rejected),
        (any::<u32>(), any::<u64>()).prop_map(|(section_number, section_offset)| {
            DeliveryState::Received {
                section_number,
                section_offset,
            }
        }),
        (any::<bool>(), any::<bool>(), any_map()).prop_map(
            |(delivery_failed, undeliverable_here, annotations)| {
                DeliveryState::Modified(Box::new(Modified {
                    delivery_failed,
                    undeliverable_here,
                    message_annotations: annotations,
                }))
            }
        ),
        any_bytes(8).prop_map(|txn_id| DeliveryState::Declared { txn_id }),
        any_value().prop_map(|value| DeliveryState::Other(Box::new(Described {
            descriptor: sym("x:state"),
            value
        }))),
    ];
    leaf.prop_recursive(2, 3, 1, |inner| {
        (any_bytes(8), prop::option::of(inner.prop_map(Box::new)))
            .prop_map(|(txn_id, outcome)| DeliveryState::Transactional { txn_id, outcome })
    })
}

fn any_tag() -> impl Strategy<Value = Option<DeliveryTag>> {
    prop::option::of(
        any_bytes(32).prop_map(|tag| DeliveryTag::new(&tag).expect("32 bytes at most")),
    )
}

fn any_u32() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), 0..300_u32, any::<u32>()]
}

fn any_mode() -> impl Strategy<Value = RcvSettleMode> {
    prop_oneof![Just(RcvSettleMode::First), Just(RcvSettleMode::Second)]
}

fn any_transfer() -> impl Strategy<Value = Performative> {
    let ids = (
        any_u32(),
        prop::option::of(any_u32()),
        any_tag(),
        prop::option::of(any_u32()),
    );
    let flags = (
        prop::option::of(any::<bool>()),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    );
    (
        ids,
        flags,
        prop::option::of(any_mode()),
        prop::option::weighted(0.2, any_state().prop_map(Box::new)),
    )
        .prop_map(|(ids, flags, rcv_settle_mode, state)| {
            let (handle, delivery_id, delivery_tag, message_format) = ids;
            let (settled, more, resume, aborted, batchable) = flags;
            Performative::Transfer(Transfer {
                handle,
                delivery_id,
                delivery_tag,
                message_format,
                settled,
                more,
                rcv_settle_mode,
                state,
                resume,
                aborted,
                batchable,
            })
        })
}

fn any_source() -> impl Strategy<Value = Source> {
    let plain = (
        prop::option::of(any_str().prop_map(Value::Str)),
        0..3_u32,
        any_symbol(),
        any_u32(),
        any::<bool>(),
    );
    let rest = (
        any_map(),
        prop::option::of(any_symbol()),
        any_map(),
        prop::option::of(any_state()),
        any_symbols(),
    );
    (plain, rest, any_symbols()).prop_map(|(plain, rest, capabilities)| {
        let (address, durable, expiry_policy, timeout, dynamic) = plain;
        let (dynamic_node_properties, distribution_mode, filter, default_outcome, outcomes) = rest;
        Source {
            address,
            durable,
            expiry_policy,
            timeout,
            dynamic,
            dynamic_node_properties,
            distribution_mode,
            filter,
            default_outcome,
            outcomes,
            capabilities,
        }
    })
}

fn any_attach() -> impl Strategy<Value = Performative> {
    let target = prop_oneof![
        any_symbols()
            .prop_map(|capabilities| TargetKind::Coordinator(Coordinator { capabilities })),
        (any_str(), any_symbols()).prop_map(|(address, capabilities)| TargetKind::Target(Target {
            address: Some(Value::Str(address)),
            capabilities,
            ..Target::default()
        })),
    ];
    let numbers = (
        any_u32(),
        prop::option::of(any_u32()),
        prop::option::of(any::<u64>()),
    );
    (
        any_str(),
        numbers,
        any_mode(),
        prop::option::of(any_source()),
        prop::option::of(target),
        any_map(),
    )
        .prop_map(
            |(
                name,
                (handle, initial_delivery_count, max_message_size),
                rcv_settle_mode,
                source,
                target,
                properties,
            )| {
                Performative::Attach(Box::new(Attach {
                    name,
                    handle,
                    role: Role::Receiver,
                    snd_settle_mode: SndSettleMode::Settled,
                    rcv_settle_mode,
                    source,
                    target,
                    initial_delivery_count,
                    max_message_size,
                    properties,
                    ..Attach::default()
                }))
            },
        )
}

fn any_performative() -> impl Strategy<Value = Performative> {
    let open = (any_str(), any_u32(), any::<u16>(), any_symbols(), any_map());
    let flow = (
        [any_u32(), any_u32(), any_u32()],
        prop::array::uniform5(prop::option::of(any_u32())),
        any::<bool>(),
    );
    prop_oneof![
        4 => any_transfer(),
        2 => any_attach(),
        2 => (any::<bool>(), any_u32(), prop::option::of(any_u32()), any::<bool>(), prop::option::of(any_state()))
            .prop_map(|(is_receiver, first, last, settled, state)| Performative::Disposition(Disposition {
                role: if is_receiver { Role::Receiver } else { Role::Sender },
                first,
                last,
                settled,
                state,
                batchable: !settled,
            })),
        2 => flow.prop_map(|(needed, optional, drain)| {
            let [incoming_window, next_outgoing_id, outgoing_window] = needed;
            let [next_incoming_id, handle, delivery_count, link_credit, available] = optional;
            Performative::Flow(Flow {
                next_incoming_id,
                incoming_window,
                next_outgoing_id,
                outgoing_window,
                handle,
                delivery_count,
                link_credit,
                available,
                drain,
                echo: !drain,
                properties: None,
            })
        }),
        1 => open.prop_map(|(container_id, max_frame_size, channel_max, capabilities, properties)| {
            Performative::Open(Box::new(Open {
                container_id,
                max_frame_size,
                channel_max,
                offered_capabilities: capabilities,
                properties,
                ..Open::default()
            }))
        }),
        1 => (any_u32(), any::<bool>(), any_error())
            .prop_map(|(handle, closed, error)| Performative::Detach(Detach { handle, closed, error })),
        1 => any_error().prop_map(|error| Performative::End(End { error })),
        1 => any_error().prop_map(|error| Performative::Close(Close { error })),
    ]
}

proptest! {
    #[test]
    fn any_performative_round_trips(performative in any_performative()) {
        let bytes = encode(&performative);
        prop_assert_eq!(Performative::decode(&bytes), Ok((performative, bytes.len())));
    }

    #[test]
    fn every_cut_of_a_performative_is_refused(performative in any_performative()) {
        let bytes = encode(&performative);
        for len in 0..bytes.len() {
            prop_assert!(Performative::decode(&bytes.slice(..len)).is_err(), "cut to {}", len);
        }
    }

    #[test]
    fn no_bytes_harm(bytes in prop::collection::vec(any::<u8>(), 0..64), descriptor in 0x10..0x19_u8) {
        let bytes: Bytes = [&[0x00, 0x53, descriptor, 0xc0][..], &bytes].concat().into();
        if let Ok((performative, used)) = Performative::decode(&bytes) {
            prop_assert!(used <= bytes.len());
            let again = encode(&performative);
            prop_assert_eq!(Performative::decode(&again), Ok((performative, again.len())));
        }
    }
}
