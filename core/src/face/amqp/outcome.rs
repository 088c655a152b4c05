//! Delivery states of part 3, 3.4 as outcomes of the broker.

use bytes::{Bytes, BytesMut};
use qq_proto_amqp::performative::{DeliveryState, Modified};
use qq_proto_amqp::types::{Map, Value};

use crate::vocab::Outcome;

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
        .filter(|map| !map.is_empty())
        .map(encode_map);
    Outcome::Modified {
        failed: modified.delivery_failed,
        undeliverable_here: modified.undeliverable_here,
        annotations,
    }
}

/// A map as the broker keeps it: AMQP-encoded, opaque to the broker.
pub(super) fn encode_map(map: &Map) -> Bytes {
    let mut buf = BytesMut::new();
    Value::Map(map.clone()).encode(&mut buf);
    buf.freeze()
}

/// Lays `added` over `base`: equal keys take the newer value, new ones are appended.
pub(super) fn merge(base: Map, added: &Map) -> Map {
    let mut merged = base;
    for (key, value) in added {
        match merged.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value.clone(),
            None => merged.push((key.clone(), value.clone())),
        }
    }
    merged
}

/// Reads a map that [`encode_map`] or a peer wrote; empty when it is not a map.
pub(super) fn decode_map(encoded: &Bytes) -> Map {
    match Value::decode(encoded) {
        Ok((Value::Map(map), _)) => map,
        _ => Map::default(),
    }
}
