//! A version of a schema as it is stored, and its bytes.

use bytes::Bytes;

use super::compat::{Compatibility, Retired};
use crate::store::codec::{Malformed, Reader, put_bytes, put_signed, put_varint};

/// One version of a subject. Never changed once it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaVersion {
    /// The name that it is registered under: that of its queue, as a rule.
    pub subject: String,
    /// Counts from 1 for each subject.
    pub version: u32,
    /// The full name of the message type.
    pub message_type: String,
    /// A serialized `FileDescriptorSet`.
    pub descriptor: Bytes,
    /// The text that it was compiled from, if it came as text.
    pub source: Option<String>,
    /// What the next version is held to.
    pub compatibility: Compatibility,
    /// Messages with fields that the schema does not know are refused.
    pub refuses_unknown_fields: bool,
    /// Milliseconds since the Unix epoch.
    pub registered_at_ms: i64,
    /// Fields that earlier versions had, so that their numbers do not come back as another type.
    pub retired: Retired,
}

mod flag {
    pub(super) const SOURCE: u64 = 1;
    pub(super) const REFUSES_UNKNOWN: u64 = 1 << 1;
    pub(super) const RETIRED: u64 = 1 << 2;
    pub(super) const ALL: u64 = (1 << 3) - 1;
}

impl SchemaVersion {
    /// Bytes that it takes, about.
    #[must_use]
    pub fn cost(&self) -> usize {
        let retired = self.retired.iter();
        let retired = retired.map(|((message, _), was)| message.len() + was.len() + 8);
        self.descriptor.len()
            + self.source.as_ref().map_or(0, String::len)
            + self.subject.len()
            + self.message_type.len()
            + retired.sum::<usize>()
            + 64
    }

    /// Appends it to `out`; new fields take new bits of the mask that leads.
    pub fn write(&self, out: &mut Vec<u8>) {
        let set = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        let mask = set(self.source.is_some(), flag::SOURCE)
            | set(self.refuses_unknown_fields, flag::REFUSES_UNKNOWN)
            | set(!self.retired.is_empty(), flag::RETIRED);
        put_varint(out, mask);
        put_bytes(out, self.subject.as_bytes());
        put_varint(out, u64::from(self.version));
        put_bytes(out, self.message_type.as_bytes());
        put_bytes(out, &self.descriptor);
        let rules = Compatibility::ALL.iter();
        let number = rules
            .take_while(|rule| **rule != self.compatibility)
            .count();
        put_varint(out, number as u64);
        put_signed(out, self.registered_at_ms);
        if let Some(source) = &self.source {
            put_bytes(out, source.as_bytes());
        }
        if !self.retired.is_empty() {
            put_varint(out, self.retired.len() as u64);
            for ((message, number), was) in &self.retired {
                put_bytes(out, message.as_bytes());
                put_varint(out, u64::from(*number));
                put_bytes(out, was.as_bytes());
            }
        }
    }

    /// Reads what [`SchemaVersion::write`] wrote.
    ///
    /// # Errors
    /// [`Malformed`] for other bytes.
    pub fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let mask = reader.varint()?;
        if mask & !flag::ALL != 0 {
            return Err(Malformed::Newer);
        }
        let has = |bit: u64| mask & bit != 0;
        let mut version = Self {
            subject: text(&mut reader)?,
            version: reader.varint_u32()?,
            message_type: text(&mut reader)?,
            descriptor: Bytes::copy_from_slice(reader.bytes()?),
            source: None,
            compatibility: {
                let number = usize::try_from(reader.varint()?).map_err(|_| Malformed::Range)?;
                *Compatibility::ALL.get(number).ok_or(Malformed::Newer)?
            },
            refuses_unknown_fields: has(flag::REFUSES_UNKNOWN),
            registered_at_ms: reader.signed()?,
            retired: Retired::new(),
        };
        if has(flag::SOURCE) {
            version.source = Some(text(&mut reader)?);
        }
        if has(flag::RETIRED) {
            for _ in 0..reader.count()? {
                let key = (text(&mut reader)?, reader.varint_u32()?);
                version.retired.insert(key, text(&mut reader)?);
            }
        }
        Ok(version)
    }
}

fn text(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| Malformed::Range)
}
