//! The properties section (part 3, 3.2.4): what the sender says about the message, immutable.

use bytes::Bytes;

use super::{SectionError, Sections};
use crate::codec::{Reader, composite};
use crate::types::{DecodeError, Str, Symbol, Value};

composite! {
    /// Standard properties of a message (part 3, 3.2.4).
    Properties = 0x73, short {
        /// Its id: an ulong, a uuid, a binary or a string, kept as what it is.
        message_id["message-id"]: optional Value,
        /// Who made it.
        user_id["user-id"]: optional Bytes,
        /// Address of the node that it is meant for.
        to["to"]: optional Value,
        /// What it is about.
        subject["subject"]: optional Str,
        /// Address of the node that answers go to.
        reply_to["reply-to"]: optional Value,
        /// What it belongs to: an id of the same types as `message_id`.
        correlation_id["correlation-id"]: optional Value,
        /// Media type of the body (RFC 2046).
        content_type["content-type"]: optional Symbol,
        /// Encoding of the body (RFC 2616).
        content_encoding["content-encoding"]: optional Symbol,
        /// When it expires, in milliseconds since 1970.
        absolute_expiry_time["absolute-expiry-time"]: optional i64,
        /// When it was made, in milliseconds since 1970.
        creation_time["creation-time"]: optional i64,
        /// Group that it belongs to.
        group_id["group-id"]: optional Str,
        /// Its place in the group.
        group_sequence["group-sequence"]: optional u32,
        /// Group that answers belong to.
        reply_to_group_id["reply-to-group-id"]: optional Str,
    }
}

impl Sections {
    /// Reads the properties of the message that was scanned.
    ///
    /// # Errors
    /// A field of the wrong type.
    pub fn properties(&self, message: &Bytes) -> Result<Option<Properties>, SectionError> {
        let Some(range) = &self.properties else {
            return Ok(None);
        };
        let properties =
            Properties::read_fields(&mut Reader::starting_at(message, range.value.start))?;
        check_id(properties.message_id.as_ref(), "message-id")?;
        check_id(properties.correlation_id.as_ref(), "correlation-id")?;
        Ok(Some(properties))
    }
}

/// Part 3, 3.2.11 to 3.2.14: four types can be an id.
const fn check_id(id: Option<&Value>, name: &'static str) -> Result<(), DecodeError> {
    match id {
        None | Some(Value::Ulong(_) | Value::Uuid(_) | Value::Binary(_) | Value::Str(_)) => Ok(()),
        Some(_) => Err(DecodeError::FieldType(name)),
    }
}
