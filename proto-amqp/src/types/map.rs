//! Maps: pairs in wire order. Nothing is merged and nothing is looked up by hash, so a map goes out as it came in.

use alloc::vec::Vec;

use bytes::BytesMut;

use super::Value;

/// Pairs of key and value in wire order. Decoding refuses an odd count; equal keys are for
/// [`has_duplicate_keys`] to find, where somebody cares.
pub type Map = Vec<(Value, Value)>;

/// Whether two keys are equal, which makes a map invalid (part 1, 1.6.23). Costs n log n.
#[must_use]
pub fn has_duplicate_keys(map: &Map) -> bool {
    // Equal values have equal encodings here, and byte strings sort.
    let mut encoded = BytesMut::with_capacity(map.iter().map(|(key, _)| key.encoded_len()).sum());
    let mut keys: Vec<BytesMut> = Vec::with_capacity(map.len());
    for (key, _) in map {
        key.encode(&mut encoded);
        keys.push(encoded.split());
    }
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1])
}
