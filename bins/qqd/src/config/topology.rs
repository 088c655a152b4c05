//! `[[queue]]`, `[[exchange]]` and `[[binding]]`: what exists from the start.

use qq_core::broker::{Backoff, FailurePolicy, GroupSpec, Overflow, QueueSpec};
use qq_core::route::{self, BindingSpec, Datum, ExchangeKind, ExchangeSpec};
use qq_core::schema::SchemaMode;
use toml::de::DeValue;

use super::amount::{Size, Span, parse_span_ms, show_span};
use super::key::Key;
use super::raw::Raw;
use super::sections::{Defaults, YEAR_MS};
use super::setting::{Choice, Maybe, Number, Setting, Text, Texts, toml_text};

/// A name of a queue or an exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Name(pub(crate) String);

impl Setting for Name {
    fn read(&mut self, raw: Raw<'_>) -> Result<(), ()> {
        let text = raw.text().ok_or(())?;
        if text.is_empty() || text.len() > 255 || text.chars().any(char::is_control) {
            return Err(());
        }
        self.0 = text.to_owned();
        Ok(())
    }

    fn allowed(&self) -> String {
        "a name of 1 to 255 bytes without control characters".to_owned()
    }

    fn show(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| toml_text(&self.0))
    }
}

/// How the waiting time between attempts grows.
#[derive(Clone, Copy, Debug, Default)]
struct Wait(Option<Backoff>);

impl Setting for Wait {
    fn read(&mut self, raw: Raw<'_>) -> Result<(), ()> {
        let Raw::Toml(DeValue::Table(table)) = raw else {
            return Err(());
        };
        let Backoff {
            mut min_ms,
            mut max_ms,
            mut factor,
        } = Backoff::default();
        for (key, value) in table {
            let value = Raw::Toml(value.get_ref());
            match key.get_ref().as_ref() {
                "min" => min_ms = parse_span_ms(value).ok_or(())?,
                "max" => max_ms = parse_span_ms(value).ok_or(())?,
                "factor" => {
                    factor = value
                        .integer()
                        .and_then(|factor| u32::try_from(factor).ok())
                        .ok_or(())?
                }
                _ => return Err(()),
            }
        }
        if min_ms > max_ms || max_ms > YEAR_MS || !(1..=100).contains(&factor) {
            return Err(());
        }
        self.0 = Some(Backoff {
            min_ms,
            max_ms,
            factor,
        });
        Ok(())
    }

    fn allowed(&self) -> String {
        "a table such as { min = \"1s\", max = \"1m\", factor = 2 } with min at most max and a factor from 1 to 100"
            .to_owned()
    }

    fn show(&self) -> Option<String> {
        let Backoff {
            min_ms,
            max_ms,
            factor,
        } = self.0?;
        Some(format!(
            "{{ min = \"{}\", max = \"{}\", factor = {factor} }}",
            show_span(min_ms),
            show_span(max_ms)
        ))
    }
}

/// The arguments of a binding: any table of plain values.
#[derive(Clone, Debug, Default)]
struct Arguments {
    values: route::Arguments,
    shown: Option<String>,
}

impl Setting for Arguments {
    fn read(&mut self, raw: Raw<'_>) -> Result<(), ()> {
        let Raw::Toml(DeValue::Table(table)) = raw else {
            return Err(());
        };
        let mut shown = Vec::new();
        for (key, value) in table {
            let (datum, text) = match value.get_ref() {
                DeValue::String(text) => (Datum::Text(text.as_ref().to_owned()), toml_text(text)),
                DeValue::Integer(integer) => {
                    let number = i64::from_str_radix(integer.as_str(), integer.radix());
                    let number = number.map_err(drop)?;
                    (Datum::Int(number), number.to_string())
                }
                DeValue::Float(float) => {
                    let number = float.as_str().parse().map_err(drop)?;
                    (Datum::Float(number), float.as_str().to_owned())
                }
                DeValue::Boolean(flag) => (Datum::Bool(*flag), flag.to_string()),
                _ => return Err(()),
            };
            let name: &str = key.get_ref();
            shown.push(format!("{} = {text}", toml_text(name)));
            self.values.insert(name.to_owned(), datum);
        }
        self.shown = Some(format!("{{ {} }}", shown.join(", ")));
        Ok(())
    }

    fn allowed(&self) -> String {
        "a table of texts, numbers and booleans".to_owned()
    }

    fn show(&self) -> Option<String> {
        self.shown.clone()
    }
}

/// One `[[queue]]`.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) name: Name,
    durable: bool,
    auto_delete: bool,
    message_ttl: Maybe<Span>,
    max_length: Maybe<Number>,
    max_bytes: Maybe<Size>,
    overflow: Choice,
    expires: Maybe<Span>,
    max_priority: Number,
    max_deliveries: Number,
    failure_policy: Choice,
    dead_letter_exchange: Text,
    dead_letter_routing_key: Text,
    retry_backoff: Wait,
    lock_timeout: Maybe<Span>,
    single_active_consumer: bool,
    dedup_window: Span,
    schema: Text,
    schema_mode: Choice,
    groups: Texts,
    groups_only: bool,
}

impl Queue {
    /// A queue without a name, as the defaults say.
    pub(crate) fn new(defaults: &Defaults) -> Self {
        Self {
            name: Name::default(),
            durable: defaults.durable,
            auto_delete: false,
            message_ttl: defaults.message_ttl,
            max_length: defaults.max_length,
            max_bytes: defaults.max_bytes,
            overflow: defaults.overflow,
            expires: Maybe::unset(Span::new(1_000, 1, YEAR_MS)),
            max_priority: Number::new(0, 0, 32),
            max_deliveries: defaults.max_deliveries,
            failure_policy: defaults.failure_policy,
            dead_letter_exchange: Text::default(),
            dead_letter_routing_key: Text::default(),
            retry_backoff: Wait::default(),
            lock_timeout: defaults.lock_timeout,
            single_active_consumer: false,
            dedup_window: defaults.dedup_window,
            schema: Text::default(),
            schema_mode: Choice::new("default", &["default", "permissive", "strict"]),
            groups: Texts::default(),
            groups_only: false,
        }
    }

    pub(crate) fn keys(&mut self) -> Vec<Key<'_>> {
        vec![
            Key::new("name", &mut self.name, "its name; must be given"),
            Key::new(
                "durable",
                &mut self.durable,
                "survives a restart (with a durable store)",
            ),
            Key::new(
                "auto_delete",
                &mut self.auto_delete,
                "deleted with its last consumer",
            ),
            Key::new(
                "message_ttl",
                &mut self.message_ttl,
                "messages expire after this time",
            ),
            Key::new("max_length", &mut self.max_length, "messages that it holds"),
            Key::new(
                "max_bytes",
                &mut self.max_bytes,
                "bytes of payload that it holds",
            ),
            Key::new(
                "overflow",
                &mut self.overflow,
                "what it does when full: refuse the new message, drop the oldest, or refuse the new one and keep it as a dead letter",
            ),
            Key::new(
                "expires",
                &mut self.expires,
                "deleted after so long without a consumer and without being declared",
            ),
            Key::new(
                "max_priority",
                &mut self.max_priority,
                "highest priority: a message with a higher one comes before all with a lower one; 0 is first come, first served",
            ),
            Key::new(
                "max_deliveries",
                &mut self.max_deliveries,
                "failed attempts after which the failure policy applies; 0 is no limit",
            ),
            Key::new(
                "failure_policy",
                &mut self.failure_policy,
                "what becomes of messages that were tried too often, rejected or expired: dead letters (dlq), nothing (drop), or dead letters without a limit of attempts (infinite)",
            ),
            Key::new(
                "dead_letter_exchange",
                &mut self.dead_letter_exchange,
                "where dead letters go; the queue of its name with .dlq behind it when neither this nor the key is set",
            ),
            Key::new(
                "dead_letter_routing_key",
                &mut self.dead_letter_routing_key,
                "with which routing key; their own when not set",
            ),
            Key::new(
                "retry_backoff",
                &mut self.retry_backoff,
                "how long a message waits after a failed attempt: min, times factor with each, up to max",
            ),
            Key::new(
                "lock_timeout",
                &mut self.lock_timeout,
                "how long a consumer may hold a message without settling it",
            ),
            Key::new(
                "single_active_consumer",
                &mut self.single_active_consumer,
                "one consumer at a time is served, the others stand by",
            ),
            Key::new(
                "dedup_window",
                &mut self.dedup_window,
                "for how long a second message with the same key is known as a duplicate",
            ),
            Key::new(
                "groups",
                &mut self.groups,
                "consumer groups that it has from the start",
            ),
            Key::new(
                "groups_only",
                &mut self.groups_only,
                "once it has consumer groups, they alone get its messages",
            ),
            Key::new(
                "schema",
                &mut self.schema,
                "the name under which the schema of its messages is registered; its own name when not set",
            ),
            Key::new(
                "schema_mode",
                &mut self.schema_mode,
                "whether messages may do without a schema (permissive) or not (strict)",
            ),
        ]
    }

    /// Its consumer groups.
    pub(crate) fn group_specs(&self) -> impl Iterator<Item = GroupSpec> {
        self.groups.0.iter().map(|group| GroupSpec {
            queue: self.name.0.clone(),
            name: group.clone(),
        })
    }

    /// What the broker is told.
    pub(crate) fn spec(&self) -> QueueSpec {
        let mut spec = QueueSpec::new(self.name.0.clone());
        spec.durable = self.durable;
        spec.auto_delete = self.auto_delete;
        spec.message_ttl_ms = self.message_ttl.value().map(Span::ms);
        spec.max_length = self.max_length.value().map(Number::value);
        spec.max_bytes = self.max_bytes.value().map(Size::value);
        spec.overflow = match self.overflow.value() {
            "drop-head" => Overflow::DropHead,
            "reject-dlx" => Overflow::RejectDlx,
            _ => Overflow::Reject,
        };
        spec.expires_ms = self.expires.value().map(Span::ms);
        spec.max_priority = self.max_priority.to();
        spec.max_deliveries = self.max_deliveries.to();
        spec.failure_policy = match self.failure_policy.value() {
            "drop" => FailurePolicy::Drop,
            "infinite" => FailurePolicy::Infinite,
            _ => FailurePolicy::Dlq,
        };
        spec.single_active_consumer = self.single_active_consumer;
        spec.dedup_window_ms = self.dedup_window.ms();
        spec.retry_backoff = self.retry_backoff.0;
        spec.lock_timeout_ms = self.lock_timeout.value().map(Span::ms);
        spec.dead_letter_exchange = self.dead_letter_exchange.0.clone();
        spec.dead_letter_routing_key = self.dead_letter_routing_key.0.clone();
        spec.groups_only = self.groups_only;
        spec.schema = self.schema.0.clone();
        spec.schema_mode = match self.schema_mode.value() {
            "permissive" => Some(SchemaMode::Permissive),
            "strict" => Some(SchemaMode::Strict),
            _ => None,
        };
        spec
    }
}

/// One `[[exchange]]`.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) name: Name,
    kind: Choice,
    durable: bool,
    auto_delete: bool,
    alternate_exchange: Text,
}

impl Default for Exchange {
    fn default() -> Self {
        Self {
            name: Name::default(),
            kind: Choice::new("direct", &["direct", "topic", "fanout", "headers"]),
            durable: true,
            auto_delete: false,
            alternate_exchange: Text::default(),
        }
    }
}

impl Exchange {
    pub(crate) fn keys(&mut self) -> Vec<Key<'_>> {
        vec![
            Key::new("name", &mut self.name, "its name; must be given"),
            Key::new("type", &mut self.kind, "how it routes"),
            Key::new("durable", &mut self.durable, "survives a restart"),
            Key::new(
                "auto_delete",
                &mut self.auto_delete,
                "deleted with its last binding",
            ),
            Key::new(
                "alternate_exchange",
                &mut self.alternate_exchange,
                "where messages go that it cannot route",
            ),
        ]
    }

    /// What the broker is told.
    pub(crate) fn spec(&self) -> ExchangeSpec {
        let kind = ExchangeKind::parse(self.kind.value()).unwrap_or_default();
        ExchangeSpec {
            durable: self.durable,
            auto_delete: self.auto_delete,
            alternate_exchange: self.alternate_exchange.0.clone(),
            ..ExchangeSpec::new(self.name.0.clone(), kind)
        }
    }
}

/// One `[[binding]]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Binding {
    pub(crate) exchange: Name,
    queue: Name,
    to_exchange: Name,
    routing_key: Text,
    arguments: Arguments,
}

impl Binding {
    pub(crate) fn keys(&mut self) -> Vec<Key<'_>> {
        vec![
            Key::new(
                "exchange",
                &mut self.exchange,
                "where messages come from; must be given",
            ),
            Key::new("queue", &mut self.queue, "the queue they go to"),
            Key::new(
                "to_exchange",
                &mut self.to_exchange,
                "or the exchange they go to",
            ),
            Key::new("routing_key", &mut self.routing_key, "which of them"),
            Key::new(
                "arguments",
                &mut self.arguments,
                "which of them, for headers exchanges",
            ),
        ]
    }

    /// Whether exactly one destination is named.
    pub(crate) fn has_one_destination(&self) -> bool {
        self.queue.0.is_empty() != self.to_exchange.0.is_empty()
    }

    /// What the broker is told.
    pub(crate) fn spec(&self) -> BindingSpec {
        let given = |name: &Name| (!name.0.is_empty()).then(|| name.0.clone());
        BindingSpec {
            exchange: self.exchange.0.clone(),
            queue: given(&self.queue),
            to_exchange: given(&self.to_exchange),
            routing_key: self.routing_key.0.clone().unwrap_or_default(),
            arguments: self.arguments.values.clone(),
        }
    }
}
