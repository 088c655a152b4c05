//! What can be declared for routing: exchanges and bindings, as every interface and the store write them down.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Datum;
use crate::broker::quoted;
use crate::vocab::{Reason, Refusal};

/// Longest name of an exchange, bytes of UTF-8.
pub const NAME_LEN_MAX: usize = 255;
/// Longest routing key of a binding, bytes. Keys of messages are not bounded by it.
pub const BINDING_KEY_LEN_MAX: usize = 1_024;
/// Most arguments of a binding.
pub const ARGUMENTS_MAX: usize = 64;
/// Longest name or text of an argument, bytes.
pub const ARGUMENT_LEN_MAX: usize = 4_096;

/// The argument that says how the others count.
const X_MATCH: &str = "x-match";

/// How an exchange chooses among its bindings.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum ExchangeKind {
    /// Those whose routing key is the message's.
    #[default]
    Direct,
    /// Those whose pattern of words fits the message's key: `*` is one word, `#` any number of them.
    Topic,
    /// All of them.
    Fanout,
    /// Those whose arguments fit the message's headers.
    Headers,
}

impl ExchangeKind {
    /// Its name in declarations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Topic => "topic",
            Self::Fanout => "fanout",
            Self::Headers => "headers",
        }
    }

    /// The kind of that name; none for any other, since an exchange that cannot route must not be made.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Direct, Self::Topic, Self::Fanout, Self::Headers]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// The definition of an exchange. Two declarations are the same when these are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeSpec {
    /// 1 to 255 bytes of UTF-8 without control characters.
    pub name: String,
    /// How it routes.
    #[serde(rename = "type", default)]
    pub kind: ExchangeKind,
    /// Survives a restart.
    #[serde(default = "yes")]
    pub durable: bool,
    /// Deleted when the last of its bindings goes.
    #[serde(default)]
    pub auto_delete: bool,
    /// Where messages go that none of its bindings takes. It need not exist yet.
    #[serde(default, alias = "x-alternate-exchange", alias = "alternate-exchange")]
    pub alternate_exchange: Option<String>,
}

fn yes() -> bool {
    true
}

impl ExchangeSpec {
    /// A durable exchange without extras.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: ExchangeKind) -> Self {
        Self {
            name: name.into(),
            kind,
            durable: true,
            auto_delete: false,
            alternate_exchange: None,
        }
    }

    /// Checks the names.
    ///
    /// # Errors
    /// `Invalid`, with the rule.
    pub fn check(&self) -> Result<(), Refusal> {
        check_name("an exchange", &self.name)?;
        match &self.alternate_exchange {
            Some(name) => check_name("an alternate exchange", name),
            None => Ok(()),
        }
    }

    /// The name of the first field in which two definitions differ.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        [
            ("type", self.kind == other.kind),
            ("durable", self.durable == other.durable),
            ("auto_delete", self.auto_delete == other.auto_delete),
            (
                "alternate_exchange",
                self.alternate_exchange == other.alternate_exchange,
            ),
        ]
        .into_iter()
        .find_map(|(field, is_same)| (!is_same).then_some(field))
    }
}

/// The arguments of a binding, by name.
pub type Arguments = BTreeMap<String, Datum>;

/// The definition of a binding, which is all there is to it: the same once more is the same binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BindingSpec {
    /// Where messages come from.
    pub exchange: String,
    /// The queue they go to; this or `to_exchange`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The exchange they go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_exchange: Option<String>,
    /// Which of them, for direct and topic exchanges.
    #[serde(default)]
    pub routing_key: String,
    /// Which of them, for headers exchanges.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: Arguments,
}

impl BindingSpec {
    /// A binding of a queue by a key.
    #[must_use]
    pub fn to_queue(exchange: &str, queue: &str, routing_key: &str) -> Self {
        Self {
            exchange: exchange.to_owned(),
            queue: Some(queue.to_owned()),
            routing_key: routing_key.to_owned(),
            ..Self::default()
        }
    }

    /// A binding of an exchange by a key.
    #[must_use]
    pub fn to_exchange(exchange: &str, to: &str, routing_key: &str) -> Self {
        Self {
            exchange: exchange.to_owned(),
            to_exchange: Some(to.to_owned()),
            routing_key: routing_key.to_owned(),
            ..Self::default()
        }
    }

    /// Checks names, key and arguments, `kind` being that of the exchange.
    ///
    /// # Errors
    /// `Invalid`, with the rule.
    pub fn check(&self, kind: ExchangeKind) -> Result<(), Refusal> {
        match (&self.queue, &self.to_exchange) {
            (Some(name), None) => check_name("a queue", name)?,
            (None, Some(name)) => check_name("an exchange", name)?,
            _ => {
                return Err(invalid(
                    "a binding names either a queue or an exchange as its destination".to_owned(),
                ));
            }
        }
        if self.routing_key.len() > BINDING_KEY_LEN_MAX {
            return Err(invalid(format!(
                "the routing key of a binding has {} bytes, {BINDING_KEY_LEN_MAX} are allowed",
                self.routing_key.len()
            )));
        }
        if self.arguments.len() > ARGUMENTS_MAX {
            return Err(invalid(format!(
                "a binding has {} arguments, {ARGUMENTS_MAX} are allowed",
                self.arguments.len()
            )));
        }
        for (name, value) in &self.arguments {
            check_argument(name, value)?;
        }
        if kind == ExchangeKind::Headers {
            MatchMode::of(&self.arguments)?;
        }
        Ok(())
    }
}

fn check_argument(name: &str, value: &Datum) -> Result<(), Refusal> {
    use super::TypedDatum;
    let len = match value {
        Datum::Text(text) => text.len(),
        Datum::Typed(TypedDatum::Binary(bytes)) => bytes.len(),
        Datum::Float(float) if !float.is_finite() => {
            return Err(invalid(format!(
                "the argument {} is not a finite number",
                quoted(name)
            )));
        }
        _ => 0,
    };
    if name.len().max(len) > ARGUMENT_LEN_MAX {
        return Err(invalid(format!(
            "the argument {} is longer than {ARGUMENT_LEN_MAX} bytes",
            quoted(name)
        )));
    }
    Ok(())
}

/// How the criteria of a headers binding count (argument `x-match`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatchMode {
    /// Every criterion must hold; arguments that begin with `x-` are none.
    #[default]
    All,
    /// One criterion must hold; arguments that begin with `x-` are none.
    Any,
    /// Every criterion must hold; every argument but `x-match` is one.
    AllWithX,
    /// One criterion must hold; every argument but `x-match` is one.
    AnyWithX,
}

impl MatchMode {
    /// The mode that arguments ask for.
    ///
    /// # Errors
    /// `Invalid` for a mode that does not exist.
    pub fn of(arguments: &Arguments) -> Result<Self, Refusal> {
        match arguments.get(X_MATCH) {
            None => Ok(Self::All),
            Some(Datum::Text(mode)) if mode == "all" => Ok(Self::All),
            Some(Datum::Text(mode)) if mode == "any" => Ok(Self::Any),
            Some(Datum::Text(mode)) if mode == "all-with-x" => Ok(Self::AllWithX),
            Some(Datum::Text(mode)) if mode == "any-with-x" => Ok(Self::AnyWithX),
            Some(_) => Err(invalid(
                "x-match must be 'all', 'any', 'all-with-x' or 'any-with-x'".to_owned(),
            )),
        }
    }

    /// Whether one criterion is enough.
    #[must_use]
    pub const fn is_any(self) -> bool {
        matches!(self, Self::Any | Self::AnyWithX)
    }

    const fn counts_x(self) -> bool {
        matches!(self, Self::AllWithX | Self::AnyWithX)
    }
}

/// What a headers binding really asks for: shown to operators, because a binding without criteria matches every message
/// (all) or none (any).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criteria<'a> {
    /// How they count.
    pub mode: MatchMode,
    /// Name and value of each; null stands for any value.
    pub list: Vec<(&'a str, &'a Datum)>,
}

impl<'a> Criteria<'a> {
    /// The criteria among the arguments of a binding.
    ///
    /// # Errors
    /// `Invalid` for a mode that does not exist.
    pub fn of(arguments: &'a Arguments) -> Result<Self, Refusal> {
        let mode = MatchMode::of(arguments)?;
        let list = arguments
            .iter()
            .filter(|(name, _)| *name != X_MATCH && (mode.counts_x() || !name.starts_with("x-")))
            .map(|(name, value)| (name.as_str(), value))
            .collect();
        Ok(Self { mode, list })
    }
}

impl fmt::Display for Criteria<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.mode.is_any(), self.list.is_empty()) {
            (false, true) => return f.write_str("every message"),
            (true, true) => return f.write_str("no message"),
            (false, false) => f.write_str("all of ")?,
            (true, false) => f.write_str("any of ")?,
        }
        for (index, (name, value)) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            match value {
                Datum::Null => write!(f, "{name} exists")?,
                Datum::Text(text) => write!(f, "{name} = {}", quoted(text))?,
                Datum::Bool(value) => write!(f, "{name} = {value}")?,
                Datum::Int(value) => write!(f, "{name} = {value}")?,
                Datum::Uint(value) => write!(f, "{name} = {value}")?,
                Datum::Float(value) => write!(f, "{name} = {value}")?,
                Datum::Typed(value) => write!(f, "{name} = {value:?}")?,
            }
        }
        Ok(())
    }
}

fn check_name(what: &str, name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.len() > NAME_LEN_MAX || name.chars().any(char::is_control) {
        return Err(invalid(format!(
            "{} cannot be the name of {what}: it must have 1 to {NAME_LEN_MAX} bytes and no control characters",
            quoted(name)
        )));
    }
    Ok(())
}

pub(super) fn invalid(text: String) -> Refusal {
    Refusal {
        reason: Reason::Invalid,
        text,
    }
}

pub(super) fn not_found(what: &str, name: &str) -> Refusal {
    Refusal {
        reason: Reason::NotFound,
        text: format!("there is no {what} {}", quoted(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_read_strictly_with_their_aliases() {
        let spec: ExchangeSpec =
            serde_json::from_str(r#"{"name":"x","type":"topic","x-alternate-exchange":"y"}"#)
                .expect("an alias");
        let mut expected = ExchangeSpec::new("x", ExchangeKind::Topic);
        expected.alternate_exchange = Some("y".to_owned());
        assert_eq!(spec, expected);
        for text in [
            r#"{"name":"x","type":"x"}"#,
            r#"{"name":"x","kind":"topic"}"#,
            r#"{"type":"topic"}"#,
        ] {
            assert!(
                serde_json::from_str::<ExchangeSpec>(text).is_err(),
                "{text}"
            );
        }
        let binding: BindingSpec = serde_json::from_str(
            r#"{"exchange":"x","queue":"q","arguments":{"a":1,"x-match":"any"}}"#,
        )
        .expect("a binding");
        assert_eq!(binding.arguments["a"], Datum::Int(1));
        assert!(binding.check(ExchangeKind::Headers).is_ok());
        assert!(serde_json::from_str::<BindingSpec>(r#"{"exchange":"x","key":"q"}"#).is_err());
    }

    #[test]
    fn names_keys_and_arguments_have_bounds() {
        let long = "n".repeat(NAME_LEN_MAX + 1);
        for name in ["", "a\nb", long.as_str()] {
            let refusal = ExchangeSpec::new(name, ExchangeKind::Direct)
                .check()
                .expect_err(name);
            assert_eq!(refusal.reason, Reason::Invalid);
        }
        assert!(
            ExchangeSpec::new(&long[1..], ExchangeKind::Direct)
                .check()
                .is_ok()
        );
        let good = BindingSpec::to_queue("x", "q", "k");
        assert!(good.check(ExchangeKind::Direct).is_ok());
        let mut neither = good.clone();
        neither.queue = None;
        let mut both = good.clone();
        both.to_exchange = Some("y".to_owned());
        let mut key = good.clone();
        key.routing_key = "k".repeat(BINDING_KEY_LEN_MAX + 1);
        let mut many = good.clone();
        many.arguments = (0..=ARGUMENTS_MAX)
            .map(|n| (n.to_string(), Datum::Null))
            .collect();
        let mut wide = good.clone();
        let text = "v".repeat(ARGUMENT_LEN_MAX + 1);
        wide.arguments
            .insert("a".to_owned(), Datum::from(text.as_str()));
        let mut nan = good.clone();
        nan.arguments.insert("a".to_owned(), Datum::Float(f64::NAN));
        for bad in [neither, both, key, many, wide, nan] {
            let refusal = bad.check(ExchangeKind::Direct).expect_err("out of bounds");
            assert_eq!(refusal.reason, Reason::Invalid);
        }
    }

    #[test]
    fn rt_06_criteria_in_effect_are_shown() {
        let arguments = |list: &[(&str, Datum)]| -> Arguments {
            list.iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect()
        };
        let shown = |list: &[(&str, Datum)]| {
            Criteria::of(&arguments(list)).map(|criteria| criteria.to_string())
        };
        assert_eq!(shown(&[]).as_deref(), Ok("every message"));
        assert_eq!(
            shown(&[("x-match", "any".into())]).as_deref(),
            Ok("no message")
        );
        assert_eq!(
            shown(&[("x-match", "all".into()), ("x-only", 1.into())]).as_deref(),
            Ok("every message")
        );
        assert_eq!(
            shown(&[
                ("x-match", "any-with-x".into()),
                ("x-only", 1.into()),
                ("b", Datum::Null)
            ])
            .as_deref(),
            Ok("any of b exists, x-only = 1")
        );
        let refusal =
            shown(&[("x-match", "sometimes".into()), ("a", 1.into())]).expect_err("no mode");
        assert_eq!(refusal.reason, Reason::Invalid);
    }
}
