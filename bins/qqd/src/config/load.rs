//! Reads the configuration from a file and the environment, and says all that is wrong with it at once.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::declare::TOPOLOGY;
use super::key::{Key, variable};
use super::nearest::nearest;
use super::raw::Raw;
use super::{Config, Origin, Problem};

/// A file that was read.
pub(crate) struct Source {
    /// As the user named it.
    path: String,
    /// Its content.
    text: String,
    /// Where lines end: a file may declare tens of thousands of bindings, and each entry knows its line.
    line_ends: Vec<usize>,
}

impl Source {
    pub(crate) fn new(path: &str, text: String) -> Self {
        let line_ends = text.match_indices('\n').map(|(at, _)| at).collect();
        let path = path.to_owned();
        Self {
            path,
            text,
            line_ends,
        }
    }

    /// Reads the file.
    pub(crate) fn read(path: &str) -> Result<Self, Problem> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Self::new(path, text)),
            Err(error) => {
                let origin = Origin::File {
                    path: path.to_owned(),
                    line: 0,
                };
                Err(Problem::new(origin, format!("cannot be read: {error}")))
            }
        }
    }

    /// The number of the line that a span begins in, from 0.
    fn line_index(&self, span: &Range<usize>) -> usize {
        self.line_ends.partition_point(|end| *end < span.start)
    }

    fn line(&self, span: &Range<usize>) -> &str {
        let index = self.line_index(span);
        let start = index
            .checked_sub(1)
            .map_or(0, |above| self.line_ends[above] + 1);
        let end = self.line_ends.get(index).copied();
        self.text[start..end.unwrap_or(self.text.len())].trim()
    }

    pub(super) fn origin(&self, span: &Range<usize>) -> Origin {
        Origin::File {
            path: self.path.clone(),
            line: 1 + self.line_index(span),
        }
    }
}

/// Reads a configuration. `variables` are all environment variables of the process.
pub(crate) fn load(
    source: Option<&Source>,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, Vec<Problem>> {
    let mut loader = Loader::default();
    let (root, errors) = match source {
        Some(source) => {
            let (root, errors) = DeTable::parse_recoverable(&source.text);
            (root.into_inner(), errors)
        }
        None => Default::default(),
    };
    if let Some(source) = source {
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            let line: String = source.line(&span).chars().take(80).collect();
            loader.problem(
                source.origin(&span),
                format!("not valid TOML: {} in: {line}", error.message()),
            );
        }
        if !loader.problems.is_empty() {
            return Err(loader.finish());
        }
        loader.read_sections(source, &root);
    }
    loader.read_variables(variables);
    if let Some(source) = source {
        loader.read_topology(source, &root);
    }
    loader.check();
    if loader.problems.is_empty() {
        loader.remark_missing();
        Ok(loader.config)
    } else {
        Err(loader.finish())
    }
}

#[derive(Default)]
pub(super) struct Loader {
    pub(super) config: Config,
    problems: Vec<Problem>,
    /// Who set a key, by "section.key".
    origins: BTreeMap<String, Origin>,
}

impl Loader {
    pub(super) fn problem(&mut self, origin: Origin, text: impl AsRef<str>) {
        self.problems.push(Problem::new(origin, text));
    }

    fn finish(mut self) -> Vec<Problem> {
        self.problems.sort_by_key(Problem::sort_key);
        self.problems
    }

    fn read_sections(&mut self, source: &Source, root: &DeTable<'_>) {
        for (key, value) in root {
            let name: &str = key.get_ref();
            let origin = source.origin(&key.span());
            if TOPOLOGY.contains(&name) {
                continue;
            }
            let mut config = std::mem::take(&mut self.config);
            let mut sections = config.sections();
            if let Some(section) = sections.iter_mut().find(|section| section.name == name) {
                match value.get_ref() {
                    DeValue::Table(table) => {
                        for (key, value) in table {
                            let origin = source.origin(&key.span());
                            self.read_key(
                                section.name,
                                &mut section.keys,
                                key.get_ref(),
                                Raw::Toml(value.get_ref()),
                                origin,
                            );
                        }
                    }
                    _ => self.problem(
                        origin,
                        format!("{name}: must be one table, written [{name}]"),
                    ),
                }
            } else {
                let known = sections.iter().map(|section| section.name).chain(TOPOLOGY);
                let owner = sections
                    .iter()
                    .find(|section| section.keys.iter().any(|key| key.name == name));
                let hint = match (nearest(name, known.clone()), owner) {
                    (Some(near), _) => format!("; did you mean {near:?}?"),
                    (None, Some(owner)) => format!("; it belongs under [{}]", owner.name),
                    (None, None) => {
                        format!("; allowed are {}", known.collect::<Vec<_>>().join(", "))
                    }
                };
                self.problem(origin, format!("{name}: unknown section or key{hint}"));
            }
            drop(sections);
            self.config = config;
        }
        self.point_at_other_sections();
    }

    /// An unknown key without a near one in its section may be known in another.
    fn point_at_other_sections(&mut self) {
        for problem in &mut self.problems {
            let Some((path, list)) = problem.text.split_once(": unknown key; allowed are ") else {
                continue;
            };
            let name = path.rsplit('.').next().unwrap_or(path);
            let sections = self.config.sections();
            if let Some(owner) = sections
                .iter()
                .find(|section| section.keys.iter().any(|key| key.name == name))
            {
                problem.text = format!(
                    "{path}: unknown key; it belongs under [{}], here are allowed {list}",
                    owner.name
                );
            }
        }
    }

    /// Reads one key of a table into its slot.
    pub(super) fn read_key(
        &mut self,
        table: &str,
        keys: &mut [Key<'_>],
        name: &str,
        raw: Raw<'_>,
        origin: Origin,
    ) {
        let Some(key) = keys.iter_mut().find(|key| key.name == name) else {
            let hint = match nearest(name, keys.iter().map(|key| key.name)) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!(
                    "allowed are {}",
                    keys.iter()
                        .map(|key| key.name)
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            };
            self.problem(origin, format!("{table}.{name}: unknown key; {hint}"));
            return;
        };
        match key.slot.read(raw) {
            Ok(()) => {
                self.origins.insert(format!("{table}.{name}"), origin);
            }
            Err(()) => {
                let allowed = key.slot.allowed();
                self.problem(
                    origin,
                    format!("{table}.{name} = {}: allowed is {allowed}", raw.quote()),
                );
            }
        }
    }

    fn read_variables(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        let mut config = std::mem::take(&mut self.config);
        let mut sections = config.sections();
        let mut remarks = Vec::new();
        for (variable_name, text) in variables {
            let Some(rest) = variable_name.strip_prefix("QQ_") else {
                continue;
            };
            let mut is_known = false;
            for section in &mut sections {
                for key in &mut section.keys {
                    if variable(section.name, key.name) != variable_name {
                        continue;
                    }
                    is_known = true;
                    let origin = Origin::Variable(variable_name.clone());
                    match key.slot.read(Raw::Text(&text)) {
                        Ok(()) => {
                            self.origins
                                .insert(format!("{}.{}", section.name, key.name), origin);
                        }
                        Err(()) => {
                            let allowed = key.slot.allowed();
                            let quote = Raw::Text(&text).quote();
                            self.problems.push(Problem::new(
                                origin,
                                format!("{quote}: allowed is {allowed}"),
                            ));
                        }
                    }
                }
            }
            let is_ours = sections.iter().any(|section| {
                rest.strip_prefix(&section.name.to_uppercase())
                    .is_some_and(|rest| rest.starts_with('_'))
            });
            if !is_known && is_ours {
                remarks.push(unknown_variable(&variable_name, &sections));
            }
        }
        drop(sections);
        config.remarks.extend(remarks);
        self.config = config;
    }

    /// Where a key was set; its variable, when it was nowhere.
    fn origin_of(&self, section: &str, key: &str) -> Origin {
        let set = self.origins.get(&format!("{section}.{key}")).cloned();
        set.unwrap_or_else(|| Origin::Variable(variable(section, key)))
    }

    /// What no key can know alone.
    fn check(&mut self) {
        if self.config.server.tls_enabled
            && let Some(origin) = self.origins.get("server.tls_enabled").cloned()
        {
            self.problem(
                origin,
                "server.tls_enabled = true: TLS is not available in this build; allowed is false",
            );
        }
        if self.config.sasl.enabled && self.config.auth.users_file.0.is_none() {
            let origin = self.origin_of("sasl", "enabled");
            self.problem(origin, "sasl.enabled = true: nobody could log in; set auth.users_file to a file of name:password lines");
        }
        if let Some(path) = self.config.management.prometheus_path.0.clone()
            && !qq_http::is_metrics_path(&path)
        {
            let origin = self.origin_of("management", "prometheus_path");
            self.problem(
                origin,
                format!("management.prometheus_path = {path:?}: allowed is a path such as \"/metrics\" at which neither the API nor the dashboard is"),
            );
        }
        if self.config.storage.backend.0 == "sqlite" && self.config.storage.path.0.is_none() {
            let origin = self.origin_of("storage", "path");
            self.problem(
                origin,
                "storage.path = \"\": allowed is the path of a directory",
            );
        }
    }

    /// Says which of the keys that were set have no effect, one line per section.
    fn remark_missing(&mut self) {
        let mut remarks = Vec::new();
        for section in self.config.sections() {
            let is_off = section.keys.iter().any(|key| {
                let is_set = self
                    .origins
                    .contains_key(&format!("{}.{}", section.name, key.name));
                key.name == "enabled"
                    && key.is_later
                    && is_set
                    && key.slot.show().as_deref() == Some("false")
            });
            // A section that was switched off does what it says; so does TLS that is off.
            let without_effect: Vec<&str> = section
                .keys
                .iter()
                .filter(|key| key.is_later && key.name != "tls_enabled" && !is_off)
                .map(|key| key.name)
                .filter(|key| {
                    self.origins
                        .contains_key(&format!("{}.{key}", section.name))
                })
                .collect();
            if !without_effect.is_empty() {
                let list = without_effect.join(", ");
                remarks.push(format!(
                    "[{}]: not available in this build, without effect: {list}",
                    section.name
                ));
            }
        }
        self.config.remarks.extend(remarks);
    }
}

fn unknown_variable(name: &str, sections: &[super::key::Section<'_>]) -> String {
    let known: Vec<String> = sections
        .iter()
        .flat_map(|section| {
            section
                .keys
                .iter()
                .map(|key| variable(section.name, key.name))
        })
        .collect();
    let lower: Vec<String> = known.iter().map(|name| name.to_lowercase()).collect();
    let hint = match nearest(name, lower.iter().map(String::as_str)) {
        Some(near) => format!("; did you mean {}?", near.to_uppercase()),
        None => String::new(),
    };
    format!("environment variable {name}: names no known key, without effect{hint}")
}
