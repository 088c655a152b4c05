//! The committed `proto/qwerq.proto` and the hand-written derives say the same.
//!
//! Twice over: the attributes in the sources are compared with the file's descriptors field by field, and every message
//! is filled by reflection, decoded by the derives, written again and read back by reflection.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::Message as _;
use prost_reflect::{
    Cardinality, DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor,
    ReflectMessage, Value,
};
use qq_proto_binary::message as m;
use support::pool;

const SOURCES: &[&str] = &[
    include_str!("../src/message/answer.rs"),
    include_str!("../src/message/call.rs"),
    include_str!("../src/message/consume.rs"),
    include_str!("../src/message/presence.rs"),
    include_str!("../src/message/publish.rs"),
    include_str!("../src/message/queue.rs"),
    include_str!("../src/message/schema.rs"),
    include_str!("../src/message/stream.rs"),
];

fn messages(pool: &DescriptorPool) -> Vec<MessageDescriptor> {
    pool.all_messages()
        .filter(|message| !message.is_map_entry())
        .collect()
}

/// A field as the derive's attribute names it, with the Rust name in front.
fn attribute(field: &FieldDescriptor) -> String {
    let mut text = if field.is_map() {
        "btree_map = \"string, string\"".to_string()
    } else {
        match field.kind() {
            Kind::String => "string".to_string(),
            Kind::Bytes => "bytes = \"bytes\"".to_string(),
            Kind::Uint32 => "uint32".to_string(),
            Kind::Uint64 => "uint64".to_string(),
            Kind::Int64 => "int64".to_string(),
            Kind::Bool => "bool".to_string(),
            Kind::Message(_) => "message".to_string(),
            Kind::Enum(kind) => format!("enumeration = \"{}\"", kind.name()),
            other => panic!(
                "{}: {other:?} has no form in this protocol",
                field.full_name()
            ),
        }
    };
    if !field.is_map() {
        if field.cardinality() == Cardinality::Repeated {
            text.push_str(", repeated");
        } else if field.supports_presence() && !matches!(field.kind(), Kind::Message(_)) {
            text.push_str(", optional");
        }
    }
    format!("{} {text}, tag = \"{}\"", field.name(), field.number())
}

/// Structs of the sources, each with its fields as [`attribute`] writes them.
fn derived() -> BTreeMap<String, BTreeSet<String>> {
    let mut structs = BTreeMap::new();
    let mut current = String::new();
    let mut pending = String::new();
    for line in SOURCES.iter().flat_map(|source| source.lines()) {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("pub struct ") {
            current = rest.split(' ').next().unwrap_or_default().to_string();
            structs.insert(current.clone(), BTreeSet::new());
        } else if let Some(rest) = line.strip_prefix("#[prost(")
            && rest.contains("tag")
        {
            pending = rest.trim_end_matches(")]").to_string();
        } else if let Some(rest) = line.strip_prefix("pub ")
            && !pending.is_empty()
        {
            let name = rest.split(':').next().unwrap_or_default();
            let fields = structs
                .get_mut(&current)
                .expect("a field stands in a struct");
            fields.insert(format!("{name} {pending}"));
            pending.clear();
        }
    }
    structs
}

#[test]
fn every_attribute_says_what_the_file_says() {
    let declared: BTreeMap<String, BTreeSet<String>> = messages(&pool())
        .iter()
        .map(|message| {
            let fields = message.fields().map(|field| attribute(&field)).collect();
            (message.name().to_string(), fields)
        })
        .collect();
    assert!(declared.len() > 30, "the file has messages");
    assert_eq!(derived(), declared);
}

#[test]
fn every_enumeration_says_what_the_file_says() {
    fn check<E: TryFrom<i32> + std::fmt::Debug>(pool: &DescriptorPool, name: &str) {
        let declared = pool.get_enum_by_name(&format!("qwerq.{name}")).expect(name);
        for number in 0..32 {
            let here = E::try_from(number)
                .ok()
                .map(|value| format!("{value:?}").to_uppercase());
            let there = declared.get_value(number).map(|value| {
                let prefix: String = name
                    .chars()
                    .enumerate()
                    .flat_map(|(at, c)| {
                        let gap = (at > 0 && c.is_uppercase()).then_some('_');
                        gap.into_iter().chain(c.to_uppercase())
                    })
                    .collect();
                let short = value
                    .name()
                    .strip_prefix(&format!("{prefix}_"))
                    .expect("a prefix");
                short.replace('_', "")
            });
            assert_eq!(here, there, "{name} {number}");
        }
    }
    let pool = pool();
    check::<m::Compatibility>(&pool, "Compatibility");
    check::<m::QueueKind>(&pool, "QueueKind");
    check::<m::Overflow>(&pool, "Overflow");
    check::<m::FailurePolicy>(&pool, "FailurePolicy");
    check::<m::SeekPosition>(&pool, "SeekPosition");
    assert_eq!(pool.all_enums().count(), 5);
}

/// A value that is not the default, different for each field.
fn filled_value(field: &FieldDescriptor, kind: &Kind) -> Value {
    let number = field.number();
    match kind {
        Kind::String => Value::String(format!("{}-{number}", field.name())),
        Kind::Bytes => Value::Bytes(Bytes::from(format!("bytes {number}"))),
        Kind::Uint32 => Value::U32(u32::MAX - number),
        Kind::Uint64 => Value::U64(u64::MAX - u64::from(number)),
        Kind::Int64 => Value::I64(-i64::from(number)),
        Kind::Bool => Value::Bool(true),
        Kind::Enum(_) => Value::EnumNumber(1),
        Kind::Message(message) => Value::Message(filled(message)),
        other => panic!("{}: {other:?}", field.full_name()),
    }
}

fn filled(message: &MessageDescriptor) -> DynamicMessage {
    let mut dynamic = DynamicMessage::new(message.clone());
    for field in message.fields() {
        let value = if field.is_map() {
            let entry = |n: u32| {
                (
                    MapKey::String(format!("k{n}")),
                    Value::String(format!("v{n}")),
                )
            };
            Value::Map([entry(1), entry(2)].into_iter().collect())
        } else if field.is_list() {
            let one = filled_value(&field, &field.kind());
            Value::List(vec![one.clone(), one])
        } else {
            filled_value(&field, &field.kind())
        };
        dynamic.set_field(&field, value);
    }
    dynamic
}

fn through_the_derive<M: prost::Message + Default>(bytes: &[u8]) -> Vec<u8> {
    M::decode(bytes)
        .expect("the derive reads it")
        .encode_to_vec()
}

/// Decodes and encodes by the derive of this name.
fn pass(name: &str, bytes: &[u8]) -> Vec<u8> {
    macro_rules! by_name {
        ($($message:ident)*) => {
            match name {
                $(stringify!($message) => through_the_derive::<m::$message>(bytes),)*
                other => panic!("{other} has no derive in this test"),
            }
        };
    }
    by_name!(
        AckRequest AuthRequest AuthResponse CallRequest CallResponse CommitOffsetRequest
        CommitOffsetResponse ConsumeRequest ConsumerClosed DoneResponse ErrorResponse
        ExtendVisibilityRequest ExtendVisibilityResponse HeartbeatRequest HeartbeatResponse
        Message NackRequest PingRequest PingResponse PublishBatchRequest PublishBatchResponse
        PublishRequest PublishResponse PublishResult QueueDeclareRequest QueueDeclareResponse
        QueueDeleteRequest QueueDeleteResponse QueueInfo QueueListRequest QueueListResponse
        QueuePurgeRequest QueuePurgeResponse QueueStatsRequest QueueStatsResponse SchemaInfo
        SchemaListRequest SchemaListResponse SchemaRegisterRequest SchemaRegisterResponse
        SeekRequest SeekResponse StreamMessage UnsubscribeRequest
    )
}

#[test]
fn what_reflection_writes_the_derives_keep_whole() {
    for message in messages(&pool()) {
        let full = filled(&message);
        let passed = pass(message.name(), &full.encode_to_vec());
        let back = DynamicMessage::decode(message.clone(), &passed[..]).expect("it decodes");
        assert_eq!(back, full, "{}", message.name());
        assert_eq!(back.descriptor().name(), message.name());
        assert_eq!(back.unknown_fields().count(), 0);
        // An empty message stays empty: no field without presence is ever written as a default.
        assert!(pass(message.name(), &[]).is_empty(), "{}", message.name());
    }
}

#[test]
fn the_file_follows_its_own_rules() {
    // Unknown fields are skipped, so a message may grow; messages of the first clients only from 50 on.
    let extended = [
        "PublishRequest",
        "ConsumeRequest",
        "Message",
        "AckRequest",
        "NackRequest",
        "ExtendVisibilityRequest",
        "SchemaRegisterRequest",
        "SchemaRegisterResponse",
        "StreamMessage",
    ];
    for message in messages(&pool()) {
        let beyond = message.fields().any(|field| field.number() >= 50);
        assert_eq!(
            beyond,
            extended.contains(&message.name()),
            "{}",
            message.name()
        );
        assert!(message.fields().all(|field| field.number() < 100));
    }
}
