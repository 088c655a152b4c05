//! Subjects and their versions: decides what may be registered, applies what was decided or recovered.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::compat::{Finding, findings, retire};
use super::record::SchemaVersion;
use super::rule::{Active, is_system};
use super::{Compatibility, Schema};
use crate::broker::{QueueSpec, quoted};
use crate::vocab::Reason;

/// Bounds of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryLimits {
    /// Versions that are kept of one subject; the oldest goes when another one comes.
    pub versions_max: usize,
    /// Subjects.
    pub subjects_max: usize,
    /// Bytes of all versions, see [`SchemaVersion::cost`].
    pub bytes_max: usize,
}

impl Default for RegistryLimits {
    fn default() -> Self {
        Self {
            versions_max: 100,
            subjects_max: 10_000,
            bytes_max: 64 << 20,
        }
    }
}

/// What somebody wants to register, compiled on the task of whoever asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The name to register it under.
    pub subject: String,
    /// The compiled schema.
    pub schema: Arc<Schema>,
    /// The text that it was compiled from.
    pub source: Option<String>,
    /// The rule from now on, also for this version; none keeps what the subject has, or takes the broker's default.
    pub compatibility: Option<Compatibility>,
    /// Whether unknown fields are refused from now on; none keeps what the subject has.
    pub refuses_unknown_fields: Option<bool>,
}

/// Why something was not registered or not found. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaRefused {
    /// The kind of reason.
    pub reason: Reason,
    /// For people.
    pub text: String,
    /// What is incompatible, if that is the reason.
    pub findings: Vec<Finding>,
}

impl SchemaRefused {
    fn new(reason: Reason, text: String) -> Self {
        Self {
            reason,
            text,
            findings: Vec::new(),
        }
    }
}

/// One subject in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaSummary {
    /// The subject.
    pub subject: String,
    /// The newest version.
    pub version: u32,
    /// Its message type.
    pub message_type: String,
}

#[derive(Debug)]
struct Subject {
    /// Ascending; never empty.
    versions: Vec<Arc<SchemaVersion>>,
    /// None until [`Registry::restore`], and where that failed.
    newest: Option<Arc<Active>>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Registry {
    subjects: BTreeMap<String, Subject>,
    bytes: usize,
}

/// What follows from a registration: to be stored and applied, in this order.
#[derive(Debug)]
pub(crate) struct Registration {
    /// The new version.
    pub(crate) record: Arc<SchemaVersion>,
    /// Its schema.
    pub(crate) schema: Arc<Schema>,
    /// The version that goes.
    pub(crate) forgets: Option<u32>,
}

impl Registry {
    /// Whether and as what a candidate comes in. `otherwise` is the rule for a subject that is new and names none.
    ///
    /// # Errors
    /// `NotAllowed` for names of the broker itself, `Invalid` for a bad name or an incompatible schema (with what is
    /// incompatible), `LimitExceeded`.
    pub(crate) fn decide_register(
        &self,
        candidate: Candidate,
        otherwise: Compatibility,
        limits: &RegistryLimits,
        wall_ms: i64,
    ) -> Result<Registration, SchemaRefused> {
        let Candidate {
            subject,
            schema,
            source,
            compatibility,
            refuses_unknown_fields,
        } = candidate;
        QueueSpec::check_name(&subject)
            .map_err(|refusal| SchemaRefused::new(refusal.reason, refusal.text))?;
        if is_system(&subject) {
            let text = format!(
                "{}: queues of the broker take any message",
                quoted(&subject)
            );
            return Err(SchemaRefused::new(Reason::NotAllowed, text));
        }
        let known = self.subjects.get(&subject);
        let last = known.and_then(|known| known.versions.last());
        let rule = compatibility.or(last.map(|last| last.compatibility));
        let rule = rule.unwrap_or(otherwise);
        let mut retired = BTreeMap::new();
        if let (Some(known), Some(last)) = (known, last) {
            if let (Some(old), true) = (&known.newest, rule != Compatibility::None) {
                let found = findings(&old.schema, &schema, &last.retired, rule);
                if !found.is_empty() {
                    return Err(incompatible(last, rule, found));
                }
                retired = retire(&old.schema, &schema, last.retired.clone());
            }
        } else if self.subjects.len() >= limits.subjects_max {
            let text = format!(
                "there are {} subjects with schemas, as many as limits allow; delete some or raise schemas_max",
                self.subjects.len()
            );
            return Err(SchemaRefused::new(Reason::LimitExceeded, text));
        }
        let record = SchemaVersion {
            version: last.map_or(1, |last| last.version.saturating_add(1)),
            message_type: schema.message_type().to_owned(),
            descriptor: schema.descriptor().clone(),
            source,
            compatibility: rule,
            refuses_unknown_fields: refuses_unknown_fields
                .or(last.map(|last| last.refuses_unknown_fields))
                .unwrap_or(false),
            registered_at_ms: wall_ms,
            retired,
            subject,
        };
        let oldest = known
            .filter(|known| known.versions.len() >= limits.versions_max.max(1))
            .map(|known| &known.versions[0]);
        let freed = oldest.map_or(0, |oldest| oldest.cost());
        self.check_room(record.cost(), freed, limits)?;
        Ok(Registration {
            forgets: oldest.map(|oldest| oldest.version),
            record: Arc::new(record),
            schema,
        })
    }

    /// Whether registrations of new subjects that were decided one by one also fit together.
    ///
    /// # Errors
    /// `LimitExceeded`.
    pub(crate) fn check_together(
        &self,
        decided: &[Registration],
        limits: &RegistryLimits,
    ) -> Result<(), SchemaRefused> {
        let subjects = self.subjects.len() + decided.len();
        if subjects > limits.subjects_max {
            let text = format!(
                "there would be {subjects} subjects with schemas, more than limits allow; raise schemas_max"
            );
            return Err(SchemaRefused::new(Reason::LimitExceeded, text));
        }
        let added = decided.iter().map(|decided| decided.record.cost()).sum();
        self.check_room(added, 0, limits)
    }

    fn check_room(
        &self,
        added: usize,
        freed: usize,
        limits: &RegistryLimits,
    ) -> Result<(), SchemaRefused> {
        if self.bytes - freed + added <= limits.bytes_max {
            return Ok(());
        }
        let text = format!(
            "all schemas together have {} bytes, and limits allow {}; delete some or raise schemas_max_bytes",
            self.bytes, limits.bytes_max
        );
        Err(SchemaRefused::new(Reason::LimitExceeded, text))
    }

    /// Enters a version; an older one than the newest joins the history. In recovery it has no schema yet.
    pub(crate) fn apply_registered(
        &mut self,
        record: Arc<SchemaVersion>,
        schema: Option<Arc<Schema>>,
    ) {
        self.bytes += record.cost();
        let newest = schema.map(|schema| {
            let record = Arc::clone(&record);
            Arc::new(Active { schema, record })
        });
        match self.subjects.get_mut(&record.subject) {
            None => {
                let subject = Subject {
                    versions: vec![Arc::clone(&record)],
                    newest,
                };
                self.subjects.insert(record.subject.clone(), subject);
            }
            Some(subject) => {
                let at = subject
                    .versions
                    .partition_point(|known| known.version < record.version);
                let is_newest = at == subject.versions.len();
                subject.versions.insert(at, record);
                if is_newest {
                    subject.newest = newest;
                }
            }
        }
    }

    /// Compiles the newest version of each subject that recovery brought.
    pub(crate) fn restore(&mut self) {
        for (subject, known) in &mut self.subjects {
            let Some(record) = known.versions.last() else {
                continue;
            };
            if known.newest.is_some() {
                continue;
            }
            match Schema::restore(record.descriptor.clone(), &record.message_type) {
                Ok(schema) => {
                    known.newest = Some(Arc::new(Active {
                        schema: Arc::new(schema),
                        record: Arc::clone(record),
                    }));
                }
                Err(fault) => log::error!(
                    "version {} of the schema of {} cannot be used, and messages are not checked: {fault}",
                    record.version,
                    quoted(subject)
                ),
            }
        }
    }

    /// Takes a version out. The subject goes with its last one; says whether anything was there.
    pub(crate) fn apply_forgotten(&mut self, subject: &str, version: u32) -> bool {
        let Some(known) = self.subjects.get_mut(subject) else {
            return false;
        };
        let Some(at) = known.versions.iter().position(|v| v.version == version) else {
            return false;
        };
        self.bytes -= known.versions.remove(at).cost();
        if known.versions.is_empty() {
            self.subjects.remove(subject);
        }
        true
    }

    /// The schema that messages are checked against.
    #[must_use]
    pub fn active(&self, subject: &str) -> Option<&Arc<Active>> {
        self.subjects.get(subject)?.newest.as_ref()
    }

    /// A version of a subject; 0 is the newest.
    #[must_use]
    pub fn version(&self, subject: &str, version: u32) -> Option<&Arc<SchemaVersion>> {
        let versions = self.history(subject);
        match version {
            0 => versions.last(),
            _ => versions.iter().find(|known| known.version == version),
        }
    }

    /// All kept versions of a subject, ascending; none when there is no such subject.
    #[must_use]
    pub fn history(&self, subject: &str) -> &[Arc<SchemaVersion>] {
        self.subjects
            .get(subject)
            .map_or(&[], |known| &known.versions)
    }

    /// The newest version of every subject, by the bytes of their names.
    pub fn newest(&self) -> impl Iterator<Item = &Arc<SchemaVersion>> {
        self.subjects
            .values()
            .filter_map(|known| known.versions.last())
    }

    /// All subjects, by the bytes of their names.
    pub fn list(&self) -> impl Iterator<Item = SchemaSummary> {
        self.newest().map(|newest| SchemaSummary {
            subject: newest.subject.clone(),
            version: newest.version,
            message_type: newest.message_type.clone(),
        })
    }
}

fn incompatible(
    last: &SchemaVersion,
    rule: Compatibility,
    findings: Vec<Finding>,
) -> SchemaRefused {
    let told: Vec<String> = findings.iter().map(Finding::to_string).collect();
    let text = format!(
        "not {} compatible with version {}: {}",
        rule.name(),
        last.version,
        told.join("; ")
    );
    SchemaRefused {
        reason: Reason::Invalid,
        text,
        findings,
    }
}
