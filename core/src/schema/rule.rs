//! What a queue asks of its messages, as faces and the broker hold it: shared, and replaced as a whole when it changes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::record::SchemaVersion;
use super::unfit::Unfit;
use super::{Schema, body_of};
use crate::vocab::{Message, RuleId};

/// Whether messages may do without a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchemaMode {
    /// A message is checked where there is a schema.
    #[default]
    Permissive,
    /// Without a schema nothing can be published.
    Strict,
}

/// A schema with the version that it is.
#[derive(Debug, PartialEq)]
pub struct Active {
    /// Ready to check messages.
    pub schema: Arc<Schema>,
    /// As it was registered.
    pub record: Arc<SchemaVersion>,
}

impl Active {
    /// Checks the encoded value of a message.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check(&self, body: &[u8]) -> Result<(), Box<Unfit>> {
        self.schema.check(body, self.record.refuses_unknown_fields)
    }
}

/// What a queue asks of its messages. Rules are compared by their number.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Unlike that of every other rule of this broker, and never [`RuleId::NONE`].
    pub id: RuleId,
    /// The schema of its messages, if there is one.
    pub request: Option<Arc<Active>>,
    /// The schema of the answers to calls, if there is one.
    pub reply: Option<Arc<Active>>,
    /// Without a schema nothing can be published.
    pub is_strict: bool,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Rule {
    /// Checks the encoded value of a message for the queue.
    ///
    /// # Errors
    /// Why the queue does not take it.
    pub fn check(&self, body: &[u8]) -> Result<(), Box<Unfit>> {
        match &self.request {
            Some(active) => active.check(body),
            None if self.is_strict => Err(Box::new(Unfit::NoSchema)),
            None => Ok(()),
        }
    }

    /// As [`Rule::check`], for a message in whatever encoding it came.
    ///
    /// # Errors
    /// Why the queue does not take it.
    pub fn check_message(&self, message: &Message) -> Result<(), Box<Unfit>> {
        if self.request.is_none() {
            return self.check(&[]);
        }
        match body_of(message) {
            Some(body) => self.check(&body),
            None => Err(Box::new(Unfit::NoBody)),
        }
    }
}

/// Queues that the broker makes for itself or for one link: they take any message, and have no schema.
#[must_use]
pub(super) fn is_system(queue: &str) -> bool {
    crate::broker::QueueSpec::is_reserved(queue)
}

/// Queues for which strictness without a schema makes no sense: those of the broker itself, and those of dead letters,
/// which hold what was a message of another queue.
#[must_use]
pub fn is_exempt(queue: &str) -> bool {
    is_system(queue) || queue.ends_with(".dlq")
}
