//! Making what is missing of a whole topology.
//!
//! It is tried on an empty table first, together with what exists, so that one conflict makes nothing.

use super::super::group::check_group;
use super::super::{Broker, Now, QueueSpec, quoted};
use super::Done;
use crate::admin::{Counted, Definitions, Imported, Reply};
use crate::schema::{Candidate, Registration, SchemaVersion};
use crate::vocab::{Reason, Refusal};

impl Broker {
    pub(super) fn manage_import(
        &mut self,
        now: Now,
        wanted: &Definitions,
    ) -> Result<Done, Refusal> {
        if wanted.version != 1 {
            return Err(Refusal {
                reason: Reason::Invalid,
                text: format!(
                    "version {} of definitions is not known; 1 is",
                    wanted.version
                ),
            });
        }
        let mut created = Counted::default();
        if let Some(conflict) = self.check_queues(&wanted.queues, &mut created.queues)? {
            return Ok(Done::Read(conflict));
        }
        if let Some(conflict) = self.check_exchanges(wanted, &mut created.exchanges)? {
            return Ok(Done::Read(conflict));
        }
        self.check_bindings(wanted)?;
        created.groups = self.check_groups(wanted, created.queues)?;
        let schemas = match self.check_schemas(now, &wanted.schemas)? {
            Ok(missing) => missing,
            Err(conflict) => return Ok(Done::Read(conflict)),
        };
        created.schemas = schemas.len() as u64;
        for spec in &wanted.queues {
            if !self.queue_names.contains_key(spec.name.as_str()) {
                self.declare_queue(spec.clone(), None)?;
            }
        }
        for spec in &wanted.exchanges {
            self.declare_exchange(spec.clone())?;
        }
        for group in &wanted.groups {
            self.declare_group(group)?;
        }
        self.apply_schemas(schemas);
        for spec in &wanted.bindings {
            created.bindings += u64::from(self.bind(spec.clone(), None)?);
        }
        let unchanged = Counted {
            queues: wanted.queues.len() as u64 - created.queues,
            exchanges: wanted.exchanges.len() as u64 - created.exchanges,
            bindings: wanted.bindings.len() as u64 - created.bindings,
            groups: wanted.groups.len() as u64 - created.groups,
            schemas: wanted.schemas.len() as u64 - created.schemas,
        };
        Ok(Done::Changed(Reply::Imported(Imported {
            created,
            unchanged,
        })))
    }

    /// Whether all queues can be there; counts those that are missing.
    fn check_queues(
        &self,
        wanted: &[QueueSpec],
        missing: &mut u64,
    ) -> Result<Option<Reply>, Refusal> {
        let mut names = std::collections::BTreeSet::new();
        for spec in wanted {
            if !names.insert(spec.name.as_str()) {
                return Err(twice("queue", &spec.name));
            }
            match self.queue_names.get(spec.name.as_str()) {
                Some(slot) => {
                    if let Some(field) = self.queues[*slot].spec.difference(spec) {
                        let text = format!(
                            "the queue {} exists with another {field}",
                            quoted(&spec.name)
                        );
                        let field = field.to_owned();
                        return Ok(Some(Reply::Conflict { field, text }));
                    }
                }
                None => {
                    self.check_declarable(spec)?;
                    *missing += 1;
                }
            }
        }
        if self.queues.len() as u64 + *missing > self.config.limits.queues_max as u64 {
            return Err(too_many("queues"));
        }
        Ok(None)
    }

    /// Whether all groups can be made once the queues are there; counts those that are missing.
    fn check_groups(&self, wanted: &Definitions, queues: u64) -> Result<u64, Refusal> {
        let specs: std::collections::BTreeMap<&str, &QueueSpec> = (wanted.queues.iter())
            .map(|spec| (spec.name.as_str(), spec))
            .collect();
        let mut names = std::collections::BTreeSet::new();
        let mut missing = 0;
        for group in &wanted.groups {
            let known = self.queue_names.get(group.queue.as_str());
            let known = known.map(|slot| &self.queues[*slot]);
            let is_owned = known.is_some_and(|queue| queue.owner.is_some());
            let source = known.map(|queue| &*queue.spec);
            let source = source.or_else(|| specs.get(group.queue.as_str()).copied());
            let source = source.ok_or_else(|| super::missing("queue", &group.queue))?;
            let name = check_group(source, is_owned, &group.name)?;
            missing += u64::from(!self.queue_names.contains_key(name.as_str()));
            if !names.insert(name) {
                return Err(twice("group", &group.name));
            }
        }
        if self.queues.len() as u64 + queues + missing > self.config.limits.queues_max as u64 {
            return Err(too_many("queues"));
        }
        Ok(missing)
    }

    /// The schemas that are missing, or the first that is there as another one.
    fn check_schemas(
        &self,
        now: Now,
        wanted: &[Candidate],
    ) -> Result<Result<Vec<Registration>, Reply>, Refusal> {
        let mut subjects = std::collections::BTreeSet::new();
        let mut missing = Vec::new();
        for candidate in wanted {
            let subject = &candidate.subject;
            if !subjects.insert(subject) {
                return Err(twice("schema", subject));
            }
            match self.schemas.version(subject, 0) {
                Some(known) if is_same(known, candidate) => {}
                Some(_) => {
                    return Ok(Err(Reply::Conflict {
                        field: "schemas".to_owned(),
                        text: format!("{} has another schema", quoted(subject)),
                    }));
                }
                None => missing.push(candidate.clone()),
            }
        }
        let decided = self.decide_schemas(now, missing);
        decided.map(Ok).map_err(|refused| Refusal {
            reason: refused.reason,
            text: refused.text,
        })
    }

    /// Whether all exchanges can be there; counts those that are missing.
    fn check_exchanges(
        &self,
        wanted: &Definitions,
        missing: &mut u64,
    ) -> Result<Option<Reply>, Refusal> {
        for spec in &wanted.exchanges {
            let known = self
                .exchanges
                .find(&spec.name)
                .and_then(|id| self.exchanges.spec(id));
            if let Some(field) = known.and_then(|known| known.difference(spec)) {
                let text = format!(
                    "the exchange {} exists with another {field}",
                    quoted(&spec.name)
                );
                let field = field.to_owned();
                return Ok(Some(Reply::Conflict { field, text }));
            }
            *missing += u64::from(known.is_none() && self.exchanges.decide_declare(spec)?);
        }
        let exchanges = self.exchanges.len() as u64 + *missing;
        match exchanges > self.config.limits.exchanges_max as u64 {
            true => Err(too_many("exchanges")),
            false => Ok(None),
        }
    }

    /// Whether all bindings can be made once queues and exchanges are there.
    fn check_bindings(&self, wanted: &Definitions) -> Result<(), Refusal> {
        use std::collections::{BTreeMap, BTreeSet};
        let new_queues: BTreeSet<&str> = wanted
            .queues
            .iter()
            .map(|spec| spec.name.as_str())
            .collect();
        let mut kinds = BTreeMap::new();
        for spec in &wanted.exchanges {
            if kinds.insert(spec.name.as_str(), spec.kind).is_some() {
                return Err(twice("exchange", &spec.name));
            }
        }
        for spec in &wanted.bindings {
            let known = self
                .exchanges
                .find(&spec.exchange)
                .and_then(|id| self.exchanges.spec(id));
            let kind = known
                .map(|known| known.kind)
                .or_else(|| kinds.get(spec.exchange.as_str()).copied());
            let kind = kind.ok_or_else(|| super::missing("exchange", &spec.exchange))?;
            spec.check(kind)?;
            if let Some(queue) = &spec.queue
                && !new_queues.contains(queue.as_str())
            {
                self.slot_of(queue)?;
            }
            if let Some(to) = &spec.to_exchange
                && !kinds.contains_key(to.as_str())
                && self.exchanges.find(to).is_none()
            {
                return Err(super::missing("exchange", to));
            }
        }
        let bindings = self.exchanges.bindings_len() + wanted.bindings.len();
        match bindings > self.config.limits.bindings_max {
            true => Err(too_many("bindings")),
            false => Ok(()),
        }
    }
}

/// Whether a schema is there already. A text may be compiled to other bytes by another version.
fn is_same(known: &SchemaVersion, wanted: &Candidate) -> bool {
    let is_text = known.source.is_some() && known.source == wanted.source;
    known.message_type == wanted.schema.message_type()
        && (is_text || known.descriptor == *wanted.schema.descriptor())
        && wanted
            .compatibility
            .is_none_or(|rule| rule == known.compatibility)
        && wanted
            .refuses_unknown_fields
            .is_none_or(|refuses| refuses == known.refuses_unknown_fields)
}

fn too_many(what: &str) -> Refusal {
    Refusal {
        reason: Reason::LimitExceeded,
        text: format!("there would be more {what} than limits allow; raise {what}_max"),
    }
}

fn twice(what: &str, name: &str) -> Refusal {
    Refusal {
        reason: Reason::Invalid,
        text: format!("the {what} {} is in it twice", quoted(name)),
    }
}
