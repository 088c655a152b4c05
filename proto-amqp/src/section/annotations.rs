//! Rules for the keys of annotations (part 3, 3.2.10) and application properties (3.2.5).

use bytes::{BufMut, Bytes, BytesMut};

use super::lookup::{Entries, Key};
use super::{SectionError, SectionRange, Sections};
use crate::codec::{code, put_map};
use crate::types::{Map, Symbol};

impl Sections {
    /// Checks the keys of all annotations and application properties; values are passed by their sizes.
    ///
    /// Keys that are reserved for the standard are errors here, because no such key is understood.
    ///
    /// # Errors
    /// The first rule that a key breaks, or a map that cannot be read.
    pub fn check_annotations(&self, message: &Bytes) -> Result<(), SectionError> {
        let all = [
            &self.delivery_annotations,
            &self.message_annotations,
            &self.application_properties,
            &self.footer,
        ];
        if all.into_iter().all(Option::is_none) {
            // As most messages are.
            return Ok(());
        }
        check_annotation_keys(
            message,
            self.delivery_annotations.as_ref(),
            "delivery-annotations",
        )?;
        check_annotation_keys(
            message,
            self.message_annotations.as_ref(),
            "message-annotations",
        )?;
        check_annotation_keys(message, self.footer.as_ref(), "footer")?;
        let Some(range) = &self.application_properties else {
            return Ok(());
        };
        let mut entries = Entries::begin(message, range.value.start)?;
        while let Some(key) = entries.next_key()? {
            if !matches!(key, Key::Str(_)) {
                return Err(SectionError::KeyType("application-properties"));
            }
            entries.skip_value()?;
        }
        Ok(entries.finish()?)
    }
}

fn check_annotation_keys(
    message: &Bytes,
    range: Option<&SectionRange>,
    section: &'static str,
) -> Result<(), SectionError> {
    let Some(range) = range else { return Ok(()) };
    let mut entries = Entries::begin(message, range.value.start)?;
    while let Some(key) = entries.next_key()? {
        match key {
            Key::Symbol(name) if name.starts_with(b"x-") => {}
            Key::Symbol(name) => {
                let key = Symbol::from_ascii(Bytes::copy_from_slice(name)).unwrap_or_default();
                return Err(SectionError::ReservedKey(key));
            }
            Key::Ulong(number) => return Err(SectionError::ReservedNumber(number)),
            Key::Str(_) | Key::Other => return Err(SectionError::KeyType(section)),
        }
        entries.skip_value()?;
    }
    Ok(entries.finish()?)
}

/// Appends a message-annotations section (part 3, 3.2.3).
pub fn encode_message_annotations(annotations: &Map, buf: &mut BytesMut) {
    buf.put_slice(&[code::DESCRIBED, code::SMALLULONG, 0x72]);
    put_map(buf, annotations);
}
