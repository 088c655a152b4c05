//! Helpers of the integration tests.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;

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
