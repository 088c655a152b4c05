//! Schemas as state of the broker: registrations become operations, queues get rules, messages keep them.
//!
//! A rule goes to the faces of a queue's producers, which check messages before they publish them and say which rule
//! they checked. The broker compares that number with the queue's: it checks itself what came with another one, be it
//! through an exchange, in a transaction that was staged before, by an operator's move, or because the rule changed
//! meanwhile. So nothing is published into a queue that does not keep its rule. Dead letters are let in as they are: they
//! have nowhere else to go.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::conn::PortKind;
use super::routing::Route;
use super::{Broker, Now, quoted};
use crate::schema::{
    Candidate, Registration, Rule, SchemaMode, SchemaRefused, SchemaVersion, is_exempt,
};
use crate::store::Op;
use crate::vocab::{Message, Notice, Port, Reason, Refusal, RuleId, Verdict};

/// What a subject's name ends with that has the schema of the answers to calls.
const REPLY: &str = ".reply";

impl Broker {
    /// Registers a version of a schema. It holds for what is published from now on.
    ///
    /// # Errors
    /// See [`SchemaRefused`]; nothing changed then.
    pub fn register_schema(
        &mut self,
        now: Now,
        candidate: Candidate,
    ) -> Result<Arc<SchemaVersion>, SchemaRefused> {
        let registration = self.decide_schema(now, candidate)?;
        let record = Arc::clone(&registration.record);
        self.apply_schema(registration);
        self.update_rules(&record.subject);
        Ok(record)
    }

    fn decide_schema(&self, now: Now, candidate: Candidate) -> Result<Registration, SchemaRefused> {
        let config = &self.config;
        self.schemas.decide_register(
            candidate,
            config.schema_compatibility,
            &config.schema_limits,
            now.wall_ms,
        )
    }

    /// Decides on schemas of different subjects, all of them new: all can be registered or none is.
    ///
    /// # Errors
    /// See [`SchemaRefused`].
    pub(super) fn decide_schemas(
        &self,
        now: Now,
        candidates: Vec<Candidate>,
    ) -> Result<Vec<Registration>, SchemaRefused> {
        let decided = candidates.into_iter();
        let decided: Result<Vec<_>, _> = decided
            .map(|candidate| self.decide_schema(now, candidate))
            .collect();
        let decided = decided?;
        self.schemas
            .check_together(&decided, &self.config.schema_limits)?;
        Ok(decided)
    }

    /// Registers what was decided. Walks all queues once.
    pub(super) fn apply_schemas(&mut self, decided: Vec<Registration>) {
        let mut subjects = BTreeSet::new();
        for registration in decided {
            subjects.insert(registration.record.subject.clone());
            self.apply_schema(registration);
        }
        if !subjects.is_empty() {
            self.update_rules_of(|own| {
                subjects.contains(own) || subjects.contains(&format!("{own}{REPLY}"))
            });
        }
    }

    fn apply_schema(&mut self, registration: Registration) {
        let Registration {
            record,
            schema,
            forgets,
        } = registration;
        if let Some(version) = forgets {
            self.forget_version(record.subject.clone(), version);
        }
        self.gate.add(Op::SchemaRegistered {
            record: Arc::clone(&record),
        });
        self.schemas.apply_registered(record, Some(schema));
    }

    /// Deletes a subject with all its versions; says how many there were.
    pub fn delete_schema(&mut self, subject: &str) -> usize {
        let versions = self.schemas.history(subject).iter();
        let versions: Vec<u32> = versions.map(|known| known.version).collect();
        for version in &versions {
            self.forget_version(subject.to_owned(), *version);
        }
        self.update_rules(subject);
        versions.len()
    }

    fn forget_version(&mut self, subject: String, version: u32) {
        self.schemas.apply_forgotten(&subject, version);
        self.gate.add(Op::SchemaForgotten { subject, version });
    }

    /// Ends the recovery of schemas: they are compiled, and queues get their rules.
    pub(super) fn recover_schemas(&mut self) {
        self.schemas.restore();
        let slots: Vec<usize> = self.queues.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.update_rule(slot);
        }
    }

    /// Gives a new rule to the queues that follow a subject. Walks all queues: schemas seldom change.
    fn update_rules(&mut self, subject: &str) {
        let of_calls = subject.strip_suffix(REPLY);
        self.update_rules_of(|own| own == subject || of_calls == Some(own));
    }

    /// The same for those whose subject is concerned.
    fn update_rules_of(&mut self, is_concerned: impl Fn(&str) -> bool) {
        let concerned: Vec<usize> = self
            .queues
            .iter()
            .filter(|(_, queue)| {
                let own = queue.spec.schema.as_deref().unwrap_or(&queue.spec.name);
                is_concerned(own)
            })
            .map(|(slot, _)| slot)
            .collect();
        for slot in concerned {
            self.update_rule(slot);
        }
    }

    /// Gives a queue its rule, and tells the producers when it is another one.
    pub(super) fn update_rule(&mut self, slot: usize) {
        let queue = &self.queues[slot];
        let spec = &queue.spec;
        let subject = spec.schema.as_deref().unwrap_or(&spec.name);
        let request = self.schemas.active(subject);
        let reply = self.schemas.active(&format!("{subject}{REPLY}"));
        let mode = spec.schema_mode.unwrap_or(self.config.schema_mode);
        let is_strict = mode == SchemaMode::Strict && !is_exempt(&spec.name);
        let is_any = request.is_some() || reply.is_some() || is_strict;
        let before = queue.rule.as_ref();
        if before.is_none() && !is_any {
            return;
        }
        let rule = is_any.then(|| {
            Arc::new(Rule {
                id: RuleId(self.next_rule),
                request: request.cloned(),
                reply: reply.cloned(),
                is_strict,
            })
        });
        self.next_rule += 1;
        self.queues[slot].rule.clone_from(&rule);
        let told: Vec<(usize, Port)> = self.queues[slot]
            .producers
            .iter()
            .map(|at| (self.producers[*at].conn, self.producers[*at].port))
            .collect();
        for (conn, port) in told {
            debug_assert!(matches!(
                self.conns.conn(conn).port(port),
                Some(PortKind::Producer(_))
            ));
            let rule = rule.clone();
            self.conns.tell(conn, Notice::Ruled { port, rule });
        }
    }

    /// Whether the queues of a route take a message; `vetted` is the rule that its face found it to keep.
    #[inline]
    pub(super) fn vet(
        &self,
        route: Route,
        vetted: RuleId,
        message: &Message,
    ) -> Result<(), Verdict> {
        match route {
            Route::One(slot) => vet_for(self.queues[slot].rule.as_ref(), vetted, message),
            Route::Many => self
                .route
                .iter()
                .try_for_each(|to| vet_for(self.queues[to.slot].rule.as_ref(), vetted, message)),
        }
    }

    /// Whether a queue takes a message that was found to keep its rule when that was one before `rules_before`.
    pub(super) fn vet_anew(
        &self,
        slot: usize,
        rules_before: RuleId,
        message: &Message,
    ) -> Result<(), Refusal> {
        if self.next_rule == rules_before.0 {
            return Ok(());
        }
        // A queue for groups alone is not on the way itself, and they have what it takes.
        let source = self.source_of_group(slot);
        let queue = &self.queues[source.map_or(slot, |(source, _)| source)];
        let rule = queue.rule.as_ref();
        let rule = rule.filter(|rule| rule.id.0 >= rules_before.0);
        rule.map_or(Ok(()), |rule| rule.check_message(message))
            .map_err(|unfit| Refusal {
                reason: Reason::Undecodable,
                text: format!("the queue {}: {unfit}", quoted(&queue.spec.name)),
            })
    }
}

#[inline]
fn vet_for(rule: Option<&Arc<Rule>>, vetted: RuleId, message: &Message) -> Result<(), Verdict> {
    match rule {
        Some(rule) if rule.id != vetted => rule.check_message(message).map_err(Verdict::Unfit),
        _ => Ok(()),
    }
}
