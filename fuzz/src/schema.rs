//! Target for schemas: bytes as a source of one and as a message of it. The first byte chooses text or descriptor set and
//! whether unknown fields are refused, a zero ends the source, the rest is a message.
//!
//! Whatever the bytes are, the source compiles or is refused with a text; a schema that compiles is compatible with
//! itself and comes back from its own descriptor; checking ends, says the same twice, refuses with a reason, and whoever
//! refuses unknown fields accepts no more than who does not. The fixed schema of this file checks the message as well.

use std::sync::LazyLock;

use qq_core::schema::{Compatibility, Schema, Source, findings};

/// Every kind of field, and a type in itself.
const FIXED: &str = r#"
    syntax = "proto2";
    message All {
        optional double a = 1; optional float b = 2; optional int32 c = 3; repeated int64 d = 4;
        repeated uint32 e = 5 [packed = true]; optional sint32 g = 7; repeated fixed32 i = 9;
        optional sfixed64 l = 12; repeated bool m = 13; optional string n = 14; repeated bytes o = 15;
        repeated Level p = 16; optional All q = 17;
        repeated group R = 18 { optional string s = 1; optional All t = 2; }
        oneof u { int32 v = 19; string w = 20; }
        map<string, All> x = 21;
        extensions 30 to 40;
    }
    enum Level { LOW = 1; HIGH = 2; }
"#;

static ALL: LazyLock<Schema> = LazyLock::new(|| {
    let source = Source::Text(FIXED.to_owned());
    Schema::compile(&source, "All").expect("the fixed schema is right")
});

/// One source and one message.
pub fn schema(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else {
        return;
    };
    let end = rest.iter().position(|byte| *byte == 0);
    let (source, message) = match end {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => (rest, rest),
    };
    check(&ALL, message);
    // A descriptor set has zeros; it takes all of the bytes.
    let source = match choice % 2 {
        0 => match std::str::from_utf8(source) {
            Ok(text) => Source::Text(text.to_owned()),
            Err(_) => return,
        },
        _ => Source::Descriptor(rest.to_vec().into()),
    };
    // Sets of descriptors name their types; texts with one type need not.
    for name in ["", "M", "test.Event"] {
        match Schema::compile(&source, name) {
            Ok(schema) => {
                check(&schema, message);
                check_compiled(&schema);
            }
            Err(fault) => assert!(!fault.to_string().is_empty()),
        }
    }
}

fn check(schema: &Schema, message: &[u8]) {
    let open = schema.check(message, false);
    assert_eq!(schema.check(message, false), open, "another answer");
    let closed = schema.check(message, true);
    assert!(open.is_ok() || closed.is_err(), "strict takes more");
    for refused in [open, closed].into_iter().filter_map(Result::err) {
        assert!(!refused.to_string().is_empty());
    }
    // Two messages after each other are one, so the longer one is not refused for what the shorter may have.
    if schema.check(message, false).is_ok() && message.len() < 1_024 {
        assert_eq!(schema.check(&message.repeat(2), false), Ok(()));
    }
}

fn check_compiled(schema: &Schema) {
    let again = Schema::restore(schema.descriptor().clone(), schema.message_type());
    let again = again.expect("it was compiled before");
    let found = findings(schema, &again, &Default::default(), Compatibility::Full);
    assert_eq!(found, [], "not compatible with itself");
}
