//! Schemas: registration, and messages that keep them or do not.

use bytes::Bytes;
use qq_proto_binary::message::{
    CallRequest, Compatibility, PublishBatchRequest, PublishRequest, QueueDeclareRequest,
    SchemaRegisterRequest, SchemaRegisterResponse,
};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::Request;

use super::{Bench, consume, face_config};
use crate::broker::QueueSpec;
use crate::schema::SchemaMode;

const EVENT: &str =
    "syntax = \"proto3\"; package test; message Event { int32 id = 1; string name = 2; }";
/// A field 2 that is not UTF-8.
const WRONG: &[u8] = &[0x12, 0x02, 0xc3, 0x28];
const RIGHT: &[u8] = &[0x08, 0x2a];
const MISMATCH: &str =
    "schema validation failed: message validation failed: name: a string is not valid UTF-8";

fn registration(queue: &str, text: &str) -> SchemaRegisterRequest {
    SchemaRegisterRequest {
        queue: queue.to_owned(),
        proto_source: text.to_owned(),
        ..SchemaRegisterRequest::default()
    }
}

fn register(
    bench: &mut Bench,
    client: usize,
    request: SchemaRegisterRequest,
) -> SchemaRegisterResponse {
    match bench.ask(client, &Request::SchemaRegister(request.into())) {
        Ok(Reply::Schema(response)) => *response,
        other => panic!("{other:?}"),
    }
}

fn message(queue: &str, payload: &[u8]) -> PublishRequest {
    PublishRequest {
        queue: queue.to_owned(),
        payload: Bytes::copy_from_slice(payload),
        ..PublishRequest::default()
    }
}

fn publish(queue: &str, payload: &[u8]) -> Request {
    Request::Publish(Box::new(message(queue, payload)))
}

#[test]
fn a_message_is_refused_by_its_field_from_the_first_one_on() {
    let mut bench = Bench::new();
    let (a, b) = (bench.connect(), bench.connect());
    // Whoever published before hears of the schema; whoever did not is checked as well.
    bench.ask(a, &publish("q", WRONG)).expect("no schema yet");
    let made = register(&mut bench, b, registration("q", EVENT));
    assert_eq!((made.version, &*made.message_type), (1, "test.Event"));
    assert_eq!(made.compatibility, Compatibility::Backward as i32);
    for client in [a, b] {
        for _ in 0..2 {
            let refused = bench.refusal(client, &publish("q", WRONG));
            assert_eq!(refused, (5, MISMATCH.to_owned()));
            bench.ask(client, &publish("q", RIGHT)).expect("it is one");
            bench.ask(client, &publish("q", b"")).expect("all defaults");
            bench
                .ask(client, &publish("other", WRONG))
                .expect("no schema");
        }
    }
    let counters = bench.node.broker().queue_counters("q");
    assert_eq!(counters.map(|q| q.messages), Some(9));
}

#[test]
fn each_message_of_a_batch_is_checked() {
    let mut bench = Bench::new();
    let a = bench.connect();
    register(&mut bench, a, registration("q", EVENT));
    let batch = PublishBatchRequest {
        messages: [RIGHT, WRONG, RIGHT]
            .map(|payload| message("q", payload))
            .into(),
    };
    for _ in 0..2 {
        let Ok(Reply::PublishedBatch(answer)) = bench.ask(a, &Request::PublishBatch(batch.clone()))
        else {
            panic!("an answer to each");
        };
        let told: Vec<_> = answer
            .results
            .iter()
            .map(|r| (r.code, &*r.message))
            .collect();
        assert_eq!(told, [(0, ""), (5, MISMATCH), (0, "")]);
    }
}

#[test]
fn versions_are_listed_and_found_and_held_to_their_rule() {
    let mut bench = Bench::new();
    let a = bench.connect();
    let missing = Request::SchemaGet(registration("q", "").into());
    assert_eq!(
        bench.refusal(a, &missing),
        (7, "schema not found".to_owned())
    );
    register(&mut bench, a, registration("q", EVENT));
    let wrong = EVENT.replace("int32", "string");
    let (code, text) = bench.refusal(
        a,
        &Request::SchemaRegister(registration("q", &wrong).into()),
    );
    assert_eq!(code, 6);
    assert!(
        text.starts_with(
            "schema registration failed: not backward compatible with version 1: test.Event.id"
        ),
        "{text}"
    );
    let wider = EVENT.replace("int32", "int64");
    let mut strict = registration("q", &wider);
    strict.refuse_unknown_fields = Some(true);
    let second = register(&mut bench, a, strict);
    assert_eq!((second.version, second.refuse_unknown_fields), (2, true));
    assert_eq!(second.descriptor, "");
    let unknown = bench.refusal(a, &publish("q", &[0x18, 1]));
    assert!(
        unknown.1.ends_with(": the schema has no field 3"),
        "{unknown:?}"
    );
    let Ok(Reply::SchemaList(list)) = bench.ask(a, &Request::SchemaList) else {
        panic!("a list");
    };
    let list: Vec<_> = list
        .schemas
        .iter()
        .map(|s| (&*s.queue, &*s.message_type, s.version))
        .collect();
    assert_eq!(list, [("q", "test.Event", 2)]);
    let mut first = registration("q", "");
    first.version = 1;
    let Ok(Reply::Schema(first)) = bench.ask(a, &Request::SchemaGet(first.into())) else {
        panic!("the first version");
    };
    assert_eq!((first.version, first.refuse_unknown_fields), (1, false));
    // What comes back can be registered again.
    let again = SchemaRegisterRequest {
        queue: "r".to_owned(),
        descriptor: first.descriptor,
        message_type: first.message_type,
        ..SchemaRegisterRequest::default()
    };
    assert_eq!(register(&mut bench, a, again).version, 1);
}

#[test]
fn what_is_no_schema_is_refused_with_its_place() {
    let mut bench = Bench::new();
    let a = bench.connect();
    let mut refused = |request: SchemaRegisterRequest| {
        let (code, text) = bench.refusal(a, &Request::SchemaRegister(request.into()));
        assert_eq!(code, 6, "{text}");
        text
    };
    let text = refused(registration(
        "q",
        "syntax = \"proto3\"; message M { strin a = 1; }",
    ));
    assert!(
        text.starts_with("schema registration failed: invalid descriptor: schema.proto:1:"),
        "{text}"
    );
    let mut named = registration("q", EVENT);
    named.message_type = "Event".to_owned();
    let text = refused(named);
    assert!(
        text.starts_with("schema registration failed: message type not found in descriptor"),
        "{text}"
    );
    refused(registration("q", ""));
    refused(registration("amq.q", EVENT));
    let mut both = registration("q", EVENT);
    both.descriptor = Bytes::from_static(b"x");
    refused(both);
    let mut rule = registration("q", EVENT);
    rule.compatibility = 9;
    refused(rule);
}

#[test]
fn a_strict_queue_takes_nothing_without_a_schema() {
    let mut config = face_config();
    config.queue_spec = QueueSpec {
        schema_mode: Some(SchemaMode::Strict),
        ..QueueSpec::new("")
    };
    let mut bench = Bench::with(config);
    let a = bench.connect();
    for queue in ["q", "q.dlq"] {
        let declare = QueueDeclareRequest {
            queue: queue.to_owned(),
            ..QueueDeclareRequest::default()
        };
        bench
            .ask(a, &Request::QueueDeclare(declare.into()))
            .expect("made");
    }
    for _ in 0..2 {
        let refused = bench.refusal(a, &publish("q", RIGHT));
        assert_eq!(refused, (7, "schema required for queue".to_owned()));
        bench
            .ask(a, &publish("q.dlq", RIGHT))
            .expect("of dead letters");
    }
    register(&mut bench, a, registration("q", EVENT));
    bench.ask(a, &publish("q", RIGHT)).expect("it has one now");
    assert_eq!(bench.refusal(a, &publish("q", WRONG)).0, 5);
}

#[test]
fn a_call_is_checked_both_ways() {
    let mut bench = Bench::new();
    let (a, b) = (bench.connect(), bench.connect());
    register(&mut bench, a, registration("rpc", EVENT));
    register(&mut bench, a, registration("rpc.reply", EVENT));
    bench.ask(b, &consume("rpc", 10)).expect("open");
    let call = |payload: &[u8]| {
        Request::Call(Box::new(CallRequest {
            queue: "rpc".into(),
            payload: Bytes::copy_from_slice(payload),
            ..CallRequest::default()
        }))
    };
    for _ in 0..2 {
        assert_eq!(bench.refusal(a, &call(WRONG)), (5, MISMATCH.to_owned()));
    }
    for (payload, is_right) in [(RIGHT, true), (WRONG, false)] {
        let id = bench.send(a, &call(RIGHT));
        let request = bench.messages(b).pop().expect("a request");
        let reply = PublishRequest {
            headers: [(
                "correlation_id".to_owned(),
                request.headers["correlation_id"].clone(),
            )]
            .into(),
            ..message(&request.headers["reply_to"], payload)
        };
        // Queues for answers take any message; who asked is told.
        bench
            .ask(b, &Request::Publish(Box::new(reply)))
            .expect("taken");
        match bench.answer(a, id).expect("an answer") {
            Ok(Reply::Called(answer)) => assert!(is_right && answer.payload == payload),
            Err(error) => {
                assert!(!is_right && error.code == 5, "{error:?}");
                assert!(error.message.contains("the answer: name: "), "{error:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_declaration_can_name_a_schema_and_a_mode() {
    let mut bench = Bench::new();
    let a = bench.connect();
    let declare = |queue: &str, mode: &str| {
        let arguments = [("schema", "shared"), ("schema_mode", mode)];
        Request::QueueDeclare(Box::new(QueueDeclareRequest {
            queue: queue.to_owned(),
            arguments: arguments
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..QueueDeclareRequest::default()
        }))
    };
    assert_eq!(bench.refusal(a, &declare("a", "loose")).0, 1);
    bench.ask(a, &declare("a", "strict")).expect("made");
    bench.ask(a, &declare("b", "permissive")).expect("made");
    assert_eq!(bench.refusal(a, &publish("a", WRONG)).0, 7);
    bench.ask(a, &publish("b", WRONG)).expect("no schema yet");
    register(&mut bench, a, registration("shared", EVENT));
    for queue in ["a", "b"] {
        assert_eq!(bench.refusal(a, &publish(queue, WRONG)).0, 5);
        bench.ask(a, &publish(queue, RIGHT)).expect("it is one");
    }
}
