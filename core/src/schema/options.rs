//! Values of options in a `.proto` file, before they are read: the library that reads them nests as deep as they do, so
//! what nests too deeply must not reach it.

use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    ServiceDescriptorProto, UninterpretedOption,
};

/// Brackets that open in the value of an option, and so the levels that it may nest.
const OPENING_MAX: usize = 64;

/// Why a file's options are not read.
pub(super) const TOO_DEEP: &str = "the value of an option has more than 64 opening brackets";

/// The options of a descriptor that were not read yet.
macro_rules! unread {
    ($descriptor:expr) => {
        $descriptor
            .options
            .iter()
            .flat_map(|options| &options.uninterpreted_option)
    };
}

/// Whether the value of no option in the file nests too deeply.
pub(super) fn is_shallow(file: &FileDescriptorProto) -> bool {
    let mut todo: Vec<&DescriptorProto> = file.message_type.iter().collect();
    let top = are_shallow(unread!(file))
        && file.extension.iter().all(is_shallow_field)
        && file.enum_type.iter().all(is_shallow_enum)
        && file.service.iter().all(is_shallow_service);
    if !top {
        return false;
    }
    while let Some(message) = todo.pop() {
        let own = are_shallow(unread!(message))
            && message.field.iter().all(is_shallow_field)
            && message.extension.iter().all(is_shallow_field)
            && message.enum_type.iter().all(is_shallow_enum)
            && (message.oneof_decl.iter()).all(|oneof| are_shallow(unread!(oneof)))
            && (message.extension_range.iter()).all(|range| are_shallow(unread!(range)));
        if !own {
            return false;
        }
        todo.extend(&message.nested_type);
    }
    true
}

fn is_shallow_field(field: &FieldDescriptorProto) -> bool {
    are_shallow(unread!(field))
}

fn is_shallow_enum(of: &EnumDescriptorProto) -> bool {
    are_shallow(unread!(of)) && of.value.iter().all(|value| are_shallow(unread!(value)))
}

fn is_shallow_service(service: &ServiceDescriptorProto) -> bool {
    are_shallow(unread!(service))
        && (service.method.iter()).all(|method| are_shallow(unread!(method)))
}

/// Counts what opens a level, in strings too: a bound from above.
fn are_shallow<'a>(options: impl IntoIterator<Item = &'a UninterpretedOption>) -> bool {
    let opens = |value: &String| {
        let opening = value.bytes().filter(|b| matches!(b, b'{' | b'<' | b'['));
        opening.count()
    };
    options
        .into_iter()
        .filter_map(|option| option.aggregate_value.as_ref())
        .all(|value| opens(value) <= OPENING_MAX)
}
