//! Messages as rows of sections (part 3, 3.2): where each section lies, without decoding what nobody asked for.
//!
//! A broker reads the header and a few properties, checks that the rest is a message at all, and passes it on byte by
//! byte.

mod annotations;
mod error;
mod header;
mod lookup;
mod properties;
mod scan;

pub use annotations::encode_message_annotations;
pub use error::SectionError;
pub use header::Header;
pub use lookup::find_in_map;
pub use properties::Properties;
pub use scan::{Body, BodyKind, SECTIONS_MAX, SectionRange, Sections};
