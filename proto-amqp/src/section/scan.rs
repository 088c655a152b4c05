//! Finds the sections of a message: order and multiplicity (part 3, 3.2) are checked, contents are passed by their
//! sizes.

use core::ops::Range;

use bytes::Bytes;

use super::SectionError;
use crate::codec::{Reader, code};

/// Most sections that a message may have; only bodies of many data or sequence sections come near it.
pub const SECTIONS_MAX: u32 = 1_024;

/// Where a section lies in its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionRange {
    /// First byte of the section, which is its descriptor's.
    pub start: usize,
    /// The encoded value without its descriptor.
    pub value: Range<usize>,
}

impl SectionRange {
    /// First byte behind the section.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.value.end
    }
}

/// What the body consists of (part 3, 3.2.6 to 3.2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// One or more binaries.
    Data,
    /// One or more lists.
    Sequence,
    /// One value of any type.
    Value,
}

/// The body sections, which stand in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// What they are.
    pub kind: BodyKind,
    /// How many.
    pub count: u32,
    /// Where they are, descriptors included.
    pub range: Range<usize>,
}

/// The sections of one message, as places in its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sections {
    /// Of this hop (3.2.1).
    pub header: Option<SectionRange>,
    /// Of this hop (3.2.2).
    pub delivery_annotations: Option<SectionRange>,
    /// Of the infrastructure, hop by hop (3.2.3).
    pub message_annotations: Option<SectionRange>,
    /// Immutable (3.2.4).
    pub properties: Option<SectionRange>,
    /// Immutable (3.2.5).
    pub application_properties: Option<SectionRange>,
    /// Immutable (3.2.6 to 3.2.8).
    pub body: Body,
    /// Behind the body (3.2.9).
    pub footer: Option<SectionRange>,
}

const FIRST: u64 = 0x70;
const DATA: u64 = 0x75;
const SEQUENCE: u64 = 0x76;
const VALUE: u64 = 0x77;
const FOOTER: u64 = 0x78;

/// Names by descriptor code from [`FIRST`] on.
const NAMES: [&str; 9] = [
    "header",
    "delivery-annotations",
    "message-annotations",
    "properties",
    "application-properties",
    "data",
    "amqp-sequence",
    "amqp-value",
    "footer",
];

fn code_of_symbol(symbol: &[u8]) -> Option<u64> {
    Some(match symbol {
        b"amqp:header:list" => FIRST,
        b"amqp:delivery-annotations:map" => 0x71,
        b"amqp:message-annotations:map" => 0x72,
        b"amqp:properties:list" => 0x73,
        b"amqp:application-properties:map" => 0x74,
        b"amqp:data:binary" => DATA,
        b"amqp:amqp-sequence:list" => SEQUENCE,
        b"amqp:amqp-value:*" => VALUE,
        b"amqp:footer:map" => FOOTER,
        _ => return None,
    })
}

/// Whether a section may hold a value with this constructor.
const fn is_type_of(section: u64, constructor: u8) -> bool {
    match section {
        0x70 | 0x73 | SEQUENCE => matches!(constructor, code::LIST0 | code::LIST8 | code::LIST32),
        DATA => matches!(constructor, code::BINARY8 | code::BINARY32),
        VALUE => true,
        _ => matches!(constructor, code::MAP8 | code::MAP32),
    }
}

impl Sections {
    /// Finds the sections of a whole message.
    ///
    /// Header, properties and maps are not decoded here, so that they cost nothing to those who do not read them: see
    /// [`header`](Self::header), [`properties`](Self::properties) and [`check_annotations`](Self::check_annotations).
    ///
    /// # Errors
    /// The first rule of part 3, 3.2 that the message breaks; [`SectionError::NoBody`] when all there is is fine.
    pub fn scan(message: &Bytes) -> Result<Self, SectionError> {
        let mut reader = Reader::new(message);
        let mut found: [Option<SectionRange>; 9] = [const { None }; 9];
        let mut body: Option<Body> = None;
        let mut last = 0_u64;
        let mut count = 0;
        while reader.left() > 0 {
            count += 1;
            if count > SECTIONS_MAX {
                return Err(SectionError::TooManySections);
            }
            let (section, range) = next_section(&mut reader)?;
            let index = (section - FIRST) as usize;
            let name = NAMES[index];
            if matches!(section, DATA | SEQUENCE | VALUE) {
                if last > VALUE {
                    return Err(SectionError::OutOfOrder(name));
                }
                join_body(&mut body, section, &range)?;
            } else if section == last {
                return Err(SectionError::Repeated(name));
            } else if section < last {
                return Err(if found[index].is_some() {
                    SectionError::Repeated(name)
                } else {
                    SectionError::OutOfOrder(name)
                });
            } else {
                found[index] = Some(range);
            }
            last = section;
        }
        let [
            header,
            delivery_annotations,
            message_annotations,
            properties,
            application_properties,
            ..,
            footer,
        ] = found;
        let body = body.ok_or(SectionError::NoBody)?;
        Ok(Self {
            header,
            delivery_annotations,
            message_annotations,
            properties,
            application_properties,
            body,
            footer,
        })
    }

    /// Where that begins which a broker keeps: everything behind header and delivery annotations, which are for one
    /// hop only.
    #[must_use]
    pub fn kept_from(&self) -> usize {
        self.delivery_annotations
            .as_ref()
            .or(self.header.as_ref())
            .map_or(0, SectionRange::end)
    }
}

/// The next section: its code, a known one, and its place.
#[inline]
fn next_section(reader: &mut Reader<'_>) -> Result<(u64, SectionRange), SectionError> {
    let start = reader.at();
    if reader.byte()? != code::DESCRIBED {
        return Err(SectionError::NotASection);
    }
    let found = reader.descriptor(code_of_symbol)?;
    let Some(section) = found.filter(|section| (FIRST..=FOOTER).contains(section)) else {
        return Err(SectionError::UnknownSection(found));
    };
    let value_start = reader.at();
    let constructor = reader.peek()?;
    if !is_type_of(section, constructor) {
        return Err(SectionError::WrongType(NAMES[(section - FIRST) as usize]));
    }
    reader.skip_value()?;
    Ok((
        section,
        SectionRange {
            start,
            value: value_start..reader.at(),
        },
    ))
}

fn join_body(
    body: &mut Option<Body>,
    section: u64,
    range: &SectionRange,
) -> Result<(), SectionError> {
    let kind = match section {
        DATA => BodyKind::Data,
        SEQUENCE => BodyKind::Sequence,
        _ => BodyKind::Value,
    };
    match body {
        None => {
            *body = Some(Body {
                kind,
                count: 1,
                range: range.start..range.end(),
            })
        }
        Some(known) if known.kind != kind => return Err(SectionError::MixedBody),
        Some(_) if kind == BodyKind::Value => return Err(SectionError::Repeated("amqp-value")),
        Some(known) => {
            known.count += 1;
            known.range.end = range.end();
        }
    }
    Ok(())
}
