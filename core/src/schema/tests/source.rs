//! From texts and descriptor sets to schemas, and what is wrong with those that are none.

use bytes::Bytes;

use super::{bytes, schema};
use crate::schema::{Fault, SOURCE_BYTES_MAX, Schema, Source};

fn fault(text: &str, message_type: &str) -> Fault {
    let source = Source::Text(text.to_owned());
    let made = Schema::compile(&source, message_type);
    made.expect_err("it is no schema")
}

/// A text is refused with the line that is wrong and a word of what is.
fn refused_at(text: &str, line: usize, word: &str) {
    let Fault::Invalid(told) = fault(text, "M") else {
        panic!("{text}: another fault");
    };
    assert!(told.contains(&format!("schema.proto:{line}:")), "{told}");
    assert!(told.contains(word), "{told}");
}

#[test]
fn what_is_wrong_with_a_text_is_told_with_its_line() {
    let with = |field: &str| format!("syntax = \"proto3\";\nmessage M {{\n  {field}\n}}\n");
    refused_at(&with("int32 a = 1; int32 b = 1;"), 3, "1");
    refused_at(&with("int32 a = 0;"), 3, "536870911");
    refused_at(&with("int32 a = -1;"), 3, "");
    refused_at(&with("int32 a = 19000;"), 3, "19000");
    refused_at(&with("int32 a = 536870912;"), 3, "536870911");
    refused_at(&with("strin a = 1;"), 3, "strin");
    refused_at(&with("int32 a 1;"), 3, "=");
    refused_at(
        "syntax = \"proto3\";\nimport \"other.proto\";\nmessage M {}",
        2,
        "other.proto",
    );
}

#[test]
fn a_message_type_that_is_not_there_is_named() {
    let text = "syntax = \"proto3\"; package p; message M {} enum E { A = 0; }";
    let not_found = |text: &str, name: &str| match fault(text, name) {
        Fault::TypeNotFound(told) => told,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(not_found(text, "M"), "'M' is not in it");
    assert_eq!(not_found(text, "p.E"), "'p.E' is an enum");
    assert!(not_found(text, ".p.M").contains("leading dot"));
    assert_eq!(schema(text, "p.M").message_type(), "p.M");
    // Where there is one only, it need not be named.
    assert_eq!(schema(text, "").message_type(), "p.M");
    assert!(not_found("syntax = \"proto3\"; message A {} message B {}", "").contains("A, B"));
    assert_eq!(not_found("", ""), "it has no message type");
}

#[test]
fn what_editors_do_to_texts_does_not_matter() {
    let text = "\u{feff}syntax = \"proto3\";\r\nmessage M {\r\n  int32 a = 1;\r\n}\r\n";
    let odd = schema(text, "M");
    assert_eq!(odd.check(&bytes("0801"), true), Ok(()));
}

#[test]
fn the_well_known_types_are_there() {
    let text = "syntax = \"proto3\"; import \"google/protobuf/timestamp.proto\";
        message M { google.protobuf.Timestamp at = 1; }";
    let dated = schema(text, "M");
    assert_eq!(dated.check(&bytes("0a02 0801"), true), Ok(()));
    let unknown = dated.check(&bytes("0a02 1801"), true);
    let told = unknown.map_err(|unfit| unfit.to_string());
    assert_eq!(told, Err("at: the schema has no field 3".to_owned()));
}

#[test]
fn size_and_number_of_parts_are_bounded() {
    let long = format!("// {}", "x".repeat(SOURCE_BYTES_MAX));
    assert!(matches!(fault(&long, "M"), Fault::TooLarge(_)));
    let set = Source::Descriptor(vec![0; SOURCE_BYTES_MAX + 1].into());
    assert!(matches!(
        Schema::compile(&set, "M"),
        Err(Fault::TooLarge(_))
    ));
    let fields: String = (1..9_000).map(|n| format!("int32 f{n}={n};")).collect();
    let many = format!("syntax=\"proto3\";message M{{{fields}}}");
    assert!(many.len() < SOURCE_BYTES_MAX);
    assert!(matches!(fault(&many, "M"), Fault::TooLarge(_)));
}

#[test]
fn nesting_of_a_text_is_bounded() {
    let levels = 20_000;
    let text = format!("{}{}", "message M {".repeat(levels), "}".repeat(levels));
    // Either bound may speak first; none may take the stack.
    assert!(matches!(
        fault(&text, "M"),
        Fault::TooLarge(_) | Fault::Invalid(_)
    ));
    let levels = 4_000;
    let text = format!("{}{}", "message M {".repeat(levels), "}".repeat(levels));
    assert!(matches!(
        fault(&text, "M"),
        Fault::TooLarge(_) | Fault::Invalid(_)
    ));
}

#[test]
fn a_descriptor_set_is_taken_as_it_is_or_refused() {
    // test.Event { int32 id = 1; }, as protoc writes it.
    let whole = bytes(
        "0a2f 0a0a746573742e70726f746f 120474657374 2213 0a054576656e74 120a 0a026964 1801 2001 2805 620670726f746f33",
    );
    let compile = |set: &[u8], name: &str| {
        let source = Source::Descriptor(Bytes::copy_from_slice(set));
        Schema::compile(&source, name)
    };
    let event = compile(&whole, "test.Event").expect("it is one");
    assert_eq!(event.descriptor()[..], whole);
    assert_eq!(event.check(&bytes("082a"), true), Ok(()));
    assert!(event.check(&bytes("0880"), true).is_err());
    for name in ["", "Event", ".test.Event"] {
        assert!(
            matches!(compile(&whole, name), Err(Fault::TypeNotFound(_))),
            "{name}"
        );
    }
    for len in 0..whole.len() {
        let cut = compile(&whole[..len], "test.Event");
        assert!(matches!(cut, Err(Fault::Invalid(_))), "{len}");
    }
    // It imports what is not in the set.
    let mut importing = whole.clone();
    importing[1] += 9;
    importing.splice(20..20, bytes("1a07 6f2e70726f746f"));
    let told = compile(&importing, "test.Event").expect_err("o.proto is missing");
    assert!(told.to_string().contains("o.proto"), "{told}");
}

/// A library panics at these.
#[test]
fn a_descriptor_set_of_another_syntax_is_refused() {
    // A file "a.proto" with a message M, and its syntax.
    let file = |syntax: &str| {
        let mut file = bytes("0a07 612e70726f746f 2203 0a014d 62");
        file.push(syntax.len() as u8);
        file.extend(syntax.bytes());
        [&[0x0a, file.len() as u8][..], &file].concat()
    };
    let compile = |set: Vec<u8>| Schema::compile(&Source::Descriptor(set.into()), "M");
    for syntax in ["prOto3", "editions", "proto4", ""] {
        let told = compile(file(syntax)).expect_err(syntax).to_string();
        assert!(told.contains("a.proto: the syntax"), "{told}");
        assert!(told.contains(&format!("{syntax:?}")), "{told}");
    }
    for syntax in ["proto2", "proto3"] {
        assert!(compile(file(syntax)).is_ok(), "{syntax}");
    }
}

/// Values of options are read by a library without a bound of its own.
#[test]
fn nesting_of_an_option_is_bounded() {
    for (open, close) in [("m<", ">"), ("m{", "}")] {
        let levels = 4_000;
        let value = format!("{}{}", open.repeat(levels), close.repeat(levels));
        let text = format!(
            "syntax=\"proto2\"; import \"google/protobuf/descriptor.proto\"; message M {{ optional M m = 1; }} \
             extend google.protobuf.FileOptions {{ optional M o = 50000; }} option (o) = {{ {value} }};"
        );
        let refused = fault(&text, "M");
        assert!(refused.to_string().contains("option"), "{refused}");
    }
    let shallow = "syntax=\"proto2\"; import \"google/protobuf/descriptor.proto\"; message M { optional M m = 1; } \
                   extend google.protobuf.FileOptions { optional M o = 50000; } option (o) = { m < m { } > };";
    let source = Source::Text(shallow.to_owned());
    assert!(Schema::compile(&source, "M").is_ok());
}
