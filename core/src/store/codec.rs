//! Messages as bytes, for stores and for anything else that keeps or sends [`super::Op`]s.
//!
//! A message is a mask of what differs from the usual, the fields that the mask names in the order of its bits, then
//! the payload to the end. New fields take new bits, so old bytes stay readable, and a reader that meets a bit it does
//! not know refuses: the bytes were written by a newer version. Integers are little-endian groups of seven bits.

use std::sync::Arc;

use bytes::Bytes;

use crate::vocab::{Cause, Death, Deaths, Delay, Envelope, Format, Message, Wishes};

/// Bytes that no version up to this one can have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They end within a field.
    Short,
    /// A number is too large for its field.
    Range,
    /// A field that this version does not know: a newer version wrote it.
    Newer,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Short => "the bytes end within a field",
            Self::Range => "a number is out of range",
            Self::Newer => "a newer version wrote it",
        })
    }
}

/// Appends an unsigned number, 1 to 10 bytes.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number; small distances from zero are short.
#[inline]
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a length and that many bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what the `put_` functions wrote.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the first of these bytes on.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What is not read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`Malformed::Short`]; nothing is read then.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// One byte.
    ///
    /// # Errors
    /// [`Malformed::Short`].
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.rest.split_first().ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(first)
    }

    /// Four bytes, little-endian: checksums.
    ///
    /// # Errors
    /// [`Malformed::Short`].
    #[inline]
    pub fn fixed_u32(&mut self) -> Result<u32, Malformed> {
        let (first, rest) = self.rest.split_first_chunk::<4>().ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*first))
    }

    /// What [`put_varint`] wrote.
    ///
    /// # Errors
    /// [`Malformed::Short`], or [`Malformed::Range`] beyond 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        let mut shift = 0;
        loop {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed::Range);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
            if shift > 63 {
                return Err(Malformed::Range);
            }
        }
    }

    /// A number of 32 bits that [`put_varint`] wrote.
    ///
    /// # Errors
    /// [`Malformed::Short`] or [`Malformed::Range`].
    #[inline]
    pub fn varint_u32(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.varint()?).map_err(|_| Malformed::Range)
    }

    /// A number of things each of which takes at least one of the bytes left: never believed beyond them.
    ///
    /// # Errors
    /// [`Malformed::Short`] or [`Malformed::Range`].
    #[inline]
    pub fn count(&mut self) -> Result<usize, Malformed> {
        let count = usize::try_from(self.varint()?).map_err(|_| Malformed::Range)?;
        if count > self.rest.len() {
            return Err(Malformed::Short);
        }
        Ok(count)
    }

    /// What [`put_signed`] wrote.
    ///
    /// # Errors
    /// [`Malformed::Short`] or [`Malformed::Range`].
    #[inline]
    pub fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// What [`put_bytes`] wrote.
    ///
    /// # Errors
    /// [`Malformed::Short`] or [`Malformed::Range`].
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.count()?;
        self.take(len)
    }
}

/// The fields of a message that need not be there, as bits of its mask.
mod field {
    pub(super) const DURABLE: u64 = 1;
    pub(super) const HAS_PRIORITY: u64 = 1 << 1;
    pub(super) const PRIORITY: u64 = 1 << 2;
    pub(super) const TTL: u64 = 1 << 3;
    pub(super) const EXPIRES: u64 = 1 << 4;
    pub(super) const DELIVERY_COUNT: u64 = 1 << 5;
    pub(super) const TO: u64 = 1 << 6;
    pub(super) const SUBJECT: u64 = 1 << 7;
    pub(super) const GROUP_ID: u64 = 1 << 8;
    pub(super) const AMQP_FORMAT: u64 = 1 << 9;
    pub(super) const BINARY: u64 = 1 << 10;
    pub(super) const DEATHS: u64 = 1 << 11;
    pub(super) const DELAY_FOR: u64 = 1 << 12;
    pub(super) const DELAY_UNTIL: u64 = 1 << 13;
    pub(super) const DEDUP_ID: u64 = 1 << 14;
    pub(super) const WISHES: u64 = DELAY_FOR | DELAY_UNTIL | DEDUP_ID;
    /// Every bit that this version knows.
    pub(super) const ALL: u64 = (1 << 15) - 1;
}

/// The priority that takes no byte.
const PRIORITY_USUAL: u8 = 4;

/// Appends a message. It has no length of its own: the caller keeps it.
pub fn put_message(out: &mut Vec<u8>, message: &Message) {
    // Taken apart field by field, so that a new field cannot be forgotten here: give it a bit above the last one.
    let Message {
        envelope:
            Envelope {
                durable,
                priority,
                has_priority,
                ttl_ms,
                expires_at_ms,
                delivery_count,
                to,
                subject,
                group_id,
                deaths,
                wishes,
            },
        format,
        payload,
    } = message;
    let set = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
    let format_bit = match format {
        Format::Amqp(code) => set(*code != 0, field::AMQP_FORMAT),
        Format::Binary => field::BINARY,
    };
    let mask = set(*durable, field::DURABLE)
        | set(*has_priority, field::HAS_PRIORITY)
        | set(*priority != PRIORITY_USUAL, field::PRIORITY)
        | set(ttl_ms.is_some(), field::TTL)
        | set(expires_at_ms.is_some(), field::EXPIRES)
        | set(*delivery_count != 0, field::DELIVERY_COUNT)
        | set(to.is_some(), field::TO)
        | set(subject.is_some(), field::SUBJECT)
        | set(group_id.is_some(), field::GROUP_ID)
        | set(deaths.is_some(), field::DEATHS)
        | wishes.as_deref().map_or(0, wishes_mask)
        | format_bit;
    put_varint(out, mask);
    if *priority != PRIORITY_USUAL {
        out.push(*priority);
    }
    if let Some(ttl_ms) = ttl_ms {
        put_varint(out, *ttl_ms);
    }
    if let Some(expires_at_ms) = expires_at_ms {
        put_signed(out, *expires_at_ms);
    }
    if *delivery_count != 0 {
        put_varint(out, u64::from(*delivery_count));
    }
    for text in [to, subject, group_id].into_iter().flatten() {
        put_bytes(out, text);
    }
    if let Format::Amqp(code) = format
        && *code != 0
    {
        put_varint(out, u64::from(*code));
    }
    if let Some(deaths) = deaths {
        put_deaths(out, deaths);
    }
    if let Some(wishes) = wishes {
        put_wishes(out, wishes);
    }
    out.extend_from_slice(payload);
}

/// Reads a message that takes all of `bytes`. `own` makes the payload: a copy, or a slice of what the caller holds.
///
/// # Errors
/// [`Malformed`]; whether the bytes are those that were written is for a checksum to say.
pub fn read_message(bytes: &[u8], own: impl FnOnce(&[u8]) -> Bytes) -> Result<Message, Malformed> {
    let mut reader = Reader::new(bytes);
    let mask = reader.varint()?;
    if mask & !field::ALL != 0 {
        return Err(Malformed::Newer);
    }
    let has = |bit: u64| mask & bit != 0;
    let mut envelope = Envelope {
        durable: has(field::DURABLE),
        has_priority: has(field::HAS_PRIORITY),
        priority: if has(field::PRIORITY) {
            reader.byte()?
        } else {
            PRIORITY_USUAL
        },
        ttl_ms: has(field::TTL).then(|| reader.varint()).transpose()?,
        expires_at_ms: has(field::EXPIRES).then(|| reader.signed()).transpose()?,
        delivery_count: if has(field::DELIVERY_COUNT) {
            reader.varint_u32()?
        } else {
            0
        },
        to: read_text(&mut reader, has(field::TO))?,
        subject: read_text(&mut reader, has(field::SUBJECT))?,
        group_id: read_text(&mut reader, has(field::GROUP_ID))?,
        deaths: None,
        wishes: None,
    };
    let format = if has(field::BINARY) {
        Format::Binary
    } else if has(field::AMQP_FORMAT) {
        Format::Amqp(reader.varint_u32()?)
    } else {
        Format::Amqp(0)
    };
    if has(field::DEATHS) {
        envelope.deaths = Some(Arc::new(read_deaths(&mut reader)?));
    }
    if mask & field::WISHES != 0 {
        envelope.wishes = Some(Box::new(read_wishes(&mut reader, mask)?));
    }
    Ok(Message {
        envelope,
        format,
        payload: own(reader.rest()),
    })
}

fn put_deaths(out: &mut Vec<u8>, deaths: &Deaths) {
    let Deaths {
        list,
        ttl_ms,
        expires_at_ms,
    } = deaths;
    put_varint(out, list.len() as u64);
    for death in list {
        put_bytes(out, death.queue.as_bytes());
        let number = Cause::ALL.iter().position(|cause| *cause == death.cause);
        out.push(number.expect("all causes have a number") as u8);
        put_varint(out, u64::from(death.count));
        put_signed(out, death.at_ms);
    }
    out.push(u8::from(ttl_ms.is_some()) | u8::from(expires_at_ms.is_some()) << 1);
    if let Some(ttl_ms) = ttl_ms {
        put_varint(out, *ttl_ms);
    }
    if let Some(expires_at_ms) = expires_at_ms {
        put_signed(out, *expires_at_ms);
    }
}

fn read_deaths(reader: &mut Reader<'_>) -> Result<Deaths, Malformed> {
    let mut deaths = Deaths::default();
    for _ in 0..reader.count()? {
        let queue = String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| Malformed::Range)?;
        let cause = Cause::ALL.get(usize::from(reader.byte()?));
        deaths.list.push(Death {
            queue,
            cause: *cause.ok_or(Malformed::Newer)?,
            count: reader.varint_u32()?,
            at_ms: reader.signed()?,
        });
    }
    let mask = reader.byte()?;
    deaths.ttl_ms = (mask & 1 != 0).then(|| reader.varint()).transpose()?;
    deaths.expires_at_ms = (mask & 2 != 0).then(|| reader.signed()).transpose()?;
    Ok(deaths)
}

fn wishes_mask(wishes: &Wishes) -> u64 {
    let Wishes { delay, dedup_id } = wishes;
    let delay = match delay {
        None => 0,
        Some(Delay::For(_)) => field::DELAY_FOR,
        Some(Delay::Until(_)) => field::DELAY_UNTIL,
    };
    delay
        | if dedup_id.is_some() {
            field::DEDUP_ID
        } else {
            0
        }
}

fn put_wishes(out: &mut Vec<u8>, wishes: &Wishes) {
    match wishes.delay {
        None => {}
        Some(Delay::For(delay_ms)) => put_varint(out, delay_ms),
        Some(Delay::Until(at_ms)) => put_signed(out, at_ms),
    }
    if let Some(dedup_id) = &wishes.dedup_id {
        put_bytes(out, dedup_id);
    }
}

fn read_wishes(reader: &mut Reader<'_>, mask: u64) -> Result<Wishes, Malformed> {
    let delay = if mask & field::DELAY_FOR != 0 {
        Some(Delay::For(reader.varint()?))
    } else if mask & field::DELAY_UNTIL != 0 {
        Some(Delay::Until(reader.signed()?))
    } else {
        None
    };
    let dedup_id = read_text(reader, mask & field::DEDUP_ID != 0)?;
    Ok(Wishes { delay, dedup_id })
}

fn read_text(reader: &mut Reader<'_>, is_there: bool) -> Result<Option<Bytes>, Malformed> {
    is_there
        .then(|| reader.bytes().map(Bytes::copy_from_slice))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = Option<Bytes>> {
        proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from))
    }

    prop_compose! {
        fn deaths()(
            list in proptest::collection::vec((".{0,9}", 0..Cause::ALL.len(), any::<u32>(), any::<i64>()), 0..4),
            ttl_ms in any::<Option<u64>>(),
            expires_at_ms in any::<Option<i64>>(),
        ) -> Arc<Deaths> {
            let death = |(queue, cause, count, at_ms)| Death {
                queue,
                cause: Cause::ALL[cause],
                count,
                at_ms,
            };
            let list = list.into_iter().map(death).collect();
            Arc::new(Deaths { list, ttl_ms, expires_at_ms })
        }
    }

    prop_compose! {
        fn any_message()(
            flags in any::<(bool, bool)>(),
            priority in any::<u8>(),
            ttl_ms in any::<Option<u64>>(),
            expires_at_ms in any::<Option<i64>>(),
            delivery_count in any::<u32>(),
            texts in (text(), text(), text()),
            deaths in proptest::option::of(deaths()),
            wishes in wishes(),
            format in prop_oneof![any::<u32>().prop_map(Format::Amqp), Just(Format::Amqp(0)), Just(Format::Binary)],
            payload in proptest::collection::vec(any::<u8>(), 0..300),
        ) -> Message {
            Message {
                envelope: Envelope {
                    durable: flags.0,
                    has_priority: flags.1,
                    priority,
                    ttl_ms,
                    expires_at_ms,
                    delivery_count,
                    to: texts.0,
                    subject: texts.1,
                    group_id: texts.2,
                    deaths,
                    wishes,
                },
                format,
                payload: Bytes::from(payload),
            }
        }
    }

    fn wishes() -> impl Strategy<Value = Option<Box<Wishes>>> {
        let delay = proptest::option::of(prop_oneof![
            any::<u64>().prop_map(Delay::For),
            any::<i64>().prop_map(Delay::Until),
        ]);
        (delay, text()).prop_map(|(delay, dedup_id)| Wishes { delay, dedup_id }.some())
    }

    fn written(message: &Message) -> Vec<u8> {
        let mut out = Vec::new();
        put_message(&mut out, message);
        out
    }

    proptest! {
        #[test]
        fn a_message_comes_back_as_it_was(message in any_message()) {
            let bytes = written(&message);
            prop_assert_eq!(read_message(&bytes, Bytes::copy_from_slice), Ok(message));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(message) = read_message(&bytes, Bytes::copy_from_slice) {
                prop_assert!(message.payload.len() < bytes.len());
            }
        }

        #[test]
        fn numbers_come_back(value in any::<u64>(), signed in any::<i64>()) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            put_signed(&mut out, signed);
            let mut reader = Reader::new(&out);
            prop_assert_eq!((reader.varint(), reader.signed()), (Ok(value), Ok(signed)));
            prop_assert!(reader.rest().is_empty());
        }
    }

    #[test]
    fn the_bytes_of_a_usual_message_are_few_and_fixed() {
        let message = Message {
            envelope: Envelope {
                durable: true,
                priority: 4,
                ..Envelope::default()
            },
            format: Format::Amqp(0),
            payload: Bytes::from_static(b"abc"),
        };
        assert_eq!(written(&message), b"\x01abc");
    }

    #[test]
    fn what_cannot_have_been_written_is_refused() {
        let read = |bytes: &[u8]| read_message(bytes, Bytes::copy_from_slice);
        assert_eq!(read(&[]), Err(Malformed::Short));
        // Bit 20 belongs to nobody yet.
        assert_eq!(read(&[0x80, 0x80, 0x40]), Err(Malformed::Newer));
        // A subject of five bytes in two.
        assert_eq!(read(&[0x80, 0x01, 5, 1, 2]), Err(Malformed::Short));
        // Eleven groups of seven bits, and ten that hold more than 64.
        assert_eq!(Reader::new(&[0xff; 11]).varint(), Err(Malformed::Range));
        let mut beyond = [0xff; 10];
        beyond[9] = 2;
        assert_eq!(Reader::new(&beyond).varint(), Err(Malformed::Range));
    }
}
