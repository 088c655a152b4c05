//! The API: requests of HTTP as requests of management, and their answers as JSON.

pub(crate) mod conns;
pub(crate) mod definitions;
pub(crate) mod exchanges;
pub(crate) mod messages;
pub(crate) mod node;
pub(crate) mod queues;
pub(crate) mod schemas;

use qq_core::admin::{Page, Reply, Request};
use serde_json::{Map, Value};

use crate::backend::Backend;
use crate::problem::Problem;
use crate::response::Response;

/// Entries of a list when nothing is said, and at most.
const LIST_MAX: usize = 10_000;

/// A request that reached its route.
#[derive(Debug, Default)]
pub(crate) struct Call {
    /// The parts of the path in braces.
    pub(crate) parts: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// An answer or what is wrong.
pub(crate) type Answer = Result<Response, Problem>;

impl Call {
    /// The name in the path.
    pub(crate) fn name(&self) -> &str {
        self.parts.first().map_or("", String::as_str)
    }

    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.param(name) {
            None | Some("false") => Ok(false),
            Some("true" | "") => Ok(true),
            Some(_) => Err(wrong_param(name, "must be true or false")),
        }
    }

    /// A whole number between these.
    pub(crate) fn number(&self, name: &str, min: u64, max: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.param(name) else {
            return Ok(None);
        };
        let number = text
            .parse()
            .ok()
            .filter(|number| (min..=max).contains(number));
        let number = number.filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(wrong_param(
                name,
                &format!("must be a number from {min} to {max}"),
            )),
        }
    }

    /// The body as an object; an empty body is one without members.
    pub(crate) fn object(&self) -> Result<Map<String, Value>, Problem> {
        if self.body.is_empty() {
            return Ok(Map::new());
        }
        match json(&self.body)? {
            Value::Object(object) => Ok(object),
            _ => Err(Problem::invalid("the body must be a JSON object")),
        }
    }

    /// The body as a value of a type.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, Problem> {
        if self.body.is_empty() {
            return Err(Problem::invalid("the body must be a JSON object"));
        }
        let value = Value::Object(self.object()?);
        serde_json::from_value(value).map_err(|error| Problem::invalid(error.to_string()))
    }

    /// The part of a list that is wanted.
    pub(crate) fn cut<T: serde::Serialize>(&self, items: &[T]) -> Answer {
        self.cut_as(items, |item| item)
    }

    /// The part of a list that is wanted; only that is made into what is `shown`.
    pub(crate) fn cut_as<'a, T, S: serde::Serialize>(
        &self,
        items: &'a [T],
        shown: impl Fn(&'a T) -> S,
    ) -> Answer {
        let offset = self.number("offset", 0, u64::MAX)?.unwrap_or(0);
        let limit = self.number("limit", 1, LIST_MAX as u64)?;
        let limit = limit.map_or(LIST_MAX, |limit| usize::try_from(limit).unwrap_or(LIST_MAX));
        let from = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(items.len());
        let upto = from.saturating_add(limit).min(items.len());
        let part: Vec<S> = items[from..upto].iter().map(shown).collect();
        let response = Response::json(200, &part);
        Ok(response.with("X-Total-Count", items.len().to_string()))
    }

    /// Whether a name is one of those that are searched for.
    pub(crate) fn searched(&self) -> impl Fn(&str) -> bool {
        let wanted = self.param("search").unwrap_or_default().to_lowercase();
        move |name| wanted.is_empty() || name.to_lowercase().contains(&wanted)
    }
}

fn wrong_param(name: &str, text: &str) -> Problem {
    Problem::invalid(format!("{name} {text}")).with_field(Some(name.to_owned()))
}

/// Objects and lists within each other.
const DEPTH_MAX: usize = 64;

/// Reads JSON that is not too deep.
pub(crate) fn json(bytes: &[u8]) -> Result<Value, Problem> {
    let (mut depth, mut is_text, mut is_escaped) = (0usize, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => depth += 1,
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Err(Problem::invalid(
                "the JSON is nested more than 64 levels deep",
            ));
        }
    }
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::invalid(format!("the body is no JSON: {error}")))
}

/// Asks the broker; refusals become problems.
pub(crate) fn ask(backend: &dyn Backend, request: Request) -> Result<Reply, Problem> {
    match backend.ask(request) {
        Some(Reply::Refused(refusal)) => Err(refusal.into()),
        Some(Reply::InUse(refusal)) => Err(Problem::new(409, "in-use", refusal.text)),
        Some(Reply::Conflict { field, text }) => {
            Err(Problem::new(409, "conflict", text).with_field(Some(field)))
        }
        Some(reply) => Ok(reply),
        None => Err(Problem::new(
            503,
            "unavailable",
            "the broker goes down or does not answer in time",
        )),
    }
}

/// Everything of a list that comes in pages.
pub(crate) fn all<T>(
    backend: &dyn Backend,
    request: impl Fn(u64) -> Request,
    page: impl Fn(Reply) -> Option<Page<T>>,
) -> Result<Vec<T>, Problem> {
    let mut items = Vec::new();
    let mut next = Some(0);
    while let Some(from) = next {
        let part = page(ask(backend, request(from))?).ok_or_else(unexpected)?;
        items.extend(part.items);
        next = part.next;
    }
    Ok(items)
}

/// The broker answered something else than was asked, which is a fault of ours.
pub(crate) fn unexpected() -> Problem {
    Problem::new(500, "internal", "the broker answered something else")
}

/// A moment as RFC 3339 in UTC.
pub(crate) fn moment(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| "1970-01-01T00:00:00Z".to_owned(), |at| at.to_string())
}
