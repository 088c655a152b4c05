//! The header section (part 3, 3.2.1): how this hop is to treat the message.

use bytes::Bytes;

use super::{SectionError, Sections};
use crate::codec::{Reader, composite};

composite! {
    /// How a message is to be treated on its way (part 3, 3.2.1).
    Header = 0x70, short {
        /// Not to be lost with the node.
        durable["durable"]: default bool = false,
        /// Relative importance; none counts as 4.
        priority["priority"]: optional u8,
        /// Milliseconds that it lives.
        ttl["ttl"]: optional u32,
        /// Nobody else acquired it before.
        first_acquirer["first-acquirer"]: default bool = false,
        /// Failed attempts to deliver it.
        delivery_count["delivery-count"]: default u32 = 0,
    }
}

impl Sections {
    /// Reads the header of the message that was scanned.
    ///
    /// # Errors
    /// A field of the wrong type, which is never taken for a default.
    pub fn header(&self, message: &Bytes) -> Result<Option<Header>, SectionError> {
        let Some(range) = &self.header else {
            return Ok(None);
        };
        Ok(Some(Header::read_fields(&mut Reader::starting_at(
            message,
            range.value.start,
        ))?))
    }
}
