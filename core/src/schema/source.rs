//! From what a user registers to a schema: `.proto` text is compiled here, no other program is needed.

use std::path::Path;

use bytes::Bytes;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorSet};
use prost_reflect::{DescriptorPool, MessageDescriptor};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

use super::options::{TOO_DEEP, is_shallow};
use super::shape::Shapes;
use super::unfit::Unfit;
use super::validate::validate;

/// Longest text or descriptor set, bytes.
pub const SOURCE_BYTES_MAX: usize = 256 << 10;
/// Fields, values and types of one schema with all that it imports: bounds the time that compiling takes.
const PARTS_MAX: usize = 8_192;
/// The name under which errors speak of the text.
const FILE: &str = "schema.proto";

/// What a schema is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The text of one `.proto` file; it may import the well-known types.
    Text(String),
    /// A serialized `FileDescriptorSet` with all imports, in any order.
    Descriptor(Bytes),
}

/// Why there is no schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Too long or too many parts.
    TooLarge(String),
    /// Not a valid file, with the place and what is wrong.
    Invalid(String),
    /// It has no such message type.
    TypeNotFound(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge(text) | Self::Invalid(text) | Self::TypeNotFound(text) => {
                f.write_str(text)
            }
        }
    }
}

impl std::error::Error for Fault {}

/// A message type, ready to check messages.
#[derive(Clone)]
pub struct Schema {
    message_type: String,
    descriptor: Bytes,
    pub(super) shapes: Shapes,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Schema({})", self.message_type)
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.message_type == other.message_type && self.descriptor == other.descriptor
    }
}

impl Schema {
    /// Compiles what a user gave. `message_type` is fully qualified and without a leading dot; empty means the only
    /// message type at the top of a text. Takes milliseconds for a large schema.
    ///
    /// # Errors
    /// [`Fault`], with line and column where the source is text.
    pub fn compile(source: &Source, message_type: &str) -> Result<Self, Fault> {
        let len = match source {
            Source::Text(text) => text.len(),
            Source::Descriptor(set) => set.len(),
        };
        if len > SOURCE_BYTES_MAX {
            return Err(Fault::TooLarge(format!(
                "it has {len} bytes, and {SOURCE_BYTES_MAX} are allowed"
            )));
        }
        let descriptor = match source {
            Source::Text(text) => compile_text(text)?,
            Source::Descriptor(set) => set.clone(),
        };
        let may_choose = matches!(source, Source::Text(_)) && message_type.is_empty();
        Self::build(descriptor, message_type, may_choose)
    }

    /// Makes a schema of a descriptor set that was compiled before.
    ///
    /// # Errors
    /// [`Fault`] for other bytes.
    pub fn restore(descriptor: Bytes, message_type: &str) -> Result<Self, Fault> {
        Self::build(descriptor, message_type, false)
    }

    fn build(descriptor: Bytes, message_type: &str, may_choose: bool) -> Result<Self, Fault> {
        if descriptor.is_empty() {
            return Err(Fault::Invalid("it is empty".to_owned()));
        }
        let parts = count_parts(&descriptor)?;
        if parts > PARTS_MAX {
            return Err(too_many(parts));
        }
        let pool = DescriptorPool::decode(descriptor.clone())
            .map_err(|error| Fault::Invalid(in_one_line(&format!("{error:?}"))))?;
        let root = match may_choose {
            true => only_message(&pool)?,
            false => pool
                .get_message_by_name(message_type)
                .filter(|found| found.full_name() == message_type)
                .ok_or_else(|| not_found(&pool, message_type))?,
        };
        Ok(Self {
            message_type: root.full_name().to_owned(),
            descriptor,
            shapes: Shapes::of(&root),
        })
    }

    /// Its full name.
    #[must_use]
    pub fn message_type(&self) -> &str {
        &self.message_type
    }

    /// The descriptor set that it was made from.
    #[must_use]
    pub fn descriptor(&self) -> &Bytes {
        &self.descriptor
    }

    /// Checks a message.
    ///
    /// # Errors
    /// The first rule that it breaks, with the field.
    pub fn check(&self, message: &[u8], refuses_unknown: bool) -> Result<(), Box<Unfit>> {
        validate(&self.shapes, refuses_unknown, message)
    }
}

fn too_many(parts: usize) -> Fault {
    Fault::TooLarge(format!(
        "it has {parts} fields, values and types, and {PARTS_MAX} are allowed"
    ))
}

/// The text, and nothing else of that name.
struct OneFile(String);

impl FileResolver for OneFile {
    fn resolve_path(&self, _path: &Path) -> Option<String> {
        Some(FILE.to_owned())
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match name {
            FILE => File::from_source(FILE, &self.0).and_then(|file| {
                match is_shallow(file.file_descriptor_proto()) {
                    true => Ok(file),
                    false => Err(protox::Error::new(TOO_DEEP)),
                }
            }),
            _ => Err(protox::Error::file_not_found(name)),
        }
    }
}

fn compile_text(text: &str) -> Result<Bytes, Fault> {
    // Some editors begin every file with it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Each part ends with one of these, so this is a bound from above that costs nothing.
    let parts = text.bytes().filter(|b| matches!(b, b';' | b'}')).count();
    if parts > PARTS_MAX {
        return Err(too_many(parts));
    }
    let mut resolver = ChainFileResolver::new();
    resolver.add(OneFile(text.to_owned()));
    resolver.add(GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).include_source_info(false);
    match compiler.open_file(FILE) {
        Ok(compiled) => Ok(compiled.encode_file_descriptor_set().into()),
        Err(error) => Err(Fault::Invalid(in_one_line(&format!("{error:?}")))),
    }
}

fn only_message(pool: &DescriptorPool) -> Result<MessageDescriptor, Fault> {
    let file = pool.get_file_by_name(FILE);
    let mut messages = file.iter().flat_map(|file| file.messages());
    match (messages.next(), messages.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Fault::TypeNotFound("it has no message type".to_owned())),
        (Some(first), Some(second)) => Err(Fault::TypeNotFound(format!(
            "it has several message types ({}, {}): name one",
            first.full_name(),
            second.full_name()
        ))),
    }
}

fn not_found(pool: &DescriptorPool, message_type: &str) -> Fault {
    let name = crate::broker::quoted(message_type);
    let hint = if message_type.is_empty() {
        "no message type is named".to_owned()
    } else if pool.get_enum_by_name(message_type).is_some() {
        format!("{name} is an enum")
    } else if message_type.starts_with('.') {
        format!("{name}: names are written without a leading dot")
    } else {
        format!("{name} is not in it")
    };
    Fault::TypeNotFound(hint)
}

fn in_one_line(text: &str) -> String {
    const LEN_MAX: usize = 500;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LEN_MAX) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}

/// How many parts a descriptor set has.
///
/// # Errors
/// It is not one.
fn count_parts(set: &[u8]) -> Result<usize, Fault> {
    let set = FileDescriptorSet::decode(set).map_err(|error| Fault::Invalid(error.to_string()))?;
    let mut parts = 0;
    let mut todo: Vec<&DescriptorProto> = Vec::new();
    for file in &set.file {
        if !is_shallow(file) {
            return Err(Fault::Invalid(TOO_DEEP.to_owned()));
        }
        // The library panics where it wants to say so.
        if let Some(other) = &file.syntax
            && !["proto2", "proto3"].contains(&other.as_str())
        {
            let name = file.name();
            let text = format!("{name}: the syntax {other:?} is neither \"proto2\" nor \"proto3\"");
            return Err(Fault::Invalid(text));
        }
        parts += file.extension.len();
        parts += file
            .enum_type
            .iter()
            .map(|e| 1 + e.value.len())
            .sum::<usize>();
        todo.extend(&file.message_type);
    }
    while let Some(message) = todo.pop() {
        parts += 1 + message.field.len() + message.extension.len();
        let enums = message.enum_type.iter().map(|e| 1 + e.value.len());
        parts += enums.sum::<usize>();
        todo.extend(&message.nested_type);
    }
    Ok(parts)
}
