//! Settings of queues and exchanges as operators write them: only what differs from the defaults, under our names or
//! those that users of RabbitMQ know.

use serde_json::{Map, Value};

use crate::broker::QueueSpec;
use crate::route::ExchangeSpec;

/// Names of RabbitMQ's arguments and the settings that they mean here.
const ALIASES: &[(&str, &str)] = &[
    ("x-message-ttl", "message_ttl_ms"),
    ("x-expires", "expires_ms"),
    ("x-max-length", "max_length"),
    ("x-max-length-bytes", "max_bytes"),
    ("x-overflow", "overflow"),
    ("x-max-priority", "max_priority"),
    ("x-delivery-limit", "max_deliveries"),
    ("x-dead-letter-exchange", "dead_letter_exchange"),
    ("x-dead-letter-routing-key", "dead_letter_routing_key"),
    ("x-single-active-consumer", "single_active_consumer"),
    ("x-alternate-exchange", "alternate_exchange"),
    ("alternate-exchange", "alternate_exchange"),
];

/// Values of RabbitMQ's `x-overflow`.
const OVERFLOWS: &[(&str, &str)] = &[
    ("reject-publish", "reject"),
    ("reject-publish-dlx", "reject-dlx"),
];

/// Settings that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSetting {
    /// Which, when it is one.
    pub field: Option<String>,
    /// For people.
    pub text: String,
}

/// The setting that a name of RabbitMQ's means.
#[must_use]
pub fn field_of(alias: &str) -> Option<&'static str> {
    let found = ALIASES.iter().find(|(known, _)| *known == alias);
    found.map(|(_, field)| *field)
}

/// The value that a word of RabbitMQ's means; other words mean themselves.
#[must_use]
pub fn word_of(text: &str) -> &str {
    let found = OVERFLOWS.iter().find(|(known, _)| *known == text);
    found.map_or(text, |(_, ours)| ours)
}

/// A queue of that name: `base` with these settings.
///
/// # Errors
/// A setting that is not known or has a value that it cannot have.
pub fn queue_spec(
    base: &QueueSpec,
    name: &str,
    settings: Map<String, Value>,
) -> Result<QueueSpec, BadSetting> {
    let base = QueueSpec {
        name: name.to_owned(),
        exclusive: false,
        ..base.clone()
    };
    overlay(&base, settings)
}

/// A stream of that name with these settings; `max_messages` is what elsewhere is the length of a queue.
///
/// # Errors
/// A setting that is not known or has a value that it cannot have.
pub fn stream_spec(name: &str, mut settings: Map<String, Value>) -> Result<QueueSpec, BadSetting> {
    if let Some(messages) = settings.remove("max_messages") {
        settings.insert("max_length".to_owned(), messages);
    }
    queue_spec(&QueueSpec::stream(""), name, settings)
}

/// An exchange of that name with these settings.
///
/// # Errors
/// A setting that is not known or has a value that it cannot have.
pub fn exchange_spec(name: &str, settings: Map<String, Value>) -> Result<ExchangeSpec, BadSetting> {
    overlay(&ExchangeSpec::new(name, Default::default()), settings)
}

/// One setting at a time, so that the one at fault is known.
fn overlay<T>(base: &T, settings: Map<String, Value>) -> Result<T, BadSetting>
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let mut all = match serde_json::to_value(base) {
        Ok(Value::Object(all)) => all,
        _ => Map::new(),
    };
    let said_twice = |written: &&String| {
        let field = field_of(written);
        field.is_some_and(|field| settings.contains_key(field))
    };
    if let Some(written) = settings.keys().find(said_twice) {
        let field = field_of(written).unwrap_or_default();
        return Err(BadSetting {
            text: format!("{written} means the same as {field}; one of them must go"),
            field: Some(written.clone()),
        });
    }
    for (written, value) in settings {
        let field = field_of(&written).unwrap_or(written.as_str());
        if !all.contains_key(field) || field == "name" || field == "exclusive" {
            return Err(BadSetting {
                text: unknown(&written, &all),
                field: Some(written),
            });
        }
        let before = all.insert(field.to_owned(), value_of(value));
        if let Err(error) = serde_json::from_value::<T>(Value::Object(all.clone())) {
            return Err(BadSetting {
                text: format!(
                    "{written}: {error}; it is {} by default",
                    before.unwrap_or_default()
                ),
                field: Some(written),
            });
        }
    }
    serde_json::from_value(Value::Object(all)).map_err(|error| BadSetting {
        field: None,
        text: error.to_string(),
    })
}

fn value_of(value: Value) -> Value {
    match value.as_str() {
        Some(text) => Value::from(word_of(text)),
        None => value,
    }
}

fn unknown(written: &str, all: &Map<String, Value>) -> String {
    let known: Vec<&str> = all
        .keys()
        .map(String::as_str)
        .filter(|field| !["name", "exclusive"].contains(field))
        .collect();
    format!(
        "{} is no setting here; there are {}",
        crate::broker::quoted(written),
        known.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Overflow;

    fn map(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).expect("an object")
    }

    #[test]
    fn settings_lie_over_the_defaults_under_either_name() {
        let base = QueueSpec {
            max_deliveries: 9,
            ..QueueSpec::new("base")
        };
        let text = r#"{"x-max-length": 10, "x-overflow": "reject-publish-dlx", "durable": false}"#;
        let spec = queue_spec(&base, "q", map(text)).expect("valid");
        let expected = QueueSpec {
            durable: false,
            max_length: Some(10),
            overflow: Overflow::RejectDlx,
            max_deliveries: 9,
            ..QueueSpec::new("q")
        };
        assert_eq!(spec, expected);
    }

    #[test]
    fn the_setting_at_fault_is_named() {
        let base = QueueSpec::new("");
        for (text, field) in [
            (r#"{"durable": true, "max_lenght": 1}"#, "max_lenght"),
            (r#"{"x-max-length": -1, "durable": true}"#, "x-max-length"),
            (r#"{"name": "other"}"#, "name"),
            (r#"{"exclusive": true}"#, "exclusive"),
            (r#"{"overflow": "block"}"#, "overflow"),
            (r#"{"max_length": 1, "x-max-length": 1}"#, "x-max-length"),
        ] {
            let bad = queue_spec(&base, "q", map(text)).expect_err(text);
            assert_eq!(bad.field.as_deref(), Some(field), "{}", bad.text);
        }
        let bad = exchange_spec("e", map(r#"{"type": "tpoic"}"#)).expect_err("no type");
        assert_eq!(bad.field.as_deref(), Some("type"));
    }
}
