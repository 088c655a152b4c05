//! Property filters of the AMQP filter expressions draft (part 4): fields of one section with the values that they must
//! have.

use super::eval::is_equal;
use super::field::{Place, header_field, properties_field};
use super::{FilterError, SectionName, View};
use crate::broker::quoted;
use crate::route::{Datum, Scalar};

/// What a field must hold.
#[derive(Clone, Debug, PartialEq)]
enum Test {
    /// Any value.
    There,
    /// This value; numbers by value across widths.
    Equal(Datum),
    /// A text that begins so.
    Prefix(String),
    /// A text that ends so.
    Suffix(String),
}

/// One field with its test.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PropertyTest {
    place: Place,
    test: Test,
}

impl PropertyTest {
    /// Reads one entry of a property filter.
    ///
    /// # Errors
    /// A field that the section does not have, or a modifier that does not exist.
    pub(super) fn new(
        section: SectionName,
        name: &str,
        value: &Datum,
    ) -> Result<Self, FilterError> {
        let place = match section {
            SectionName::Header => header_field(name).map(Place::Field),
            SectionName::Properties => properties_field(name).map(Place::Field),
            SectionName::MessageAnnotations => Some(Place::Annotation(name.into())),
            SectionName::ApplicationProperties => Some(Place::Property(name.into())),
            SectionName::Footer => Some(Place::Footer(name.into())),
        };
        let place = place.ok_or_else(|| {
            FilterError::new(format!("the section has no field {}", quoted(name)))
        })?;
        let test = match value {
            Datum::Null => Test::There,
            Datum::Text(text) => match text.strip_prefix('&') {
                None => Test::Equal(value.clone()),
                // Said twice it is the character itself.
                Some(rest) if rest.starts_with('&') => Test::Equal(rest.into()),
                Some(rest) => match rest.split_at_checked(2) {
                    Some(("p:", prefix)) => Test::Prefix(prefix.to_owned()),
                    Some(("s:", suffix)) => Test::Suffix(suffix.to_owned()),
                    _ => {
                        return Err(FilterError::new(format!(
                            "{} begins with an unknown modifier: use &p:, &s: or && for the character itself",
                            quoted(text)
                        )));
                    }
                },
            },
            _ => Test::Equal(value.clone()),
        };
        Ok(Self { place, test })
    }

    /// Whether a message passes. What is absent never does.
    pub(super) fn is_passed(&self, view: &dyn View) -> bool {
        let value = match &self.place {
            Place::Field(field) => view.field(*field),
            Place::Property(name) => view.property(name),
            Place::Annotation(name) => view.annotation(name),
            Place::Footer(name) => view.footer(name),
            Place::DeliveryMode | Place::Redelivered | Place::Attempt => Scalar::Null,
        };
        match (&self.test, value) {
            (_, Scalar::Null) => false,
            (Test::There, _) => true,
            (Test::Equal(wanted), value) => is_equal(wanted.scalar(), value),
            (Test::Prefix(prefix), Scalar::Text(text)) => text.starts_with(prefix.as_str()),
            (Test::Suffix(suffix), Scalar::Text(text)) => text.ends_with(suffix.as_str()),
            (Test::Prefix(prefix), Scalar::Bytes(bytes)) => bytes.starts_with(prefix.as_bytes()),
            (Test::Suffix(suffix), Scalar::Bytes(bytes)) => bytes.ends_with(suffix.as_bytes()),
            _ => false,
        }
    }
}
