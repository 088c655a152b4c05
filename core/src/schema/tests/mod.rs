//! Tests of schemas: one file per topic. Messages are bytes that the encoding's specification says, or come from
//! another implementation.

mod compat;
mod reference;
mod registry;
mod source;
mod validate;

use std::sync::Arc;

use super::{Schema, Source};

/// Compiles a text that is right.
fn schema(text: &str, message_type: &str) -> Arc<Schema> {
    let compiled = Schema::compile(&Source::Text(text.to_owned()), message_type);
    Arc::new(compiled.unwrap_or_else(|fault| panic!("{text}: {fault}")))
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| {
            let text = std::str::from_utf8(pair).expect("digits");
            u8::from_str_radix(text, 16).expect("hexadecimal")
        })
        .collect()
}
