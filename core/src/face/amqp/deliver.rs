//! A message of the broker becomes a delivery to the peer: the header is written anew (part 3, 3.2.1), annotations
//! that consumers added are merged, everything else goes out as it came in.

use bytes::{Buf, Bytes, BytesMut};
use qq_proto_amqp::section::{Header, Sections};
use qq_proto_amqp::types::{DeliveryTag, Map};

use super::death::annotations_of;
use super::outcome::{decode_map, merge};
use super::stream::{offset_entry, put_offset_section};
use crate::face::mapping;
use crate::vocab::{Delivered, Format};

/// Bytes before the payload: the header, when there is something to say.
#[derive(Default)]
pub(super) struct Head {
    buf: BytesMut,
}

impl Head {
    /// Writes the sections that precede what is kept of the message, and returns the rest of the message.
    ///
    /// A message that came without a header and has no history leaves without one: absent means the defaults.
    pub(super) fn write(
        &mut self,
        delivered: &Delivered,
        has_offset: bool,
    ) -> (&[u8], Option<Bytes>) {
        self.buf.clear();
        let envelope = &delivered.message.envelope;
        let has_history = delivered.delivery_count > 0 || delivered.ttl_ms.is_some();
        if envelope.durable || envelope.has_priority || has_history {
            let header = Header {
                durable: envelope.durable,
                priority: envelope.has_priority.then_some(envelope.priority),
                ttl: delivered
                    .ttl_ms
                    .map(|ttl| u32::try_from(ttl).unwrap_or(u32::MAX)),
                first_acquirer: delivered.first_acquirer,
                delivery_count: delivered.delivery_count,
            };
            header.encode(&mut self.buf);
        }
        let converted = sections_of(delivered);
        let payload = converted.as_ref().unwrap_or(&delivered.message.payload);
        let deaths = delivered.message.envelope.deaths.as_deref();
        let mut added = match (&delivered.annotations, deaths) {
            (None, None) => None,
            (Some(added), None) => Some(decode_map(added)),
            (added, Some(deaths)) => {
                let earlier = added.as_ref().map(decode_map).unwrap_or_default();
                Some(merge(earlier, &annotations_of(deaths)))
            }
        };
        if has_offset {
            let offset = delivered.seq.0;
            if added.is_none() && !has_annotations(payload) {
                put_offset_section(offset, &mut self.buf);
                return (&self.buf, converted);
            }
            let entry = [offset_entry(offset)].into_iter().collect();
            added = Some(merge(added.unwrap_or_default(), &entry));
        }
        let rest = match added {
            Some(added) => Some(self.write_annotations(payload, added)),
            None => converted,
        };
        (&self.buf, rest)
    }

    fn write_annotations(&mut self, payload: &Bytes, added: Map) -> Bytes {
        let mut rest = payload.clone();
        let mut annotations = added;
        if let Ok(sections) = Sections::scan(payload)
            && let Some(range) = sections.message_annotations
        {
            annotations = merge(
                decode_map(&payload.slice(range.value.clone())),
                &annotations,
            );
            rest.advance(range.end());
        }
        qq_proto_amqp::section::encode_message_annotations(&annotations, &mut self.buf);
        rest
    }
}

/// Whether kept sections begin with message annotations. What is written otherwise than in the usual short form counts as
/// having some.
fn has_annotations(payload: &[u8]) -> bool {
    !matches!(payload, [0x00, 0x53, code, ..] if *code != 0x72)
}

/// The sections of a message that came by another protocol; none when it has its own.
fn sections_of(delivered: &Delivered) -> Option<Bytes> {
    if delivered.message.format != Format::Binary {
        return None;
    }
    match mapping::sections_of(&delivered.message.payload) {
        Ok(sections) => Some(sections),
        Err(damaged) => {
            // Nothing but a fault of ours makes such a record; an empty message tells the consumer more than silence.
            log::error!(
                "message {} of queue {}: {damaged}",
                delivered.seq.0,
                delivered.queue.0
            );
            Some(Bytes::from_static(&[0x00, 0x53, 0x75, 0xa0, 0x00]))
        }
    }
}

/// The message-format of the transfer. Payloads of other protocols are converted.
pub(super) fn message_format(format: Format) -> u32 {
    match format {
        Format::Amqp(format) => format,
        Format::Binary => 0,
    }
}

/// Eight bytes that are unique on the link for as long as the link lives.
pub(super) fn tag_of(delivery: u64) -> DeliveryTag {
    DeliveryTag::new(&delivery.to_be_bytes()).unwrap_or_default()
}
