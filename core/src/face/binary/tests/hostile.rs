//! Schemas and bodies that somebody sends to see what breaks: SC-01, SC-02 and SC-03, over the wire.

use bytes::Bytes;
use qq_proto_binary::message::{PublishRequest, SchemaRegisterRequest};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::Request;

use super::Bench;

fn text(queue: &str, text: &str, message_type: &str) -> SchemaRegisterRequest {
    SchemaRegisterRequest {
        queue: queue.to_owned(),
        proto_source: text.to_owned(),
        message_type: message_type.to_owned(),
        ..SchemaRegisterRequest::default()
    }
}

fn descriptor(bytes: &[u8], message_type: &str) -> SchemaRegisterRequest {
    SchemaRegisterRequest {
        queue: "q".to_owned(),
        descriptor: Bytes::copy_from_slice(bytes),
        message_type: message_type.to_owned(),
        ..SchemaRegisterRequest::default()
    }
}

/// Registers, and tells the version or the refusal.
fn register(
    bench: &mut Bench,
    client: usize,
    request: SchemaRegisterRequest,
) -> Result<u32, String> {
    match bench.ask(client, &Request::SchemaRegister(request.into())) {
        Ok(Reply::Schema(made)) => Ok(made.version),
        Err(error) => {
            assert_eq!(error.code, 6, "{}", error.message);
            Err(error.message)
        }
        other => panic!("{other:?}"),
    }
}

fn schemas(bench: &mut Bench, client: usize) -> Vec<(String, u32)> {
    match bench.ask(client, &Request::SchemaList) {
        Ok(Reply::SchemaList(list)) => {
            let schemas = list.schemas.into_iter();
            schemas.map(|one| (one.queue, one.version)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn sc_01_a_schema_with_errors_is_refused_with_its_place_and_changes_nothing() {
    let mut bench = Bench::new();
    let a = bench.connect();
    let field = |field: &str| format!("syntax = \"proto3\";\nmessage M {{\n{field}\n}}");
    let large = format!("// {}", "x".repeat(5 << 20));
    let sources = [
        (field("int32 a = 1; int32 b = 1;"), ":3:"),
        (field("int32 a = 0;"), ":3:"),
        (field("int32 a = -1;"), ":3:"),
        (field("int32 a = 19000;"), ":3:"),
        (field("int32 a = 536870912;"), ":3:"),
        (field("Nowhere a = 1;"), ":3:"),
        (
            "syntax = \"proto3\";\nimport \"no.proto\";\nmessage M {}".to_owned(),
            ":2:",
        ),
        (
            "syntax = \"proto3\"; message Other {}".to_owned(),
            "'M' is not in it",
        ),
        (large, "too large"),
    ];
    for (source, place) in &sources {
        let head = &source[..source.len().min(80)];
        let refused = register(&mut bench, a, text("q", source, "M"));
        let told = refused.expect_err(head);
        assert!(told.contains(place), "{head}: {told}");
    }
    register(&mut bench, a, text("q", "", "")).expect_err("an empty file");
    assert_eq!(schemas(&mut bench, a), []);

    let crlf =
        "\u{feff}syntax = \"proto3\";\r\npackage p;\r\nmessage M {}\r\nenum E { A = 0; }\r\n";
    assert_eq!(register(&mut bench, a, text("good", crlf, "p.M")), Ok(1));
    let get = Request::SchemaGet(text("good", "", "").into());
    let Ok(Reply::Schema(good)) = bench.ask(a, &get) else {
        panic!("it was registered");
    };
    // A file "a.proto" that imports "b.proto", which is not in the set.
    let import = b"\x0a\x1e\x0a\x07a.proto\x1a\x07b.proto\x22\x03\x0a\x01M\x62\x06proto3";
    let half = &good.descriptor[..good.descriptor.len() / 2];
    for (bytes, name) in [
        (half, "p.M"),
        (&import[..], "M"),
        (&good.descriptor[..], ".p.M"),
        (&good.descriptor[..], "p.E"),
        (&good.descriptor[..], "p.N"),
    ] {
        register(&mut bench, a, descriptor(bytes, name)).expect_err(name);
    }
    assert_eq!(schemas(&mut bench, a), [("good".to_owned(), 1)]);
    assert_eq!(
        register(&mut bench, a, descriptor(&good.descriptor, "p.M")),
        Ok(1)
    );
}

#[test]
fn sc_02_a_version_that_breaks_readers_is_refused_and_takes_no_number() {
    let mut bench = Bench::new();
    let a = bench.connect();
    let old = "int32 a = 1; string b = 2; oneof o { int32 c = 3; }";
    let cases = [
        (
            "string a = 1; string b = 2; oneof o { int32 c = 3; }",
            false,
        ),
        ("int32 a = 1; int64 z = 2; oneof o { int32 c = 3; }", false),
        ("oneof o { int32 a = 1; string b = 2; int32 c = 3; }", false),
        (
            "int32 a = 1; string renamed = 2; oneof o { int32 c = 3; }",
            true,
        ),
        ("int32 a = 1; reserved 2; oneof o { int32 c = 3; }", true),
        ("int64 a = 1; string b = 2; oneof o { int32 c = 3; }", true),
    ];
    for (at, (new, is_taken)) in cases.into_iter().enumerate() {
        let queue = format!("q{at}");
        let with = |body: &str| {
            let source = format!("syntax = \"proto3\"; message M {{ {body} }}");
            text(&queue, &source, "M")
        };
        assert_eq!(register(&mut bench, a, with(old)), Ok(1));
        let second = register(&mut bench, a, with(new));
        assert_eq!(second.is_ok(), is_taken, "{new}: {second:?}");
        let next = 2 + u32::from(is_taken);
        let same = if is_taken { new } else { old };
        assert_eq!(register(&mut bench, a, with(same)), Ok(next), "{new}");
        let source = "syntax = \"proto3\"; message Other { bytes x = 9; }";
        register(&mut bench, a, text(&queue, source, "Other")).expect_err("another message");
        assert!(schemas(&mut bench, a).contains(&(queue, next)));
    }
}

#[test]
fn sc_03_bodies_that_attack_the_validator_are_refused() {
    let mut bench = Bench::new();
    let a = bench.connect();
    let source = "syntax = \"proto3\"; message M { int32 a = 1; string b = 2; }";
    assert_eq!(register(&mut bench, a, text("q", source, "M")), Ok(1));
    let publish = |body: &[u8]| {
        Request::Publish(Box::new(PublishRequest {
            queue: "q".to_owned(),
            payload: Bytes::copy_from_slice(body),
            ..PublishRequest::default()
        }))
    };
    let refused: [(&[u8], &str); 6] = [
        (&[0x0b; 20_000], "a: the wire type is start of a group"),
        (
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            "a: a number has more than ten bytes",
        ),
        (b"\x7f\x61", "not a field"),
        (b"\x12\x61", "b: the message ends within it"),
        (b"\x12\x02\xc3\x28", "b: a string is not valid UTF-8"),
        (b"\x0a\x01\x61", "a: the wire type is length-delimited"),
    ];
    for (body, rule) in refused {
        let (code, told) = bench.refusal(a, &publish(body));
        assert_eq!(code, 5, "{told}");
        assert!(told.contains(rule), "{told}");
    }
    // Groups of a number that the schema does not know, one in the other.
    let (code, _) = bench.refusal(a, &publish(&[0x9b, 0x06].repeat(20_000)));
    assert_eq!(code, 5);
    bench
        .ask(a, &publish(b"\x98\x06\x01"))
        .expect("an unknown field");
    bench.ask(a, &publish(b"")).expect("all of it is default");
    let counters = bench.node.broker().queue_counters("q");
    assert_eq!(counters.map(|q| q.messages), Some(2));
}
