//! Helpers of the integration tests.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;

use prost_reflect::{DescriptorPool, Kind};

const PROTO: &str = include_str!("../../proto/qwerq.proto");

/// Bytes of a hex text; spaces are for the reader.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "hex has pairs");
    let digit = |c: char| c.to_digit(16).expect("hex digits") as u8;
    digits
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

/// Headers from pairs.
pub(crate) fn headers(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_string(), (*value).to_string()))
        .collect()
}

/// The committed `.proto` file, compiled.
pub(crate) fn pool() -> DescriptorPool {
    let file = protox::file::File::from_source("qwerq.proto", PROTO).expect("the file parses");
    let mut compiler = protox::Compiler::with_file_resolver(OneFile(file));
    compiler.open_file("qwerq.proto").expect("it compiles");
    compiler.descriptor_pool()
}

/// Resolves the one file that there is.
struct OneFile(protox::file::File);

impl protox::file::FileResolver for OneFile {
    fn open_file(&self, name: &str) -> Result<protox::file::File, protox::Error> {
        if name == "qwerq.proto" {
            Ok(self.0.clone())
        } else {
            Err(protox::Error::file_not_found(name))
        }
    }
}

/// A type as the `.proto` file writes it.
pub(crate) fn kind_name(kind: &Kind) -> String {
    match kind {
        Kind::String => "string".to_string(),
        Kind::Bytes => "bytes".to_string(),
        Kind::Uint32 => "uint32".to_string(),
        Kind::Uint64 => "uint64".to_string(),
        Kind::Int64 => "int64".to_string(),
        Kind::Bool => "bool".to_string(),
        Kind::Message(message) => message.name().to_string(),
        Kind::Enum(kind) => kind.name().to_string(),
        other => panic!("{other:?} is not used in this protocol"),
    }
}
