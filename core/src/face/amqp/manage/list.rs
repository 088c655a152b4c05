//! QUERY: lists, gathered from the broker page by page.
//!
//! The broker pages by the places of its tables, the AMQP management draft by the number of entities to skip. Only what
//! is asked for is kept, so that a list costs the memory of one answer whatever there is.

use serde_json::{Map as Object, Value as Json, json};

use super::answer::Answer;
use super::ask::Kind;
use crate::admin::{BindingFilter, Page, Reply, Request};

/// Entities of one answer.
pub(super) const COUNT_MAX: u64 = 500;
/// The same when nothing is said.
pub(super) const COUNT_DEFAULT: u64 = 100;

/// A list that is being gathered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listing {
    pub(super) kind: Kind,
    /// Which bindings.
    pub(super) filter: BindingFilter,
    /// Which attributes; empty for all.
    pub(super) attributes: Vec<String>,
    /// Entities to skip.
    pub(super) offset: u64,
    /// Entities at most.
    pub(super) count: u64,
    /// Entities that were skipped.
    pub(super) skipped: u64,
    pub(super) rows: Vec<Object<String, Json>>,
}

/// How a list goes on.
pub(super) enum Step {
    /// Ask for the page that begins here.
    More(u64),
    /// It is whole.
    Done(Answer),
}

impl Listing {
    /// The request for a page.
    pub(super) fn request(&self, from: u64) -> Request {
        match self.kind {
            Kind::Queue | Kind::Stream => Request::Queues { from },
            Kind::Exchange => Request::Exchanges { from },
            Kind::Binding => Request::Bindings {
                from,
                filter: self.filter.clone(),
            },
        }
    }

    /// Takes a page.
    pub(super) fn take(&mut self, reply: Reply) -> Step {
        match reply {
            Reply::Queues(mut page) => {
                let is_stream = self.kind == Kind::Stream;
                page.items.retain(|row| row.spec.is_stream() == is_stream);
                self.take_page(&page, json_of)
            }
            Reply::Exchanges(page) => self.take_page(&page, json_of),
            Reply::Bindings(page) => self.take_page(&page, |spec| json_of(&**spec)),
            other => Step::Done(Answer::of_reply(other, self.kind)),
        }
    }

    fn take_page<T>(&mut self, page: &Page<T>, show: impl Fn(&T) -> Json) -> Step {
        for item in &page.items {
            if self.rows.len() as u64 == self.count {
                return Step::Done(self.answer(true));
            }
            if self.skipped < self.offset {
                self.skipped += 1;
            } else if let Json::Object(row) = show(item) {
                self.rows.push(row);
            }
        }
        match page.next {
            Some(_) if self.rows.len() as u64 == self.count => Step::Done(self.answer(true)),
            Some(next) => Step::More(next),
            None => Step::Done(self.answer(false)),
        }
    }

    fn answer(&mut self, has_more: bool) -> Answer {
        let rows = std::mem::take(&mut self.rows);
        let mut names = std::mem::take(&mut self.attributes);
        if names.is_empty() {
            for name in rows.iter().flat_map(Object::keys) {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        let count = rows.len() as u64;
        let results = rows.into_iter().map(|mut row| {
            let values = names.iter();
            let values = values.map(|name| row.remove(name).unwrap_or_default());
            Json::Array(values.collect())
        });
        let results: Vec<Json> = results.collect();
        let answer = Answer::read(json!({"attributeNames": names, "results": results}));
        let answer = answer.with_number("count", count);
        match has_more {
            true => answer.with_number("next", self.offset.saturating_add(count)),
            false => answer,
        }
    }
}

fn json_of<T: serde::Serialize>(item: &T) -> Json {
    json!(item)
}
