//! The messages of messages.json in fe2o3's types, both ways.
//!
//! A value in that file is a pair `[type, value]`. [`native`] turns it into what an application hands to the library,
//! and [`tagged`] turns a received value back into the pair, so that a lost type is a difference and not an accident.
use crate::link::{Msg, R};
use fe2o3_amqp_types::messaging::annotations::OwnedKey;
use fe2o3_amqp_types::messaging::{
    AmqpSequence, AmqpValue, ApplicationProperties, Body, Data, Header, Message,
    MessageAnnotations, MessageId, Priority, Properties,
};
use fe2o3_amqp_types::primitives::{Array, OrderedMap, SimpleValue, Symbol, Timestamp};
use serde_amqp::Value;
use serde_amqp::described::Described;
use serde_amqp::descriptor::Descriptor;
use serde_bytes::ByteBuf;
use serde_json::{Value as J, json};

/// All messages of the shared file, in its order.
pub fn load(path: &str) -> R<Vec<J>> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    serde_json::from_str(&text).map_err(|e| format!("{path}: {e}"))
}

fn bytes(hex: &J) -> Vec<u8> {
    let s = hex.as_str().expect("hex text");
    (0..s.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&s[i..i + 2], 16).expect("hex digits"))
        .collect()
}

fn hex(b: &[u8]) -> String {
    b.iter().map(|x| format!("{x:02x}")).collect()
}

fn text(v: &J) -> String {
    v.as_str().expect("text").to_string()
}

fn items(v: &J) -> &[J] {
    v.as_array().expect("a list")
}

/// The pair as the library's value. Panics on a pair that the file should not hold.
fn native(pair: &J) -> Value {
    let v = &pair[1];
    let int = || {
        v.as_i64()
            .unwrap_or_else(|| text(v).parse().expect("a number"))
    };
    match pair[0].as_str().expect("a type") {
        "null" => Value::Null,
        "boolean" => Value::Bool(v.as_bool().expect("true or false")),
        "ubyte" => Value::Ubyte(int() as u8),
        "ushort" => Value::Ushort(int() as u16),
        "uint" => Value::Uint(int() as u32),
        "ulong" => Value::Ulong(text(v).parse().expect("a number")),
        "byte" => Value::Byte(int() as i8),
        "short" => Value::Short(int() as i16),
        "int" => Value::Int(int() as i32),
        "long" => Value::Long(int()),
        "float" => Value::Float((v.as_f64().expect("a number") as f32).into()),
        "double" => Value::Double(v.as_f64().expect("a number").into()),
        "char" => Value::Char(char::from_u32(int() as u32).expect("a character")),
        "timestamp" => Value::Timestamp(Timestamp::from_milliseconds(int())),
        "uuid" => Value::Uuid(<[u8; 16]>::try_from(bytes(v)).expect("16 bytes").into()),
        "binary" => Value::Binary(ByteBuf::from(bytes(v))),
        "string" => Value::String(text(v)),
        "symbol" => Value::Symbol(Symbol(text(v))),
        "list" => Value::List(items(v).iter().map(native).collect()),
        "map" => Value::Map(
            items(v)
                .iter()
                .map(|e| (native(&e[0]), native(&e[1])))
                .collect(),
        ),
        "array" => Value::Array(Array(
            items(&v[1])
                .iter()
                .map(|x| native(&json!([v[0], x])))
                .collect(),
        )),
        "described" => Value::Described(Box::new(Described {
            descriptor: Descriptor::Name(Symbol(text(&v[0][1]))),
            value: native(&v[1]),
        })),
        other => panic!("{other} has no place in messages.json"),
    }
}

fn tagged(v: &Value) -> J {
    match v {
        Value::Null => json!(["null", null]),
        Value::Bool(x) => json!(["boolean", x]),
        Value::Ubyte(x) => json!(["ubyte", x]),
        Value::Ushort(x) => json!(["ushort", x]),
        Value::Uint(x) => json!(["uint", x]),
        Value::Ulong(x) => json!(["ulong", x.to_string()]),
        Value::Byte(x) => json!(["byte", x]),
        Value::Short(x) => json!(["short", x]),
        Value::Int(x) => json!(["int", x]),
        Value::Long(x) => json!(["long", x.to_string()]),
        Value::Float(x) => json!(["float", x.0]),
        Value::Double(x) => json!(["double", x.0]),
        Value::Char(x) => json!(["char", u32::from(*x)]),
        Value::Timestamp(x) => json!(["timestamp", x.milliseconds().to_string()]),
        Value::Uuid(x) => json!(["uuid", hex(x.as_inner())]),
        Value::Binary(x) => json!(["binary", hex(x)]),
        Value::String(x) => json!(["string", x]),
        Value::Symbol(x) => json!(["symbol", x.0]),
        Value::List(x) => json!(["list", x.iter().map(tagged).collect::<Vec<_>>()]),
        Value::Map(x) => json!([
            "map",
            x.iter()
                .map(|(k, v)| json!([tagged(k), tagged(v)]))
                .collect::<Vec<_>>()
        ]),
        Value::Array(x) => {
            let all: Vec<J> = x.0.iter().map(tagged).collect();
            let kind = all.first().map_or(J::Null, |p| p[0].clone());
            json!([
                "array",
                [kind, all.iter().map(|p| p[1].clone()).collect::<Vec<_>>()]
            ])
        }
        Value::Described(x) => {
            let descriptor = match &x.descriptor {
                Descriptor::Name(s) => json!(["symbol", s.0]),
                Descriptor::Code(c) => json!(["ulong", c.to_string()]),
            };
            json!(["described", [descriptor, tagged(&x.value)]])
        }
        other => json!(["no pair for", format!("{other:?}")]),
    }
}

fn id(pair: &J) -> Option<MessageId> {
    (!pair.is_null()).then(|| match native(pair) {
        Value::String(x) => MessageId::String(x),
        Value::Ulong(x) => MessageId::Ulong(x),
        Value::Uuid(x) => MessageId::Uuid(x),
        Value::Binary(x) => MessageId::Binary(x),
        other => panic!("{other:?} is no message id"),
    })
}

fn tagged_id(id: &Option<MessageId>) -> J {
    match id {
        None => J::Null,
        Some(MessageId::String(x)) => json!(["string", x]),
        Some(MessageId::Ulong(x)) => json!(["ulong", x.to_string()]),
        Some(MessageId::Uuid(x)) => json!(["uuid", hex(x.as_inner())]),
        Some(MessageId::Binary(x)) => json!(["binary", hex(x)]),
    }
}

fn properties(p: &J) -> Properties {
    let string = |k: &str| p[k][1].as_str().map(String::from);
    let time =
        |k: &str| string(k).map(|s| Timestamp::from_milliseconds(s.parse().expect("a number")));
    Properties {
        message_id: id(&p["message_id"]),
        user_id: (!p["user_id"].is_null()).then(|| ByteBuf::from(bytes(&p["user_id"][1]))),
        to: string("to"),
        subject: string("subject"),
        reply_to: string("reply_to"),
        correlation_id: id(&p["correlation_id"]),
        content_type: string("content_type").map(Symbol),
        content_encoding: string("content_encoding").map(Symbol),
        absolute_expiry_time: time("absolute_expiry_time"),
        creation_time: time("creation_time"),
        group_id: string("group_id"),
        group_sequence: p["group_sequence"][1].as_u64().map(|n| n as u32),
        reply_to_group_id: string("reply_to_group_id"),
    }
}

/// The properties of a message as the file writes them; absent ones are null.
fn tagged_properties(p: &Properties) -> J {
    let string = |s: &Option<String>| s.as_ref().map(|s| json!(["string", s]));
    let symbol = |s: &Option<Symbol>| s.as_ref().map(|s| json!(["symbol", s.0]));
    let time = |t: &Option<Timestamp>| {
        t.as_ref()
            .map(|t| json!(["timestamp", t.milliseconds().to_string()]))
    };
    json!({
        "message_id": tagged_id(&p.message_id),
        "user_id": p.user_id.as_ref().map(|b| json!(["binary", hex(b)])),
        "to": string(&p.to),
        "subject": string(&p.subject),
        "reply_to": string(&p.reply_to),
        "correlation_id": tagged_id(&p.correlation_id),
        "content_type": symbol(&p.content_type),
        "content_encoding": symbol(&p.content_encoding),
        "absolute_expiry_time": time(&p.absolute_expiry_time),
        "creation_time": time(&p.creation_time),
        "group_id": string(&p.group_id),
        "group_sequence": p.group_sequence.map(|n| json!(["uint", n])),
        "reply_to_group_id": string(&p.reply_to_group_id),
    })
}

/// The message of the file as the library's.
pub fn message(want: &J) -> Msg {
    let body = match (
        want["body"][0].as_str().expect("a body kind"),
        &want["body"][1],
    ) {
        ("value", v) => Body::Value(AmqpValue(native(v))),
        ("data", v) => Body::Data(
            items(v)
                .iter()
                .map(|x| Data(ByteBuf::from(bytes(x))))
                .collect(),
        ),
        (_, v) => Body::Sequence(
            items(v)
                .iter()
                .map(|s| AmqpSequence(items(s).iter().map(native).collect::<Vec<_>>()))
                .collect(),
        ),
    };
    let header = want["header"].as_object().map(|h| Header {
        durable: h["durable"][1].as_bool().expect("true or false"),
        priority: Priority(h["priority"][1].as_u64().expect("a number") as u8),
        ttl: None,
        first_acquirer: false,
        delivery_count: 0,
    });
    let application_properties = want["application_properties"].as_array().map(|all| {
        let mut m: OrderedMap<String, SimpleValue> = OrderedMap::new();
        for e in all {
            m.insert(
                text(&e[0]),
                SimpleValue::try_from(native(&e[1])).expect("a simple value"),
            );
        }
        ApplicationProperties(m)
    });
    let annotations = want["message_annotations"].as_array().map(|all| {
        MessageAnnotations(
            all.iter()
                .map(|e| (OwnedKey::Symbol(Symbol(text(&e[0]))), native(&e[1])))
                .collect(),
        )
    });
    Message {
        header,
        delivery_annotations: None,
        message_annotations: annotations,
        properties: want["properties"]
            .as_object()
            .map(|_| properties(&want["properties"])),
        application_properties,
        body,
        footer: None,
    }
}

/// What differs between a message of the file and what came: a list of sentences.
pub fn differences(want: &J, got: &Msg) -> Vec<String> {
    let mut bad = vec![];
    let mut check = |what: &str, got: J, want: J| {
        if got != want {
            let cut = |j: &J| j.to_string().chars().take(200).collect::<String>();
            bad.push(format!("{what}: got {}, want {}", cut(&got), cut(&want)));
        }
    };
    let p = tagged_properties(got.properties.as_ref().unwrap_or(&Properties::default()));
    for (k, v) in p.as_object().expect("a map") {
        check(k, v.clone(), want["properties"][k].clone());
    }
    if let Some(h) = want["header"].as_object() {
        check(
            "durable",
            json!(got.header.as_ref().map(|x| x.durable)),
            h["durable"][1].clone(),
        );
        check(
            "priority",
            json!(got.header.as_ref().map(|x| x.priority.0)),
            h["priority"][1].clone(),
        );
    }
    let sorted = |mut v: Vec<J>| {
        v.sort_by_key(|e| e[0].to_string());
        J::Array(v)
    };
    let application: Vec<J> = got
        .application_properties
        .iter()
        .flat_map(|a| a.0.iter())
        .map(|(k, v)| json!([k, tagged(&Value::from(v.clone()))]))
        .collect();
    let wanted = want["application_properties"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    check(
        "application-properties",
        sorted(application),
        sorted(wanted),
    );
    for e in want["message_annotations"].as_array().into_iter().flatten() {
        let key = OwnedKey::Symbol(Symbol(text(&e[0])));
        let found = got
            .message_annotations
            .iter()
            .flat_map(|a| a.0.iter())
            .find(|(k, _)| **k == key);
        check(
            &format!("annotation {}", e[0]),
            found.map_or(J::Null, |(_, v)| tagged(v)),
            e[1].clone(),
        );
    }
    let body = match &got.body {
        Body::Value(v) => json!(["value", tagged(&v.0)]),
        Body::Data(d) => json!(["data", d.iter().map(|x| hex(&x.0)).collect::<Vec<_>>()]),
        Body::Sequence(s) => {
            json!([
                "sequence",
                s.iter()
                    .map(|l| l.0.iter().map(tagged).collect::<Vec<_>>())
                    .collect::<Vec<_>>()
            ])
        }
        _ => J::Null,
    };
    check("body", body, want["body"].clone());
    bad
}
