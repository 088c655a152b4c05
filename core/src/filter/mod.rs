//! Filters: which messages a consumer wants.
//!
//! A [`FilterSpec`] is what somebody asked for, in a form that can be stored; a [`Filter`] is the same compiled, once
//! per consumer; a [`View`] is a message as a filter sees it. [`MessageView`] is the one of queued messages: it reads
//! the encoded payload, field by field, and allocates nothing. [`FilterSet`] reads what an AMQP peer attached with.
//!
//! Languages: JMS selectors (Jakarta Messaging 3.1, 3.8) and the property and SQL filters of the AMQP filter
//! expressions draft (version 1.0). Conditions are true, false or unknown, and only true lets a message pass.
//!
//! What it costs: a filter is evaluated from left to right and stops as soon as its answer is known; each name looks
//! through its section of the message. The length and the depth of selectors are bounded ([`SELECTOR_LEN_MAX`],
//! [`SELECTOR_DEPTH_MAX`]), and so is the size of property filters ([`TESTS_MAX`]). `LIKE` is linear in its text but for
//! an `_` between two `%`, which is not tried on texts of more than 64 KiB: there it is unknown.
//!
//! Where the standards leave a choice: values of unlike kinds are neither equal nor different (a comparison of them is
//! false); whole numbers are exact and divided towards zero; what is divided by zero has no value; texts have an order
//! in SQL and none in selectors; a message without header has priority 4.

mod error;
mod eval;
mod field;
mod like;
mod message;
mod node;
mod parse;
mod property;
mod read;
mod record;
mod set;
mod token;
mod view;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use error::FilterError;
pub use field::Field;
pub use message::MessageView;
pub use parse::{SELECTOR_DEPTH_MAX, SELECTOR_LEN_MAX};
pub use set::{FilterSet, datum_of};
pub use view::View;

use crate::route::Datum;
use parse::{Program, parse};
use property::PropertyTest;
use token::Dialect;

/// Most single tests of a filter: fields of property filters, and filters that are parts of others.
pub const TESTS_MAX: usize = 256;
/// How deep filters may stand in each other.
pub const FILTER_DEPTH_MAX: usize = 16;

/// A section of a message that a property filter is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SectionName {
    /// Priority, durable and the like.
    Header,
    /// What brokers and clients noted on the way.
    MessageAnnotations,
    /// The standard properties.
    Properties,
    /// The sender's own properties.
    ApplicationProperties,
    /// What comes behind the body.
    Footer,
}

/// A filter as it was asked for. Two are the same when they are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilterSpec {
    /// A JMS selector.
    Selector(String),
    /// SQL of the filter expressions draft.
    Sql(String),
    /// Fields of a section and what they must hold; null stands for any value.
    Properties(SectionName, Vec<(String, Datum)>),
    /// Nothing that the consumer's own connection published.
    NoLocal,
    /// Everything or nothing.
    Always(bool),
    /// What passes all of these.
    All(Vec<FilterSpec>),
    /// What passes one of these.
    Any(Vec<FilterSpec>),
    /// What does not pass.
    Not(Box<FilterSpec>),
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Program(Program),
    Properties(Vec<PropertyTest>),
    NoLocal,
    Always(bool),
    All(Vec<Part>),
    Any(Vec<Part>),
    Not(Box<Part>),
}

/// A filter that is ready to be asked. Made once per consumer; asking it cannot fail.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    spec: FilterSpec,
    part: Part,
}

impl Filter {
    /// Compiles a filter.
    ///
    /// # Errors
    /// What is wrong with it; nothing was changed.
    pub fn compile(spec: FilterSpec) -> Result<Self, FilterError> {
        let mut tests = 0;
        let part = compile(&spec, FILTER_DEPTH_MAX, &mut tests)?;
        Ok(Self { spec, part })
    }

    /// What it was made from.
    #[must_use]
    pub fn spec(&self) -> &FilterSpec {
        &self.spec
    }

    /// Whether it asks who published a message.
    #[must_use]
    pub fn wants_publisher(&self) -> bool {
        self.part.wants_publisher()
    }

    /// Whether a message passes.
    #[must_use]
    pub fn is_passed(&self, view: &dyn View) -> bool {
        self.part.is_passed(view)
    }
}

fn compile(spec: &FilterSpec, depth: usize, tests: &mut usize) -> Result<Part, FilterError> {
    let below = depth
        .checked_sub(1)
        .ok_or_else(|| FilterError::new("filters are nested too deep"))?;
    *tests += 1;
    let mut several = |parts: &[FilterSpec]| -> Result<Vec<Part>, FilterError> {
        parts
            .iter()
            .map(|part| compile(part, below, tests))
            .collect()
    };
    let part = match spec {
        FilterSpec::Selector(text) => Part::Program(parse(text, Dialect::Jms)?),
        FilterSpec::Sql(text) => Part::Program(parse(text, Dialect::Sql)?),
        FilterSpec::Properties(section, fields) => {
            *tests += fields.len();
            let fields = fields
                .iter()
                .map(|(name, value)| PropertyTest::new(*section, name, value));
            Part::Properties(fields.collect::<Result<_, _>>()?)
        }
        FilterSpec::NoLocal => Part::NoLocal,
        FilterSpec::Always(is_passed) => Part::Always(*is_passed),
        FilterSpec::All(parts) => Part::All(several(parts)?),
        FilterSpec::Any(parts) => Part::Any(several(parts)?),
        FilterSpec::Not(part) => Part::Not(Box::new(compile(part, below, tests)?)),
    };
    if *tests > TESTS_MAX {
        return Err(FilterError::new(format!(
            "the filter has more than {TESTS_MAX} parts"
        )));
    }
    Ok(part)
}

impl Part {
    fn wants_publisher(&self) -> bool {
        match self {
            Self::NoLocal => true,
            Self::All(parts) | Self::Any(parts) => parts.iter().any(Self::wants_publisher),
            Self::Not(part) => part.wants_publisher(),
            Self::Program(_) | Self::Properties(_) | Self::Always(_) => false,
        }
    }

    fn is_passed(&self, view: &dyn View) -> bool {
        match self {
            Self::Program(program) => program.is_true(view),
            Self::Properties(tests) => tests.iter().all(|test| test.is_passed(view)),
            Self::NoLocal => !view.is_local(),
            Self::Always(is_passed) => *is_passed,
            Self::All(parts) => parts.iter().all(|part| part.is_passed(view)),
            Self::Any(parts) => parts.iter().any(|part| part.is_passed(view)),
            Self::Not(part) => !part.is_passed(view),
        }
    }
}
