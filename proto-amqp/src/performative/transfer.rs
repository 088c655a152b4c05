//! `transfer`: a piece of a message (part 2, 2.7.5). The hottest composite, so it is read and written by hand.

use alloc::boxed::Box;

use bytes::BytesMut;

use super::{DeliveryState, RcvSettleMode};
use crate::codec::{Fields, ListWriter, Reader, code};
use crate::types::{DecodeError, DeliveryTag};

/// Carries a message or a piece of it; its payload follows it in the frame (part 2, 2.7.5).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transfer {
    /// The link.
    pub handle: u32,
    /// Number of the delivery on its session; needed in its first transfer.
    pub delivery_id: Option<u32>,
    /// Name of the delivery on its link; needed in its first transfer.
    pub delivery_tag: Option<DeliveryTag>,
    /// Format of the message; needed in its first transfer.
    pub message_format: Option<u32>,
    /// The sender has settled it; none: as in the transfers before, or not.
    pub settled: Option<bool>,
    /// More transfers of this delivery follow.
    pub more: bool,
    /// How the receiver is to settle this delivery.
    pub rcv_settle_mode: Option<RcvSettleMode>,
    /// State of the delivery at the sender.
    pub state: Option<Box<DeliveryState>>,
    /// Resumes a delivery that was not settled.
    pub resume: bool,
    /// The delivery is given up.
    pub aborted: bool,
    /// The peer may wait with its disposition.
    pub batchable: bool,
}

/// Bytes that a transfer without a state takes at most: 6 of descriptor and list, 5 + 5 + 34 + 5 for numbers and tag,
/// 8 for the rest; rounded up.
const BRIEF_MAX: usize = 72;
/// Descriptor, constructor, size and count.
const HEAD_LEN: usize = 6;

impl Transfer {
    /// Code of its descriptor.
    pub const DESCRIPTOR: u64 = 0x14;

    #[inline]
    pub(crate) fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = Fields::begin(reader)?;
        let handle = fields
            .next("handle")?
            .ok_or(DecodeError::FieldMissing("handle"))?;
        let delivery_id = fields.next("delivery-id")?;
        let delivery_tag = fields.next("delivery-tag").map_err(|error| match error {
            DecodeError::FieldRange(_) => DecodeError::DeliveryTagTooLong { handle },
            other => other,
        })?;
        let mut transfer = Self {
            handle,
            delivery_id,
            delivery_tag,
            message_format: fields.next("message-format")?,
            settled: fields.next("settled")?,
            ..Self::default()
        };
        // Most transfers end here or say one thing more; six questions about what is not there cost a fifth of it all.
        if fields.has_more() {
            transfer.more = fields.next("more")?.unwrap_or(false);
        }
        if fields.has_more() {
            transfer.read_rest(&mut fields)?;
        }
        fields.finish()?;
        Ok(transfer)
    }

    #[inline(never)]
    fn read_rest(&mut self, fields: &mut Fields<'_, '_>) -> Result<(), DecodeError> {
        self.rcv_settle_mode = fields.next("rcv-settle-mode")?;
        self.state = fields.next("state")?;
        self.resume = fields.next("resume")?.unwrap_or(false);
        self.aborted = fields.next("aborted")?.unwrap_or(false);
        self.batchable = fields.next("batchable")?.unwrap_or(false);
        Ok(())
    }

    /// Appends the encoded form.
    #[inline]
    pub fn encode(&self, buf: &mut BytesMut) {
        if self.state.is_some() {
            self.encode_with_state(buf);
            return;
        }
        // Put together on the stack, so that the buffer is asked for room once.
        let mut brief = Brief {
            bytes: [0; BRIEF_MAX],
            len: HEAD_LEN,
            kept_len: HEAD_LEN,
            count: 0,
            kept_count: 0,
        };
        brief.uint(Some(self.handle));
        brief.uint(self.delivery_id);
        brief.tag(self.delivery_tag.as_ref());
        brief.uint(self.message_format);
        brief.flag(self.settled);
        brief.flag(self.more.then_some(true));
        brief.mode(self.rcv_settle_mode);
        brief.flag(None);
        brief.flag(self.resume.then_some(true));
        brief.flag(self.aborted.then_some(true));
        brief.flag(self.batchable.then_some(true));
        // The size counts the count, but not itself and what stands before it.
        let size = (brief.kept_len - HEAD_LEN + 1) as u8;
        let descriptor = Self::DESCRIPTOR as u8;
        let head = [
            code::DESCRIBED,
            code::SMALLULONG,
            descriptor,
            code::LIST8,
            size,
            brief.kept_count,
        ];
        brief.bytes[..HEAD_LEN].copy_from_slice(&head);
        buf.extend_from_slice(&brief.bytes[..brief.kept_len]);
    }

    #[cold]
    fn encode_with_state(&self, buf: &mut BytesMut) {
        let mut list = ListWriter::begin(buf, Self::DESCRIPTOR as u8);
        list.field(Some(&self.handle));
        list.field(self.delivery_id.as_ref());
        list.field(self.delivery_tag.as_ref());
        list.field(self.message_format.as_ref());
        list.field(self.settled.as_ref());
        list.field(self.more.then_some(&true));
        list.field(self.rcv_settle_mode.as_ref());
        list.field(self.state.as_ref());
        list.field(self.resume.then_some(&true));
        list.field(self.aborted.then_some(&true));
        list.field(self.batchable.then_some(&true));
        list.short();
    }
}

/// A list under construction on the stack, with the end of its last field that is there.
struct Brief {
    bytes: [u8; BRIEF_MAX],
    len: usize,
    kept_len: usize,
    count: u8,
    kept_count: u8,
}

impl Brief {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self.count += 1;
        self.kept_len = self.len;
        self.kept_count = self.count;
    }

    #[inline]
    fn null(&mut self) {
        self.bytes[self.len] = code::NULL;
        self.len += 1;
        self.count += 1;
    }

    #[inline]
    fn uint(&mut self, value: Option<u32>) {
        match value {
            None => self.null(),
            Some(0) => self.put(&[code::UINT0]),
            Some(small @ 1..=255) => self.put(&[code::SMALLUINT, small as u8]),
            Some(large) => {
                let [a, b, c, d] = large.to_be_bytes();
                self.put(&[code::UINT, a, b, c, d]);
            }
        }
    }

    #[inline]
    fn flag(&mut self, value: Option<bool>) {
        match value {
            None => self.null(),
            Some(true) => self.put(&[code::TRUE]),
            Some(false) => self.put(&[code::FALSE]),
        }
    }

    #[inline]
    fn mode(&mut self, value: Option<RcvSettleMode>) {
        match value {
            None => self.null(),
            Some(mode) => self.put(&[code::UBYTE, mode as u8]),
        }
    }

    #[inline]
    fn tag(&mut self, value: Option<&DeliveryTag>) {
        let Some(tag) = value else { return self.null() };
        let mut bytes = [0; 2 + DeliveryTag::LEN_MAX];
        bytes[0] = code::BINARY8;
        bytes[1] = tag.len() as u8;
        bytes[2..2 + tag.len()].copy_from_slice(tag.as_slice());
        self.put(&bytes[..2 + tag.len()]);
    }
}
