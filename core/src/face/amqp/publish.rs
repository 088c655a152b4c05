//! A delivery from the peer becomes a message: its sections are found, what routing needs is read, the rest stays
//! as it came.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use qq_proto_amqp::section::{SectionError, Sections};
use qq_proto_amqp::types::Value;

use super::wishes::wishes_of;
use crate::vocab::{Envelope, Format, Message};

/// Reads a whole message, in the form in which it is passed on: to move it costs as much as to read it.
///
/// # Errors
/// What is wrong with it; nothing of it was kept.
pub(in crate::face) fn message_of(
    message_format: u32,
    mut payload: Bytes,
) -> Result<Arc<Message>, SectionError> {
    let sections = Sections::scan(&payload)?;
    let mut envelope = Envelope {
        priority: DEFAULT_PRIORITY,
        ..Envelope::default()
    };
    if let Some(header) = sections.header(&payload)? {
        envelope.durable = header.durable;
        envelope.has_priority = header.priority.is_some();
        envelope.priority = header.priority.unwrap_or(DEFAULT_PRIORITY);
        envelope.ttl_ms = header.ttl.map(u64::from);
        envelope.delivery_count = header.delivery_count;
    }
    if sections.properties.is_some() {
        read_properties(&mut envelope, &sections, &payload)?;
    }
    sections.check_annotations(&payload)?;
    envelope.wishes = wishes_of(&payload, &sections)?;
    // Header and delivery annotations are for this hop only; the bare message and its annotations go on bit for bit.
    payload.advance(sections.kept_from());
    let format = Format::Amqp(message_format);
    Ok(Arc::new(Message {
        envelope,
        format,
        payload,
    }))
}

/// Part 3, 3.2.1: the priority of a message that names none.
const DEFAULT_PRIORITY: u8 = 4;

/// Apart, since properties are large, and a message without them does not pay for it.
#[inline(never)]
fn read_properties(
    envelope: &mut Envelope,
    sections: &Sections,
    payload: &Bytes,
) -> Result<(), SectionError> {
    let Some(properties) = sections.properties(payload)? else {
        return Ok(());
    };
    envelope.expires_at_ms = properties.absolute_expiry_time;
    envelope.to = properties.to.and_then(|to| match to {
        Value::Str(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
        _ => None,
    });
    envelope.subject = properties
        .subject
        .map(|text| Bytes::copy_from_slice(text.as_bytes()));
    envelope.group_id = properties
        .group_id
        .map(|text| Bytes::copy_from_slice(text.as_bytes()));
    Ok(())
}
