//! Performatives and composite types by field name.
//!
//! One table holds the code and the field order of each type (transport 2.7, messaging 3.2 to 3.5,
//! security 5.3). Scripts say `perf("flow").with("handle", 0u32)` and read `frame.field("handle")`.

use super::value::Value;

/// Type name, descriptor code, field names in order.
type Shape = (&'static str, u64, &'static [&'static str]);

const SHAPES: &[Shape] = &[
    (
        "open",
        0x10,
        &[
            "container-id",
            "hostname",
            "max-frame-size",
            "channel-max",
            "idle-time-out",
            "outgoing-locales",
            "incoming-locales",
            "offered-capabilities",
            "desired-capabilities",
            "properties",
        ],
    ),
    (
        "begin",
        0x11,
        &[
            "remote-channel",
            "next-outgoing-id",
            "incoming-window",
            "outgoing-window",
            "handle-max",
            "offered-capabilities",
            "desired-capabilities",
            "properties",
        ],
    ),
    (
        "attach",
        0x12,
        &[
            "name",
            "handle",
            "role",
            "snd-settle-mode",
            "rcv-settle-mode",
            "source",
            "target",
            "unsettled",
            "incomplete-unsettled",
            "initial-delivery-count",
            "max-message-size",
            "offered-capabilities",
            "desired-capabilities",
            "properties",
        ],
    ),
    (
        "flow",
        0x13,
        &[
            "next-incoming-id",
            "incoming-window",
            "next-outgoing-id",
            "outgoing-window",
            "handle",
            "delivery-count",
            "link-credit",
            "available",
            "drain",
            "echo",
            "properties",
        ],
    ),
    (
        "transfer",
        0x14,
        &[
            "handle",
            "delivery-id",
            "delivery-tag",
            "message-format",
            "settled",
            "more",
            "rcv-settle-mode",
            "state",
            "resume",
            "aborted",
            "batchable",
        ],
    ),
    (
        "disposition",
        0x15,
        &["role", "first", "last", "settled", "state", "batchable"],
    ),
    ("detach", 0x16, &["handle", "closed", "error"]),
    ("end", 0x17, &["error"]),
    ("close", 0x18, &["error"]),
    ("error", 0x1d, &["condition", "description", "info"]),
    ("received", 0x23, &["section-number", "section-offset"]),
    ("accepted", 0x24, &[]),
    ("rejected", 0x25, &["error"]),
    ("released", 0x26, &[]),
    (
        "modified",
        0x27,
        &[
            "delivery-failed",
            "undeliverable-here",
            "message-annotations",
        ],
    ),
    (
        "source",
        0x28,
        &[
            "address",
            "durable",
            "expiry-policy",
            "timeout",
            "dynamic",
            "dynamic-node-properties",
            "distribution-mode",
            "filter",
            "default-outcome",
            "outcomes",
            "capabilities",
        ],
    ),
    (
        "target",
        0x29,
        &[
            "address",
            "durable",
            "expiry-policy",
            "timeout",
            "dynamic",
            "dynamic-node-properties",
            "capabilities",
        ],
    ),
    ("delete-on-close", 0x2b, &[]),
    ("delete-on-no-links", 0x2c, &[]),
    ("delete-on-no-messages", 0x2d, &[]),
    ("delete-on-no-links-or-messages", 0x2e, &[]),
    ("coordinator", 0x30, &["capabilities"]),
    ("declare", 0x31, &["global-id"]),
    ("discharge", 0x32, &["txn-id", "fail"]),
    ("declared", 0x33, &["txn-id"]),
    ("transactional-state", 0x34, &["txn-id", "outcome"]),
    ("sasl-mechanisms", 0x40, &["sasl-server-mechanisms"]),
    (
        "sasl-init",
        0x41,
        &["mechanism", "initial-response", "hostname"],
    ),
    ("sasl-challenge", 0x42, &["challenge"]),
    ("sasl-response", 0x43, &["response"]),
    ("sasl-outcome", 0x44, &["code", "additional-data"]),
    (
        "header",
        0x70,
        &[
            "durable",
            "priority",
            "ttl",
            "first-acquirer",
            "delivery-count",
        ],
    ),
    (
        "properties",
        0x73,
        &[
            "message-id",
            "user-id",
            "to",
            "subject",
            "reply-to",
            "correlation-id",
            "content-type",
            "content-encoding",
            "absolute-expiry-time",
            "creation-time",
            "group-id",
            "group-sequence",
            "reply-to-group-id",
        ],
    ),
];

fn shape(name: &str) -> &'static Shape {
    SHAPES
        .iter()
        .find(|s| s.0 == name)
        .unwrap_or_else(|| panic!("no type {name}"))
}

/// Name of the type with descriptor `code`.
pub fn name_of(code: u64) -> Option<&'static str> {
    SHAPES.iter().find(|s| s.1 == code).map(|s| s.0)
}

/// Code of a type given by its symbolic descriptor, such as `amqp:open:list`.
pub fn code_of_symbol(symbol: &str) -> Option<u64> {
    let name = symbol.strip_prefix("amqp:")?.strip_suffix(":list")?;
    SHAPES.iter().find(|s| s.0 == name).map(|s| s.1)
}

/// Position of a field. Asking for a field that does not exist is a bug in the script.
pub fn index_of(name: &str, field: &str) -> usize {
    let found = shape(name).2.iter().position(|f| *f == field);
    found.unwrap_or_else(|| panic!("{name} has no field {field}"))
}

/// A performative or composite under construction.
#[derive(Clone, Debug)]
pub struct Perf {
    /// Type name.
    pub name: &'static str,
    /// Fields in order; trailing ones may be missing.
    pub fields: Vec<Value>,
}

/// Starts a performative or composite of the named type.
pub fn perf(name: &str) -> Perf {
    Perf {
        name: shape(name).0,
        fields: vec![],
    }
}

impl Perf {
    /// Sets a field.
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        let index = index_of(self.name, field);
        if self.fields.len() <= index {
            self.fields.resize(index + 1, Value::Null);
        }
        self.fields[index] = value.into();
        self
    }

    /// Value of a field, null when absent.
    pub fn field(&self, field: &str) -> &Value {
        const NULL: &Value = &Value::Null;
        self.fields.get(index_of(self.name, field)).unwrap_or(NULL)
    }

    /// As a described value with a numeric descriptor.
    pub fn value(&self) -> Value {
        let fields = Value::List(self.fields.clone());
        Value::Described(Box::new(Value::Ulong(shape(self.name).1)), Box::new(fields))
    }
}

impl From<Perf> for Value {
    fn from(p: Perf) -> Self {
        p.value()
    }
}

/// Reads a described list of a known type.
pub fn perf_of(value: &Value) -> Option<Perf> {
    let name = name_of(value.code()?)?;
    match value {
        Value::Described(_, list) => match &**list {
            Value::List(fields) => Some(Perf {
                name,
                fields: fields.clone(),
            }),
            _ => None,
        },
        _ => None,
    }
}
