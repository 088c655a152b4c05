//! The flat tables that a schema is compiled to: one shape for each message type that the root can reach.
//!
//! Types are numbers here, so that a type that contains itself is no cycle of pointers, and checking a field is two
//! array accesses. Names are kept for error texts only.

use std::collections::BTreeMap;

use prost_reflect::{
    Cardinality, EnumDescriptor, ExtensionDescriptor, FieldDescriptor, Kind as Reflected,
    MessageDescriptor, Syntax,
};

/// Numbers below this are found by an array access, those above by a search.
const DENSE_MAX: u32 = 1_024;

/// Types without types inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    String,
    Bytes,
}

impl Scalar {
    /// As people write it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Double => "double",
            Self::Float => "float",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Sint32 => "sint32",
            Self::Sint64 => "sint64",
            Self::Fixed32 => "fixed32",
            Self::Fixed64 => "fixed64",
            Self::Sfixed32 => "sfixed32",
            Self::Sfixed64 => "sfixed64",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Bytes => "bytes",
        }
    }

    const fn wire(self) -> Wire {
        match self {
            Self::Double | Self::Fixed64 | Self::Sfixed64 => Wire::Fixed64,
            Self::Float | Self::Fixed32 | Self::Sfixed32 => Wire::Fixed32,
            Self::String | Self::Bytes => Wire::Delimited,
            _ => Wire::Varint,
        }
    }
}

/// How a value lies on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Delimited = 2,
    Start = 3,
    End = 4,
    Fixed32 = 5,
}

impl Wire {
    pub(super) const fn of(tag: u64) -> Option<Self> {
        Some(match tag & 7 {
            0 => Self::Varint,
            1 => Self::Fixed64,
            2 => Self::Delimited,
            3 => Self::Start,
            4 => Self::End,
            5 => Self::Fixed32,
            _ => return None,
        })
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Varint => "varint",
            Self::Fixed64 => "64-bit",
            Self::Delimited => "length-delimited",
            Self::Start => "start of a group",
            Self::End => "end of a group",
            Self::Fixed32 => "32-bit",
        }
    }
}

/// The type of a field; types with a name by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar(Scalar),
    Enum(usize),
    Message(usize),
    /// A message between two tags instead of behind a length.
    Group(usize),
    /// Entries of a map, as messages of a key and a value.
    Map(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Optional,
    Required,
    Repeated,
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    pub(super) name: Box<str>,
    pub(super) kind: Kind,
    pub(super) label: Label,
    /// The choice of which it is one, by its place in the message.
    pub(super) oneof: Option<usize>,
    /// The wire type that its values have, unless they are packed.
    pub(super) wire: Wire,
    /// Its values may come packed.
    pub(super) is_packable: bool,
    /// Its place among the required fields.
    pub(super) required_at: usize,
}

/// A message type.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    pub(super) name: Box<str>,
    /// By number.
    pub(super) fields: Box<[Field]>,
    /// Index of the field plus one, by number, as far as it goes.
    dense: Box<[u16]>,
    /// How many fields are required.
    pub(super) required: usize,
    /// Numbers that no field may have: first, and the one behind the last.
    pub(super) reserved: Box<[(u32, u32)]>,
}

impl Shape {
    /// The field with a number.
    #[inline]
    pub(super) fn field(&self, number: u32) -> Option<&Field> {
        match self.dense.get(number as usize) {
            Some(0) => None,
            Some(at) => self.fields.get(usize::from(*at) - 1),
            None => self.find(number),
        }
    }

    fn find(&self, number: u32) -> Option<&Field> {
        let at = self.fields.binary_search_by_key(&number, |f| f.number);
        at.ok().map(|at| &self.fields[at])
    }

    fn index(&mut self) {
        self.fields.sort_by_key(|field| field.number);
        let mut required = 0;
        for field in &mut self.fields {
            if field.label == Label::Required {
                field.required_at = required;
                required += 1;
            }
        }
        self.required = required;
        let last = self.fields.iter().map(|field| field.number);
        let len = last.filter(|number| *number < DENSE_MAX).max();
        let mut dense = vec![0_u16; len.map_or(0, |last| last as usize + 1)];
        for (at, field) in self.fields.iter().enumerate() {
            if let Some(place) = dense.get_mut(field.number as usize) {
                // Below it are `DENSE_MAX` fields at most.
                *place = u16::try_from(at + 1).unwrap_or(0);
            }
        }
        self.dense = dense.into();
    }
}

/// An enum type.
#[derive(Clone, Debug)]
pub(super) struct Enum {
    pub(super) name: Box<str>,
    /// Numbers without a name are unknown fields, not values.
    pub(super) is_closed: bool,
    /// In order.
    pub(super) numbers: Box<[i32]>,
}

/// All types that one message type can reach. Its own shape is the first.
#[derive(Clone, Debug, Default)]
pub(super) struct Shapes {
    pub(super) messages: Vec<Shape>,
    pub(super) enums: Vec<Enum>,
}

impl Shapes {
    pub(super) fn of(root: &MessageDescriptor) -> Self {
        let mut builder = Builder::default();
        builder.message(root.clone());
        // Shapes are made in the order in which they are met, so the list grows while it is worked off.
        while let Some(descriptor) = builder.todo.get(builder.shapes.messages.len()).cloned() {
            let shape = builder.shape(&descriptor);
            builder.shapes.messages.push(shape);
        }
        builder.shapes
    }

    /// A type as people write it.
    pub(super) fn type_name(&self, kind: Kind) -> &str {
        match kind {
            Kind::Scalar(scalar) => scalar.name(),
            Kind::Enum(at) => &self.enums[at].name,
            Kind::Message(at) | Kind::Group(at) => &self.messages[at].name,
            Kind::Map(_) => "map",
        }
    }
}

#[derive(Default)]
struct Builder {
    shapes: Shapes,
    todo: Vec<MessageDescriptor>,
    messages: BTreeMap<String, usize>,
    enums: BTreeMap<String, usize>,
}

impl Builder {
    fn message(&mut self, descriptor: MessageDescriptor) -> usize {
        let next = self.todo.len();
        let at = *self
            .messages
            .entry(descriptor.full_name().to_owned())
            .or_insert(next);
        if at == next {
            self.todo.push(descriptor);
        }
        at
    }

    fn enumeration(&mut self, descriptor: &EnumDescriptor) -> usize {
        let next = self.shapes.enums.len();
        let at = *self
            .enums
            .entry(descriptor.full_name().to_owned())
            .or_insert(next);
        if at == next {
            let mut numbers: Vec<i32> = descriptor.values().map(|value| value.number()).collect();
            numbers.sort_unstable();
            numbers.dedup();
            self.shapes.enums.push(Enum {
                name: descriptor.full_name().into(),
                is_closed: descriptor.parent_file().syntax() == Syntax::Proto2,
                numbers: numbers.into(),
            });
        }
        at
    }

    fn shape(&mut self, descriptor: &MessageDescriptor) -> Shape {
        let oneofs: BTreeMap<String, usize> = descriptor
            .oneofs()
            .filter(|oneof| !oneof.is_synthetic())
            .enumerate()
            .map(|(at, oneof)| (oneof.full_name().to_owned(), at))
            .collect();
        let mut fields: Vec<Field> = descriptor
            .fields()
            .map(|field| {
                let oneof = field.containing_oneof();
                let oneof = oneof.and_then(|oneof| oneofs.get(oneof.full_name()).copied());
                self.field(&field, oneof)
            })
            .collect();
        for extension in descriptor.extensions() {
            fields.push(self.extension(&extension));
        }
        let mut shape = Shape {
            name: descriptor.full_name().into(),
            fields: fields.into(),
            reserved: descriptor
                .reserved_ranges()
                .map(|range| (range.start, range.end))
                .collect(),
            ..Shape::default()
        };
        shape.index();
        shape
    }

    fn field(&mut self, field: &FieldDescriptor, oneof: Option<usize>) -> Field {
        let kind = self.kind(&field.kind(), field.is_group(), field.is_map());
        let label = label_of(field.cardinality());
        made(field.number(), field.name(), kind, label, oneof)
    }

    fn extension(&mut self, field: &ExtensionDescriptor) -> Field {
        let kind = self.kind(&field.kind(), field.is_group(), field.is_map());
        let label = label_of(field.cardinality());
        let name = format!("[{}]", field.full_name());
        made(field.number(), &name, kind, label, None)
    }

    fn kind(&mut self, kind: &Reflected, is_group: bool, is_map: bool) -> Kind {
        Kind::Scalar(match kind {
            Reflected::Double => Scalar::Double,
            Reflected::Float => Scalar::Float,
            Reflected::Int32 => Scalar::Int32,
            Reflected::Int64 => Scalar::Int64,
            Reflected::Uint32 => Scalar::Uint32,
            Reflected::Uint64 => Scalar::Uint64,
            Reflected::Sint32 => Scalar::Sint32,
            Reflected::Sint64 => Scalar::Sint64,
            Reflected::Fixed32 => Scalar::Fixed32,
            Reflected::Fixed64 => Scalar::Fixed64,
            Reflected::Sfixed32 => Scalar::Sfixed32,
            Reflected::Sfixed64 => Scalar::Sfixed64,
            Reflected::Bool => Scalar::Bool,
            Reflected::String => Scalar::String,
            Reflected::Bytes => Scalar::Bytes,
            Reflected::Enum(descriptor) => return Kind::Enum(self.enumeration(descriptor)),
            Reflected::Message(descriptor) => {
                let at = self.message(descriptor.clone());
                return match (is_group, is_map) {
                    (true, _) => Kind::Group(at),
                    (_, true) => Kind::Map(at),
                    _ => Kind::Message(at),
                };
            }
        })
    }
}

fn label_of(cardinality: Cardinality) -> Label {
    match cardinality {
        Cardinality::Optional => Label::Optional,
        Cardinality::Required => Label::Required,
        Cardinality::Repeated => Label::Repeated,
    }
}

fn made(number: u32, name: &str, kind: Kind, label: Label, oneof: Option<usize>) -> Field {
    let wire = match kind {
        Kind::Scalar(scalar) => scalar.wire(),
        Kind::Enum(_) => Wire::Varint,
        Kind::Group(_) => Wire::Start,
        Kind::Message(_) | Kind::Map(_) => Wire::Delimited,
    };
    let is_number = !matches!(wire, Wire::Delimited | Wire::Start);
    Field {
        number,
        name: name.into(),
        kind,
        label,
        oneof,
        wire,
        is_packable: label == Label::Repeated && is_number,
        required_at: 0,
    }
}
