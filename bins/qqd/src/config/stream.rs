//! `[[stream]]`: streams that exist from the start.

use qq_core::broker::QueueSpec;

use super::amount::{Size, Span};
use super::key::Key;
use super::sections::YEAR_MS;
use super::setting::{Maybe, Number};
use super::topology::Name;

/// One `[[stream]]`.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) name: Name,
    durable: bool,
    max_messages: Maybe<Number>,
    max_bytes: Maybe<Size>,
    max_age: Maybe<Span>,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            name: Name::default(),
            durable: true,
            max_messages: Maybe::unset(Number::new(1, 1, 1 << 40)),
            max_bytes: Maybe::unset(Size::new(1, 1, 1 << 50)),
            max_age: Maybe::unset(Span::new(1_000, 1, YEAR_MS)),
        }
    }
}

impl Stream {
    pub(crate) fn keys(&mut self) -> Vec<Key<'_>> {
        vec![
            Key::new("name", &mut self.name, "its name; must be given"),
            Key::new(
                "durable",
                &mut self.durable,
                "survives a restart (with a durable store)",
            ),
            Key::new(
                "max_messages",
                &mut self.max_messages,
                "messages that it keeps; older ones go",
            ),
            Key::new(
                "max_bytes",
                &mut self.max_bytes,
                "bytes of payload that it keeps; older messages go",
            ),
            Key::new(
                "max_age",
                &mut self.max_age,
                "how long it keeps a message from its arrival on",
            ),
        ]
    }

    /// What the broker is told.
    pub(crate) fn spec(&self) -> QueueSpec {
        QueueSpec {
            durable: self.durable,
            max_length: self.max_messages.value().map(Number::value),
            max_bytes: self.max_bytes.value().map(Size::value),
            max_age_ms: self.max_age.value().map(Span::ms),
            ..QueueSpec::stream(self.name.0.clone())
        }
    }
}
