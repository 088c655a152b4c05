//! Which changes of a schema break whom.
//!
//! One question is asked, in one or both directions: does a *reader* with one version get every value that a *writer*
//! with the other one wrote? Backward means that the new version reads what the old one wrote, forward the other way
//! round. Two rules look at history instead: a number that was reserved, or that a removed field had, may not come back
//! as another type.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::shape::{Field, Kind, Label, Scalar, Shape, Shapes};

/// Findings in one report; a schema that differs in everything needs no longer one.
const FINDINGS_MAX: usize = 32;

/// What a new version of a schema is held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compatibility {
    /// Anything goes.
    None,
    /// The new version reads what was written with the old one.
    #[default]
    Backward,
    /// The old version reads what is written with the new one.
    Forward,
    /// Both.
    Full,
}

impl Compatibility {
    /// All of them, in the order of their numbers in the store.
    pub const ALL: [Self; 4] = [Self::None, Self::Backward, Self::Forward, Self::Full];

    /// As people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Backward => "backward",
            Self::Forward => "forward",
            Self::Full => "full",
        }
    }
}

/// One change that breaks somebody.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The field: `shop.Order.lines`, or the message type.
    pub field: String,
    /// The rule's name.
    pub rule: &'static str,
    /// What breaks, for people.
    pub text: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): {}", self.field, self.rule, self.text)
    }
}

/// Removed fields: message type and number, with the type that they had.
pub(crate) type Retired = BTreeMap<(String, u32), String>;

/// What is wrong with putting `new` in the place of `old`. `retired` are fields that were removed before.
#[must_use]
pub fn findings(
    old: &super::Schema,
    new: &super::Schema,
    retired: &Retired,
    rule: Compatibility,
) -> Vec<Finding> {
    let mut report = Report::default();
    if rule == Compatibility::None {
        return Vec::new();
    }
    if old.message_type() != new.message_type() {
        let text = format!("{} was the message type", old.message_type());
        report.add(new.message_type().to_owned(), "message-type", text);
        return report.found.into_iter().collect();
    }
    if matches!(rule, Compatibility::Backward | Compatibility::Full) {
        let words = ("the new version", "the old one");
        report.compare(&old.shapes, &new.shapes, words);
    }
    if matches!(rule, Compatibility::Forward | Compatibility::Full) {
        let words = ("the old version", "the new one");
        report.compare(&new.shapes, &old.shapes, words);
    }
    report.compare_history(&old.shapes, &new.shapes, retired);
    report.found.into_iter().collect()
}

/// The removed fields after `new` came in the place of `old`.
pub(super) fn retire(old: &super::Schema, new: &super::Schema, mut retired: Retired) -> Retired {
    let new_by_name = by_name(&new.shapes);
    for shape in &old.shapes.messages {
        let Some(now) = new_by_name.get(&*shape.name) else {
            continue;
        };
        for field in &shape.fields {
            if now.field(field.number).is_none() {
                let key = (shape.name.to_string(), field.number);
                retired.insert(key, type_of(&old.shapes, field));
            }
        }
    }
    retired.retain(|(message, number), _| {
        new_by_name
            .get(message.as_str())
            .is_none_or(|now| now.field(*number).is_none())
    });
    retired
}

fn by_name(shapes: &Shapes) -> BTreeMap<&str, &Shape> {
    let messages = shapes.messages.iter();
    messages.map(|shape| (&*shape.name, shape)).collect()
}

fn type_of(shapes: &Shapes, field: &Field) -> String {
    let name = shapes.type_name(field.kind);
    match (field.label, field.kind) {
        (Label::Repeated, Kind::Map(_)) => "map".to_owned(),
        (Label::Repeated, _) => format!("repeated {name}"),
        _ => name.to_owned(),
    }
}

#[derive(Default)]
struct Report {
    found: BTreeSet<Finding>,
}

/// One direction.
struct Pair<'s> {
    writer: &'s Shapes,
    reader: &'s Shapes,
    /// Who reads, and whose messages.
    words: (&'static str, &'static str),
}

impl Report {
    fn add(&mut self, field: String, rule: &'static str, text: String) {
        if self.found.len() < FINDINGS_MAX {
            self.found.insert(Finding { field, rule, text });
        }
    }

    /// Walks all pairs of message types that stand at the same place, each once.
    fn compare(&mut self, writer: &Shapes, reader: &Shapes, words: (&'static str, &'static str)) {
        let pair = Pair {
            writer,
            reader,
            words,
        };
        let mut seen = BTreeSet::from([(0, 0)]);
        let mut todo = vec![(0, 0)];
        while let Some((written, read)) = todo.pop() {
            let (written, read) = (&writer.messages[written], &reader.messages[read]);
            for field in &read.fields {
                let Some(before) = written.field(field.number) else {
                    self.compare_missing(&pair, read, field);
                    continue;
                };
                if let Some(next) = self.compare_fields(&pair, read, before, field)
                    && seen.insert(next)
                {
                    todo.push(next);
                }
            }
            self.compare_oneofs(&pair, written, read);
        }
    }

    /// A field that the reader has and the writer does not.
    fn compare_missing(&mut self, pair: &Pair<'_>, read: &Shape, field: &Field) {
        if field.label == Label::Required {
            let (who, whose) = pair.words;
            let text = format!("{who} requires it, and {whose} does not write it");
            self.add(place(read, field), "required-field", text);
        }
    }

    /// A field that both have. Returns the message types to compare next.
    fn compare_fields(
        &mut self,
        pair: &Pair<'_>,
        read: &Shape,
        before: &Field,
        field: &Field,
    ) -> Option<(usize, usize)> {
        let (who, whose) = pair.words;
        if before.label == Label::Repeated && field.label != Label::Repeated {
            let text = format!("it is repeated in {whose}, and {who} keeps one of the values");
            self.add(place(read, field), "repeated-field", text);
            return None;
        }
        if field.label == Label::Required && before.label == Label::Optional {
            let text = format!("{who} requires it, and {whose} may leave it out");
            self.add(place(read, field), "required-field", text);
        }
        let (written_kind, read_kind) = (before.kind, field.kind);
        match (written_kind, read_kind) {
            (Kind::Message(a), Kind::Message(b))
            | (Kind::Group(a), Kind::Group(b))
            | (Kind::Map(a), Kind::Map(b)) => return Some((a, b)),
            (Kind::Enum(a), Kind::Enum(b)) => {
                self.compare_enums(pair, read, field, a, b);
                return None;
            }
            _ => {}
        }
        if !reads(written_kind, read_kind) {
            let text = format!(
                "it is {} in {whose}, which {who} does not read as {}",
                type_of(pair.writer, before),
                type_of(pair.reader, field)
            );
            self.add(place(read, field), "field-type", text);
        }
        None
    }

    fn compare_enums(&mut self, pair: &Pair<'_>, read: &Shape, field: &Field, a: usize, b: usize) {
        let (written, reader) = (&pair.writer.enums[a], &pair.reader.enums[b]);
        if !reader.is_closed {
            return;
        }
        let lost = written
            .numbers
            .iter()
            .find(|number| reader.numbers.binary_search(number).is_err());
        if let Some(number) = lost {
            let (who, whose) = pair.words;
            let text = format!(
                "{whose} has the value {number} of {}, which {who} does not know, and the enum is closed",
                reader.name
            );
            self.add(place(read, field), "enum-value", text);
        }
    }

    /// Fields that were independent and are one choice now: a reader keeps one of them.
    fn compare_oneofs(&mut self, pair: &Pair<'_>, written: &Shape, read: &Shape) {
        let mut first_of: BTreeMap<usize, &Field> = BTreeMap::new();
        for field in &read.fields {
            let (Some(choice), Some(before)) = (field.oneof, written.field(field.number)) else {
                continue;
            };
            let first = *first_of.entry(choice).or_insert(before);
            let is_together = first.number == before.number
                || (before.oneof.is_some() && before.oneof == first.oneof);
            if !is_together {
                let (who, whose) = pair.words;
                let text = format!(
                    "{whose} may write it together with {}, and {who} keeps one of them",
                    first.name
                );
                self.add(place(read, field), "oneof", text);
            }
        }
    }

    fn compare_history(&mut self, old: &Shapes, new: &Shapes, retired: &Retired) {
        let new_by_name = by_name(new);
        for shape in &old.messages {
            let Some(now) = new_by_name.get(&*shape.name) else {
                continue;
            };
            for field in &now.fields {
                let is_reserved = |range: &&(u32, u32)| (range.0..range.1).contains(&field.number);
                if shape.field(field.number).is_none()
                    && shape.reserved.iter().any(|range| is_reserved(&range))
                {
                    let text = format!("the old version reserved the number {}", field.number);
                    self.add(place(now, field), "reserved-number", text);
                }
            }
        }
        for ((message, number), was) in retired {
            let Some(now) = new_by_name.get(message.as_str()) else {
                continue;
            };
            if let Some(field) = now.field(*number)
                && type_of(new, field) != *was
            {
                let text = format!("a removed field had the number {number}, and was {was}");
                self.add(place(now, field), "number-reused", text);
            }
        }
    }
}

fn place(shape: &Shape, field: &Field) -> String {
    format!("{}.{}", shape.name, field.name)
}

/// Whether a reader of one type gets every value that a writer of another one writes.
fn reads(written: Kind, read: Kind) -> bool {
    use Scalar::{Bool, Bytes, Int32, Int64, Sint32, Sint64, String, Uint32, Uint64};
    match (written, read) {
        (Kind::Scalar(written), Kind::Scalar(read)) => {
            written == read
                || matches!(
                    (written, read),
                    (Int32 | Uint32 | Bool, Int64)
                        | (Uint32 | Bool, Uint64)
                        | (Bool, Int32 | Uint32)
                        | (Sint32, Sint64)
                        | (String, Bytes)
                )
        }
        (Kind::Enum(_), Kind::Scalar(read)) => matches!(read, Int32 | Int64),
        (Kind::Message(_), Kind::Scalar(read)) => read == Bytes,
        _ => false,
    }
}
