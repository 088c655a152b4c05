//! A message that was published by one protocol and is consumed by the other has every field that both know, whatever
//! is in it. Two client machines talk to one node; what is expected is worked out here, not by the code under test.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use qq_core::broker::{Broker, BrokerConfig, Now, QueueSpec};
use qq_core::face::amqp::{AmqpConfig, AmqpFace, TxnLimits};
use qq_core::face::binary::{BinaryConfig, BinaryFace};
use qq_core::face::{LoginAnswer, PeerInfo};
use qq_core::node::{Node, Output};
use qq_core::store::StoreEvent;
use qq_core::vocab::ConnId;
use qq_proto_amqp::connection as amqp;
use qq_proto_amqp::performative::{
    DeliveryState, RcvSettleMode, SndSettleMode, Source, Target, TargetKind,
};
use qq_proto_amqp::section::{Header, Properties, Sections, encode_message_annotations};
use qq_proto_amqp::types::{DeliveryTag, Described, Map, Str, Symbol, Value};
use qq_proto_binary::connection as binary;
use qq_proto_binary::message::{
    ConsumeRequest, Message, NackRequest, PublishRequest, SchemaRegisterRequest,
};
use qq_proto_binary::request::Request;

const WALL_MS: i64 = 1_764_460_800_000;
const AMQP: ConnId = ConnId(0);
const BINARY: ConnId = ConnId(1);

/// A node with one queue, and a client of each protocol.
struct Bench {
    node: Node,
    now: Now,
    amqp: amqp::Connection,
    binary: binary::Connection,
    amqp_sent: BytesMut,
    binary_sent: BytesMut,
    /// What the node wrote and the clients have not taken: the beginning of a frame.
    amqp_got: BytesMut,
    binary_got: BytesMut,
}

impl Bench {
    fn new() -> Self {
        let now = Now {
            mono: Duration::ZERO,
            wall_ms: WALL_MS,
        };
        let mut broker = Broker::new(BrokerConfig {
            queues: vec![QueueSpec::new("q")],
            ..BrokerConfig::default()
        });
        broker.recovered(now);
        let mut node = Node::new(broker);
        let amqp_config = AmqpConfig {
            connection: amqp::Config::default(),
            credit_max: 16,
            permit_slice: 16,
            unanswered_max: 64,
            unanswered_bytes_max: 1 << 20,
            txns: TxnLimits::default(),
            senders_second: false,
            queue_defaults: QueueSpec::default(),
            authenticate: Arc::new(|_| LoginAnswer::Accepted),
        };
        let binary_config = BinaryConfig {
            connection: binary::Config::default(),
            permit_slice: 16,
            unanswered_max: 64,
            unanswered_bytes_max: 1 << 20,
            consumers_max: 4,
            prefetch_max: 100,
            member_timeout_ms: 10_000,
            lock_timeout_ms: 30_000,
            queue_spec: QueueSpec::new(""),
            authenticate: Arc::new(|_| LoginAnswer::Accepted),
            seed: 1,
        };
        let peer = PeerInfo::default();
        let face = AmqpFace::new(now, peer.clone(), Arc::new(amqp_config));
        node.connect(now, AMQP, Box::new(face));
        let face = BinaryFace::new(now, peer, 1, Arc::new(binary_config));
        node.connect(now, BINARY, Box::new(face));
        let config = amqp::Config {
            container_id: Str::from_static("client"),
            ..amqp::Config::default()
        };
        let mut client = amqp::Connection::new(amqp::Side::Client, config, now.mono);
        client.open();
        let mut bench = Self {
            node,
            now,
            amqp: client,
            binary: binary::Connection::new(
                binary::Side::Client,
                binary::Config::default(),
                now.mono,
            ),
            amqp_sent: BytesMut::new(),
            binary_sent: BytesMut::new(),
            amqp_got: BytesMut::new(),
            binary_got: BytesMut::new(),
        };
        bench.settle();
        bench
    }

    fn settle(&mut self) {
        loop {
            let mut out: VecDeque<Bytes> = VecDeque::new();
            while self.amqp.poll_transmit(self.now.mono, &mut out, 1 << 16) > 0 {}
            let mut has_moved = !out.is_empty();
            out.drain(..)
                .for_each(|bytes| self.amqp_sent.extend_from_slice(&bytes));
            while self.binary.poll_transmit(self.now.mono, &mut out, 1 << 16) > 0 {}
            has_moved |= !out.is_empty();
            out.drain(..)
                .for_each(|bytes| self.binary_sent.extend_from_slice(&bytes));
            self.node.handle_input(self.now, AMQP, &mut self.amqp_sent);
            self.node
                .handle_input(self.now, BINARY, &mut self.binary_sent);
            while let Some(output) = self.node.poll_output() {
                has_moved = true;
                match output {
                    Output::Transmit { conn: AMQP, bytes } => {
                        self.amqp_got.extend_from_slice(&bytes);
                        self.amqp.handle_input(self.now.mono, &mut self.amqp_got);
                    }
                    Output::Transmit { bytes, .. } => {
                        self.binary_got.extend_from_slice(&bytes);
                        self.binary
                            .handle_input(self.now.mono, &mut self.binary_got);
                    }
                    Output::Persist(batch) => {
                        let event = StoreEvent::Persisted { upto: batch.id };
                        self.node.handle_store(self.now, event);
                    }
                    other => panic!("{other:?}"),
                }
            }
            if !has_moved {
                return;
            }
        }
    }

    fn link(&mut self, is_sender: bool) -> amqp::LinkId {
        let session = self.amqp.begin().expect("open");
        self.settle();
        let address = Some(Value::Str(Str::from_static("q")));
        let link = amqp::NewLink {
            name: Str::from_static("link"),
            is_sender,
            source: Some(Source {
                address: address.clone(),
                ..Source::default()
            }),
            target: Some(TargetKind::Target(Target {
                address,
                ..Target::default()
            })),
            snd_settle_mode: SndSettleMode::Mixed,
            rcv_settle_mode: RcvSettleMode::First,
            max_message_size: None,
            unsettled: None,
            properties: None,
        };
        let link = self.amqp.attach(session, link).expect("attached");
        self.settle();
        link
    }

    fn send_amqp(&mut self, payload: &Bytes) {
        let state = self.state_of_amqp(payload);
        assert_eq!(state, Some(DeliveryState::Accepted));
    }

    /// Sends a message and says what became of it.
    fn state_of_amqp(&mut self, payload: &Bytes) -> Option<DeliveryState> {
        let link = self.link(true);
        let out = amqp::OutgoingDelivery {
            tag: DeliveryTag::new(b"1").expect("short"),
            token: 1,
            settled: false,
            message_format: 0,
            head: &[],
            payload,
            batchable: false,
        };
        self.amqp.send(link, out).expect("credit");
        self.settle();
        std::iter::from_fn(|| self.amqp.poll_event()).find_map(|event| match event {
            amqp::Event::Outcome { state, .. } => state,
            _ => None,
        })
    }

    fn get_amqp(&mut self) -> Bytes {
        let link = self.link(false);
        self.amqp.grant(link, 1).expect("attached");
        self.settle();
        std::iter::from_fn(|| self.amqp.poll_event())
            .find_map(|event| match event {
                amqp::Event::Delivery { payload, .. } => Some(payload),
                _ => None,
            })
            .expect("a message")
    }

    fn ask_binary(&mut self, request: &Request) -> Vec<binary::Event> {
        self.binary.request(request, false).expect("open");
        self.settle();
        std::iter::from_fn(|| self.binary.poll_event()).collect()
    }

    fn get_binary(&mut self) -> Message {
        let request = Request::Consume(ConsumeRequest {
            queue: "q".into(),
            ..ConsumeRequest::default()
        });
        self.ask_binary(&request)
            .into_iter()
            .find_map(|event| match event {
                binary::Event::Delivered(message) => Some(*message),
                _ => None,
            })
            .expect("a message")
    }
}

fn string(text: &str) -> Value {
    Value::Str(Str::from(text))
}

fn section(code: u64, value: Value) -> Bytes {
    let mut buf = BytesMut::new();
    let descriptor = Value::Ulong(code);
    Value::Described(Box::new(Described { descriptor, value })).encode(&mut buf);
    buf.freeze()
}

fn map_of(message: &Bytes, range: Option<&qq_proto_amqp::section::SectionRange>) -> Map {
    let Some(range) = range else {
        return Map::new();
    };
    match Value::decode(&message.slice(range.value.clone())) {
        Ok((Value::Map(map), _)) => map,
        other => panic!("{other:?}"),
    }
}

/// The key by which a queue knows a message.
fn dedup_id_of(message: &Bytes, sections: &Sections) -> Option<Value> {
    let key = Value::Symbol(Symbol::from_static("x-opt-dedup-id"));
    let annotations = map_of(message, sections.message_annotations.as_ref());
    let mut found = annotations.into_iter().filter(|(name, _)| *name == key);
    found.next().map(|(_, value)| value)
}

fn maybe_text() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[a-zA-Z0-9 äß/.-]{1,40}")
}

/// What both protocols know of a message, with texts only.
#[derive(Clone, Debug)]
struct Texts {
    id: Option<String>,
    key: Option<String>,
    reply_to: Option<String>,
    correlation_id: Option<String>,
    headers: BTreeMap<String, String>,
    payload: Vec<u8>,
}

fn texts() -> impl Strategy<Value = Texts> {
    let payload = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..300),
        1 => prop::collection::vec(any::<u8>(), 60_000..70_000),
    ];
    let headers = prop::collection::btree_map("[a-z]{1,8}", "[a-z ü]{0,20}", 0..6);
    (
        maybe_text(),
        maybe_text(),
        maybe_text(),
        maybe_text(),
        headers,
        payload,
    )
        .prop_map(
            |(id, key, reply_to, correlation_id, headers, payload)| Texts {
                id,
                key,
                reply_to,
                correlation_id,
                headers,
                payload,
            },
        )
}

/// An AMQP value and the text that a header has for it.
fn typed() -> impl Strategy<Value = (Value, String)> {
    prop_oneof![
        any::<bool>().prop_map(|value| (Value::Bool(value), value.to_string())),
        any::<u8>().prop_map(|value| (Value::Ubyte(value), value.to_string())),
        any::<u64>().prop_map(|value| (Value::Ulong(value), value.to_string())),
        any::<i32>().prop_map(|value| (Value::Int(value), value.to_string())),
        any::<i64>().prop_map(|value| (Value::Long(value), value.to_string())),
        any::<i64>().prop_map(|value| (Value::Timestamp(value), value.to_string())),
        (-1000_i16..1000).prop_map(|value| {
            let half = f64::from(value) / 2.0;
            (Value::Double(half.to_bits()), half.to_string())
        }),
        any::<char>().prop_map(|value| (Value::Char(value), value.to_string())),
        Just((Value::Null, String::new())),
        Just((Value::Symbol(Symbol::from_static("sym")), "sym".to_owned())),
        Just((
            Value::Binary(Bytes::from_static(&[0, 0xab, 0xff])),
            "00abff".to_owned()
        )),
        Just((
            Value::Uuid([
                0x12, 0x3e, 0x45, 0x67, 0xe8, 0x9b, 0x12, 0xd3, 0xa4, 0x56, 0x42, 0x66, 0x14, 0x17,
                0x40, 0x00
            ]),
            "123e4567-e89b-12d3-a456-426614174000".to_owned()
        )),
        "[a-z]{0,9}".prop_map(|text| (string(&text), text)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn from_binary_to_amqp(
        texts in texts(),
        priority in prop::option::of(0_u32..10),
        is_transient: bool,
        idempotency in maybe_text(),
        attempts in 0_u32..3,
    ) {
        let mut bench = Bench::new();
        let mut headers = texts.headers.clone();
        headers.extend(texts.reply_to.clone().map(|text| ("reply_to".to_owned(), text)));
        headers.extend(
            texts.correlation_id.clone().map(|text| ("correlation_id".to_owned(), text)),
        );
        let publish = PublishRequest {
            queue: "q".into(),
            payload: texts.payload.clone().into(),
            headers,
            message_id: texts.id.clone(),
            ordering_key: texts.key.clone().unwrap_or_default(),
            idempotency_key: idempotency.clone(),
            priority,
            transient: is_transient,
            ..PublishRequest::default()
        };
        bench.ask_binary(&Request::Publish(Box::new(publish)));
        for attempt in 0..attempts {
            // Failed attempts over this protocol count over the other.
            if attempt == 0 {
                bench.get_binary();
            }
            let nack = NackRequest {
                delivery_id: u64::from(attempt) + 1,
                requeue: true,
                ..NackRequest::default()
            };
            bench.ask_binary(&Request::Nack(nack));
        }
        if attempts > 0 {
            // It is held once more; the end of the connection is a failure as well.
            let now = bench.now;
            bench.node.disconnect(now, BINARY);
        }
        let failures = if attempts > 0 { attempts + 1 } else { 0 };
        let message = bench.get_amqp();
        let sections = Sections::scan(&message).expect("a message");
        sections.check_annotations(&message).expect("legal keys");
        prop_assert_eq!(dedup_id_of(&message, &sections), idempotency.as_deref().map(string));
        let header = sections.header(&message).expect("legal").unwrap_or_default();
        prop_assert_eq!(header.durable, !is_transient);
        prop_assert_eq!(header.priority.map(u32::from), priority);
        prop_assert_eq!(header.delivery_count, failures);
        let properties = sections.properties(&message).expect("legal").expect("there");
        match (&texts.id, &properties.message_id) {
            (Some(id), found) => prop_assert_eq!(found, &Some(string(id))),
            (None, Some(Value::Str(made))) => prop_assert_eq!(made.len(), 26),
            (None, found) => prop_assert!(false, "an id is made, not {:?}", found),
        }
        prop_assert_eq!(properties.creation_time, Some(WALL_MS));
        prop_assert_eq!(properties.group_id.as_ref().map(|id| id.as_str()), texts.key.as_deref());
        prop_assert_eq!(properties.reply_to, texts.reply_to.as_deref().map(string));
        prop_assert_eq!(properties.correlation_id, texts.correlation_id.as_deref().map(string));
        let expected: Map = texts
            .headers
            .iter()
            .map(|(name, value)| (string(name), string(value)))
            .collect();
        prop_assert_eq!(map_of(&message, sections.application_properties.as_ref()), expected);
        let body = message.slice(sections.body.range.clone());
        prop_assert_eq!(body, section(0x75, Value::Binary(texts.payload.into())));
    }

    #[test]
    fn from_amqp_to_binary(
        texts in texts(),
        id in prop::option::of(typed()),
        values in prop::collection::btree_map("[A-Z]{1,6}", typed(), 0..5),
        dedup in maybe_text(),
        created in prop::option::of(1_i64..4_000_000_000_000),
        delivery_count in 0_u32..5,
        cut in 0_usize..300,
    ) {
        let mut bench = Bench::new();
        let is_id = |value: &Value| matches!(
            value,
            Value::Ulong(_) | Value::Uuid(_) | Value::Binary(_) | Value::Str(_)
        );
        let id = id.filter(|(value, _)| is_id(value));
        let mut message = BytesMut::new();
        let header = Header { delivery_count, ..Header::default() };
        header.encode(&mut message);
        if let Some(dedup) = &dedup {
            let key = Value::Symbol(Symbol::from_static("x-opt-dedup-id"));
            encode_message_annotations(&vec![(key, string(dedup))], &mut message);
        }
        let properties = Properties {
            message_id: id.as_ref().map(|(value, _)| value.clone()),
            reply_to: texts.reply_to.as_deref().map(string),
            correlation_id: texts.correlation_id.as_deref().map(string),
            creation_time: created,
            group_id: texts.key.as_deref().map(Str::from),
            ..Properties::default()
        };
        properties.encode(&mut message);
        let own: Map = texts
            .headers
            .iter()
            .map(|(name, value)| (string(name), string(value)))
            .chain(values.iter().map(|(name, (value, _))| (string(name), value.clone())))
            .collect();
        message.extend_from_slice(&section(0x74, Value::Map(own)));
        // One data section, or the same octets in two.
        let at = cut.min(texts.payload.len());
        let (first, second) = texts.payload.split_at(at);
        message.extend_from_slice(&section(0x75, Value::Binary(Bytes::copy_from_slice(first))));
        if !second.is_empty() {
            let rest = Value::Binary(Bytes::copy_from_slice(second));
            message.extend_from_slice(&section(0x75, rest));
        }
        bench.send_amqp(&message.freeze());
        let got = bench.get_binary();
        match id.filter(|(_, text)| !text.is_empty()) {
            Some((_, text)) => prop_assert_eq!(got.message_id, text),
            None => prop_assert!(!got.message_id.is_empty()),
        }
        prop_assert_eq!(&got.payload[..], &texts.payload[..]);
        prop_assert_eq!(got.ordering_key, texts.key.unwrap_or_default());
        prop_assert_eq!(got.idempotency_key, dedup.unwrap_or_default());
        prop_assert_eq!(got.published_at, created.unwrap_or_default());
        prop_assert_eq!(got.attempt, delivery_count + 1);
        let mut expected = texts.headers;
        expected.extend(values.into_iter().map(|(name, (_, text))| (name, text)));
        expected.extend(texts.reply_to.map(|text| ("reply_to".to_owned(), text)));
        expected.extend(texts.correlation_id.map(|text| ("correlation_id".to_owned(), text)));
        prop_assert_eq!(got.headers, expected);
    }
}

/// Bodies that are no octets keep their encoding.
#[test]
fn other_bodies_are_delivered_as_they_are_encoded() {
    let value = section(0x77, Value::Ulong(7));
    let sequences = [
        section(0x76, Value::List(vec![Value::Uint(1)])),
        section(0x76, Value::List(vec![])),
    ]
    .concat();
    for (body, kind) in [(value, "value"), (sequences.into(), "sequence")] {
        let mut bench = Bench::new();
        bench.send_amqp(&body);
        let got = bench.get_binary();
        assert_eq!(got.payload, body);
        assert_eq!(got.headers["x-amqp-body"], kind);
        assert_eq!(got.headers.len(), 1);
    }
}

/// A schema refuses the same messages on both protocols, and names the same field.
#[test]
fn a_schema_holds_for_both_protocols() {
    let mut bench = Bench::new();
    let register = SchemaRegisterRequest {
        queue: "q".into(),
        proto_source:
            "syntax = \"proto3\"; message M { repeated L l = 1; } message L { int32 n = 1; }".into(),
        message_type: "M".into(),
        ..SchemaRegisterRequest::default()
    };
    bench.ask_binary(&Request::SchemaRegister(register.into()));
    // The second element of the list has a string where a number belongs.
    let wrong = Bytes::from_static(&[0x0a, 0x00, 0x0a, 0x03, 0x0a, 0x01, 0x61]);
    let text = "l[1].n: the wire type is length-delimited, and varint is wanted";
    let data = section(0x75, Value::Binary(wrong.clone()));
    let Some(DeliveryState::Rejected(Some(error))) = bench.state_of_amqp(&data) else {
        panic!("it is rejected");
    };
    assert_eq!(error.condition.as_str(), "amqp:decode-error");
    assert_eq!(
        error.description.as_ref().map(|text| text.as_str()),
        Some(text)
    );
    let info = error.info.expect("the field's path");
    let path = (Value::Symbol(Symbol::from_static("path")), string("l[1].n"));
    assert!(info.contains(&path), "{info:?}");
    let publish = |payload: &Bytes| {
        Request::Publish(Box::new(PublishRequest {
            queue: "q".into(),
            payload: payload.clone(),
            ..PublishRequest::default()
        }))
    };
    let told = bench.ask_binary(&publish(&wrong));
    let [binary::Event::Refused { error, .. }] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(error.code, 5);
    assert!(error.message.ends_with(text), "{}", error.message);
    bench.send_amqp(&section(
        0x75,
        Value::Binary(Bytes::from_static(&[0x0a, 0x00])),
    ));
}
