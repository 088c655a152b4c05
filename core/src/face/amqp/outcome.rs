//! Delivery states of part 3, 3.4 as outcomes of the broker, and the annotations that `modified` adds to a message.
//!
//! The broker keeps one map per message: all that consumers added so far. A delivery carries it, so the face can lay
//! what the next consumer adds over it (part 3, 3.4.5) and hand the whole back.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use qq_proto_amqp::performative::{DeliveryState, Modified};
use qq_proto_amqp::types::{Map, Symbol, Value};

use crate::vocab::Outcome;

/// Annotations that consumers may add to one message. A message that is returned again and again must not grow.
const ADDED_MAX: usize = 256;
/// Their encoded size in bytes.
const ADDED_BYTES_MAX: usize = 32 * 1024;

/// What a state means for the broker; none when it ends nothing (`received`).
pub(super) fn outcome_of(state: &DeliveryState) -> Option<Outcome> {
    Some(match state {
        DeliveryState::Accepted => Outcome::Accepted,
        DeliveryState::Rejected(error) => Outcome::Rejected {
            reason: error.as_ref().map(|error| {
                let text = error
                    .description
                    .as_ref()
                    .map(|text| Bytes::copy_from_slice(text.as_bytes()));
                (
                    Bytes::copy_from_slice(error.condition.as_str().as_bytes()),
                    text.unwrap_or_default(),
                )
            }),
        },
        DeliveryState::Released => Outcome::Released,
        DeliveryState::Modified(modified) => modified_of(modified),
        _ => return None,
    })
}

fn modified_of(modified: &Modified) -> Outcome {
    let annotations = modified
        .message_annotations
        .as_ref()
        .map(legal_annotations)
        .filter(|map| !map.is_empty());
    Outcome::Modified {
        failed: modified.delivery_failed,
        undeliverable_here: modified.undeliverable_here,
        annotations: annotations.as_ref().map(encode_map),
    }
}

/// What of a consumer's annotations may stand in a message (part 3, 3.2.10): symbols that begin with `x-`. The rest is
/// reserved, and the next receiver would have to refuse the message for it. A string counts as the symbol that it
/// spells, because Proton's bindings send those.
fn legal_annotations(asked: &Map) -> Map {
    if asked.len() > ADDED_MAX {
        log::debug!("a modified outcome adds too many annotations; none of them is kept");
        return Map::new();
    }
    let legal_key = |key: &Value| {
        let name = match key {
            Value::Symbol(name) => name.clone(),
            Value::Str(text) => Symbol::new(text.as_str())?,
            _ => return None,
        };
        name.as_bytes()
            .starts_with(b"x-")
            .then_some(Value::Symbol(name))
    };
    let legal = asked
        .iter()
        .filter_map(|(key, value)| Some((legal_key(key)?, value.clone())))
        .collect();
    merge(Map::new(), &legal)
}

/// A `modified` adds its annotations to those of earlier consumers. Above the bounds the earlier ones stay as they are.
pub(super) fn with_earlier(outcome: Outcome, earlier: Option<&Bytes>) -> Outcome {
    let Outcome::Modified {
        failed,
        undeliverable_here,
        annotations: Some(added),
    } = outcome
    else {
        return outcome;
    };
    let earlier = earlier.map(decode_map).unwrap_or_default();
    let merged = merge(earlier, &decode_map(&added));
    let encoded = encode_map(&merged);
    let is_kept = merged.len() <= ADDED_MAX && encoded.len() <= ADDED_BYTES_MAX;
    if !is_kept {
        log::debug!(
            "a message has as many annotations of consumers as it may; new ones are not kept"
        );
    }
    Outcome::Modified {
        failed,
        undeliverable_here,
        annotations: is_kept.then_some(encoded),
    }
}

/// A map as the broker keeps it: AMQP-encoded, opaque to the broker.
pub(super) fn encode_map(map: &Map) -> Bytes {
    encode(&Value::Map(map.clone()))
}

/// Lays `added` over `base`: equal keys take the newer value, new ones are appended. Each map is walked once, for
/// publishers choose how long the base is.
pub(super) fn merge(mut base: Map, added: &Map) -> Map {
    // Equal keys have equal encodings.
    let mut newest: BTreeMap<Bytes, &Value> = added
        .iter()
        .map(|(key, value)| (encode(key), value))
        .collect();
    for (key, value) in &mut base {
        if let Some(new) = newest.remove(&encode(key)) {
            *value = new.clone();
        }
    }
    for (key, _) in added {
        if let Some(new) = newest.remove(&encode(key)) {
            base.push((key.clone(), new.clone()));
        }
    }
    base
}

fn encode(value: &Value) -> Bytes {
    let mut buf = BytesMut::new();
    value.encode(&mut buf);
    buf.freeze()
}

/// Reads a map that [`encode_map`] or a peer wrote; empty when it is not a map.
pub(super) fn decode_map(encoded: &Bytes) -> Map {
    match Value::decode(encoded) {
        Ok((Value::Map(map), _)) => map,
        _ => Map::default(),
    }
}
