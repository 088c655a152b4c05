//! A schema with 20 fields and a message of it of 1 KiB: what a benchmark and an example measure.

use qq_core::schema::{Schema, Source};
use qq_core::store::codec::{put_bytes, put_varint};

/// Texts, numbers of every wire type, lists of both kinds, messages, a map, an enum, a choice.
pub(crate) const TEXT: &str = r#"
    syntax = "proto3";
    package shop;
    message Order {
        string id = 1; string customer = 2; string street = 3; string city = 4; string note = 5;
        int64 created_at = 6; uint32 version = 7; sint32 offset = 8; bool is_paid = 9; double total = 10;
        float discount = 11; fixed64 trace = 12; bytes signature = 13; Kind kind = 14; repeated int32 codes = 15;
        repeated Line lines = 16; map<string, string> tags = 17; oneof by { string mail = 18; string phone = 19; }
        repeated string flags = 20;
    }
    message Line { string sku = 1; int32 count = 2; double price = 3; }
    enum Kind { NEW = 0; OLD = 1; }
"#;

/// The compiled schema.
pub(crate) fn schema() -> Schema {
    let source = Source::Text(TEXT.to_owned());
    Schema::compile(&source, "shop.Order").expect("it is one")
}

fn delimited(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_varint(out, number << 3 | 2);
    put_bytes(out, bytes);
}

fn varint(out: &mut Vec<u8>, number: u64, value: u64) {
    put_varint(out, number << 3);
    put_varint(out, value);
}

/// A message of exactly 1,024 bytes with all 20 fields.
pub(crate) fn message() -> Vec<u8> {
    let mut out = Vec::new();
    for (number, len) in [(1, 36), (2, 40), (3, 60), (4, 30)] {
        delimited(&mut out, number, &vec![b'x'; len]);
    }
    varint(&mut out, 6, 1_764_460_800_000);
    varint(&mut out, 7, 3);
    varint(&mut out, 8, 7_200);
    varint(&mut out, 9, 1);
    put_varint(&mut out, 10 << 3 | 1);
    out.extend_from_slice(&99.5_f64.to_le_bytes());
    put_varint(&mut out, 11 << 3 | 5);
    out.extend_from_slice(&0.5_f32.to_le_bytes());
    put_varint(&mut out, 12 << 3 | 1);
    out.extend_from_slice(&7_u64.to_le_bytes());
    delimited(&mut out, 13, &[7; 64]);
    varint(&mut out, 14, 1);
    delimited(&mut out, 15, &[1, 2, 3, 4, 5, 6, 7, 8]);
    for _ in 0..3 {
        let mut line = Vec::new();
        delimited(&mut line, 1, b"sku-0123456789");
        varint(&mut line, 2, 12);
        put_varint(&mut line, 3 << 3 | 1);
        line.extend_from_slice(&9.5_f64.to_le_bytes());
        delimited(&mut out, 16, &line);
    }
    for key in ["region", "channel"] {
        let mut entry = Vec::new();
        delimited(&mut entry, 1, key.as_bytes());
        delimited(&mut entry, 2, b"some-value");
        delimited(&mut out, 17, &entry);
    }
    delimited(&mut out, 18, b"somebody@example.org");
    for _ in 0..4 {
        delimited(&mut out, 20, b"flag");
    }
    let left = 1_024 - out.len() - 3;
    delimited(&mut out, 5, &vec![b'n'; left]);
    assert_eq!(out.len(), 1_024);
    out
}
