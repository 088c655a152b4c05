//! Whether bytes are a message of a schema: one pass over them, without building anything.
//!
//! Accepted is what every protobuf reader accepts for the type: fields in any order and any number of times, repeated
//! numbers packed or not, unknown fields unless they are refused, unknown numbers of open enums. Two rules go beyond a
//! plain reader: required fields of proto2 must be there, and a number that a closed enum does not name is an unknown
//! field. Time is linear in the length, the stack is bounded by [`LEVELS_MAX`], and only a refusal allocates.

use super::shape::{Field, Kind, Label, Scalar, Shape, Shapes, Wire};
use super::unfit::Unfit;

/// Messages and groups inside each other, as in other readers of protobuf.
const LEVELS_MAX: u32 = 100;
/// Required fields of one type that are kept track of without an allocation.
const REQUIRED_WORDS: usize = 4;

/// A rule that bytes break.
#[derive(Debug)]
enum Breach {
    Short,
    Varint,
    Tag,
    WireType { wanted: Wire, found: Wire },
    Utf8,
    Level,
    Unknown(u32),
    Value(u64),
    EndOfGroup,
    Missing(Box<str>),
}

impl Breach {
    fn text(&self) -> String {
        match self {
            Self::Short => "the message ends within it".to_owned(),
            Self::Varint => "a number has more than ten bytes or 64 bits".to_owned(),
            Self::Tag => "not a field: its number or wire type does not exist".to_owned(),
            Self::WireType { wanted, found } => {
                format!(
                    "the wire type is {}, and {} is wanted",
                    found.name(),
                    wanted.name()
                )
            }
            Self::Utf8 => "a string is not valid UTF-8".to_owned(),
            Self::Level => format!("more than {LEVELS_MAX} messages inside each other"),
            Self::Unknown(number) => format!("the schema has no field {number}"),
            Self::Value(number) => format!("the enum has no value {}", *number as i32),
            Self::EndOfGroup => "a group ends that did not begin".to_owned(),
            Self::Missing(name) => format!("the required field {name} is missing"),
        }
    }
}

/// A breach on its way to the root, which collects the names of the fields that it is in.
struct Broken {
    breach: Breach,
    /// Innermost first.
    path: Vec<String>,
}

type Walked<T> = Result<T, Box<Broken>>;

#[cold]
fn broken<T>(breach: Breach) -> Walked<T> {
    let path = Vec::new();
    Err(Box::new(Broken { breach, path }))
}

/// Checks bytes against the first of the shapes.
pub(super) fn validate(
    shapes: &Shapes,
    refuses_unknown: bool,
    bytes: &[u8],
) -> Result<(), Box<Unfit>> {
    let walker = Walker {
        shapes,
        refuses_unknown,
    };
    let mut cursor = Cursor { bytes, at: 0 };
    walker.message(0, &mut cursor, None, 0).map_err(|broken| {
        let path: Vec<String> = broken.path.into_iter().rev().collect();
        Box::new(Unfit::Mismatch {
            path: path.join("."),
            what: broken.breach.text(),
        })
    })
}

#[derive(Clone)]
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    #[inline]
    fn varint(&mut self) -> Walked<u64> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Walked<u64> {
        let mut value = 0;
        for group in 0..10 {
            let Some(&byte) = self.bytes.get(self.at) else {
                return broken(Breach::Short);
            };
            self.at += 1;
            value |= u64::from(byte & 0x7f) << (7 * group);
            if byte < 0x80 {
                return match (group, byte) {
                    (9, 2..) => broken(Breach::Varint),
                    _ => Ok(value),
                };
            }
        }
        broken(Breach::Varint)
    }

    #[inline]
    fn take(&mut self, len: u64) -> Walked<&'a [u8]> {
        let left = &self.bytes[self.at..];
        match usize::try_from(len).ok().and_then(|len| left.get(..len)) {
            Some(taken) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => broken(Breach::Short),
        }
    }

    #[inline]
    fn delimited(&mut self) -> Walked<&'a [u8]> {
        let len = self.varint()?;
        self.take(len)
    }

    /// Number and wire type of the next field.
    #[inline]
    fn tag(&mut self) -> Walked<(u32, Wire)> {
        let tag = self.varint()?;
        match (u32::try_from(tag >> 3), Wire::of(tag)) {
            // What does not fit 32 bits with its wire type is out of range.
            (Ok(number @ 1..=0x1fff_ffff), Some(wire)) => Ok((number, wire)),
            _ => broken(Breach::Tag),
        }
    }

    /// Passes a value that nobody knows.
    fn skip(&mut self, number: u32, wire: Wire, level: u32) -> Walked<()> {
        match wire {
            Wire::Varint => self.varint().map(drop),
            Wire::Fixed64 => self.take(8).map(drop),
            Wire::Fixed32 => self.take(4).map(drop),
            Wire::Delimited => self.delimited().map(drop),
            Wire::End => broken(Breach::EndOfGroup),
            Wire::Start => {
                if level >= LEVELS_MAX {
                    return broken(Breach::Level);
                }
                loop {
                    match self.tag()? {
                        (inner, Wire::End) if inner == number => return Ok(()),
                        (_, Wire::End) => return broken(Breach::EndOfGroup),
                        (inner, wire) => self.skip(inner, wire, level + 1)?,
                    }
                }
            }
        }
    }
}

/// Which required fields of a message were met.
struct Met {
    few: [u64; REQUIRED_WORDS],
    many: Vec<u64>,
}

impl Met {
    fn new(required: usize) -> Self {
        let words = required.div_ceil(64);
        let many = if words > REQUIRED_WORDS {
            vec![0; words]
        } else {
            Vec::new()
        };
        let few = [0; REQUIRED_WORDS];
        Self { few, many }
    }

    fn words(&mut self) -> &mut [u64] {
        match self.many.is_empty() {
            true => &mut self.few,
            false => &mut self.many,
        }
    }

    fn note(&mut self, at: usize) {
        self.words()[at / 64] |= 1 << (at % 64);
    }

    fn has(&mut self, at: usize) -> bool {
        self.words()[at / 64] >> (at % 64) & 1 == 1
    }
}

struct Walker<'s> {
    shapes: &'s Shapes,
    refuses_unknown: bool,
}

impl Walker<'_> {
    /// A message up to the end of the bytes, or a group up to its end.
    fn message(
        &self,
        at: usize,
        cursor: &mut Cursor<'_>,
        group: Option<u32>,
        level: u32,
    ) -> Walked<()> {
        let shape = &self.shapes.messages[at];
        let begin = cursor.at;
        let mut met = (shape.required > 0).then(|| Met::new(shape.required));
        loop {
            if cursor.is_at_end() {
                match group {
                    Some(_) => return broken(Breach::Short),
                    None => break,
                }
            }
            let before = cursor.at;
            let (number, wire) = cursor.tag()?;
            if wire == Wire::End {
                match group {
                    Some(begun) if begun == number => break,
                    _ => return broken(Breach::EndOfGroup),
                }
            }
            let Some(field) = shape.field(number) else {
                self.unknown(cursor, number, wire, level)?;
                continue;
            };
            if let Err(mut broken) = self.field(field, wire, cursor, level) {
                let told = Cursor {
                    bytes: &cursor.bytes[..before],
                    at: begin,
                };
                broken.path.push(place_of(field, told));
                return Err(broken);
            }
            if let Some(met) = &mut met
                && field.label == Label::Required
            {
                met.note(field.required_at);
            }
        }
        match met {
            Some(met) => require_all(shape, met),
            None => Ok(()),
        }
    }

    fn unknown(&self, cursor: &mut Cursor<'_>, number: u32, wire: Wire, level: u32) -> Walked<()> {
        cursor.skip(number, wire, level)?;
        match self.refuses_unknown {
            true => broken(Breach::Unknown(number)),
            false => Ok(()),
        }
    }

    #[inline]
    fn field(&self, field: &Field, wire: Wire, cursor: &mut Cursor<'_>, level: u32) -> Walked<()> {
        if wire != field.wire {
            if wire == Wire::Delimited && field.is_packable {
                return self.packed(field, cursor);
            }
            return broken(Breach::WireType {
                wanted: field.wire,
                found: wire,
            });
        }
        match field.kind {
            Kind::Message(at) => {
                let mut inner = Cursor {
                    bytes: cursor.delimited()?,
                    at: 0,
                };
                if level >= LEVELS_MAX {
                    return broken(Breach::Level);
                }
                self.message(at, &mut inner, None, level + 1)
            }
            // An entry is no level of its own: a map of messages is as deep as a list of them.
            Kind::Map(at) => {
                let mut inner = Cursor {
                    bytes: cursor.delimited()?,
                    at: 0,
                };
                self.message(at, &mut inner, None, level)
            }
            Kind::Group(at) => {
                if level >= LEVELS_MAX {
                    return broken(Breach::Level);
                }
                self.message(at, cursor, Some(field.number), level + 1)
            }
            _ => self.value(field, cursor),
        }
    }

    /// One value that is neither message nor group, in its own wire type.
    #[inline]
    fn value(&self, field: &Field, cursor: &mut Cursor<'_>) -> Walked<()> {
        match field.kind {
            Kind::Enum(at) => {
                let number = cursor.varint()?;
                let known = &self.shapes.enums[at];
                // Numbers are cut to 32 bits, as every reader does.
                let is_unknown =
                    known.is_closed && known.numbers.binary_search(&(number as i32)).is_err();
                match is_unknown && self.refuses_unknown {
                    true => broken(Breach::Value(number)),
                    false => Ok(()),
                }
            }
            Kind::Scalar(Scalar::String) => {
                let bytes = cursor.delimited()?;
                match std::str::from_utf8(bytes) {
                    Ok(_) => Ok(()),
                    Err(_) => broken(Breach::Utf8),
                }
            }
            _ => match field.wire {
                Wire::Varint => cursor.varint().map(drop),
                Wire::Fixed64 => cursor.take(8).map(drop),
                Wire::Fixed32 => cursor.take(4).map(drop),
                _ => cursor.delimited().map(drop),
            },
        }
    }

    fn packed(&self, field: &Field, cursor: &mut Cursor<'_>) -> Walked<()> {
        let mut inner = Cursor {
            bytes: cursor.delimited()?,
            at: 0,
        };
        while !inner.is_at_end() {
            self.value(field, &mut inner)?;
        }
        Ok(())
    }
}

fn require_all(shape: &Shape, mut met: Met) -> Walked<()> {
    let missing = shape
        .fields
        .iter()
        .find(|field| field.label == Label::Required && !met.has(field.required_at));
    match missing {
        Some(field) => broken(Breach::Missing(field.name.clone())),
        None => Ok(()),
    }
}

/// The name of a field in a path, with how many of it came before, where there can be several.
fn place_of(field: &Field, mut told: Cursor<'_>) -> String {
    if field.label != Label::Repeated {
        return field.name.to_string();
    }
    let mut count = 0;
    while let Ok((number, wire)) = told.tag() {
        count += usize::from(number == field.number);
        // All of it was walked before.
        if told.skip(number, wire, 0).is_err() {
            break;
        }
    }
    format!("{}[{count}]", field.name)
}
