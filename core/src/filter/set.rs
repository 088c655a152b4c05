//! The filter set of an AMQP source (part 3, 3.5.8): a map from names to described filters.
//!
//! A peer learns from the reply which filters are in effect: those that are known here. Those that are not are left out
//! of it, and those that are known and wrong refuse the link, because a consumer that gets everything in place of a
//! few is worse off than one that gets an error.

use qq_proto_amqp::types::{Described, Map, Value};

use super::{FilterError, FilterSpec, SectionName};
use crate::broker::quoted;
use crate::route::{Datum, TypedDatum};

/// What an attach asked for, sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilterSet {
    /// All filters that are known, together; none when there are none. It is checked, so that it compiles.
    pub spec: Option<FilterSpec>,
    /// The entries that are in effect, as they came: what the reply says.
    pub effective: Map,
    /// The entries that are not known here.
    pub unknown: Map,
}

/// What a descriptor says a filter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Selector,
    NoLocal,
    Sql,
    Properties(SectionName),
    Always(bool),
    All,
    Any,
    Not,
}

/// Codes and names of descriptors: those of Apache Qpid's JMS filters, then those of the filter expressions draft.
const KINDS: [(u64, &str, Kind); 13] = [
    (
        0x0000_468c_0000_0004,
        "apache.org:selector-filter:string",
        Kind::Selector,
    ),
    (
        0x0000_468c_0000_0003,
        "apache.org:no-local-filter:list",
        Kind::NoLocal,
    ),
    (0x100, "amqp:all-filter", Kind::All),
    (0x101, "amqp:any-filter", Kind::Any),
    (0x102, "amqp:not-filter", Kind::Not),
    (0x110, "amqp:true-filter", Kind::Always(true)),
    (0x111, "amqp:false-filter", Kind::Always(false)),
    (0x120, "amqp:sql-filter", Kind::Sql),
    (
        0x170,
        "amqp:header-filter",
        Kind::Properties(SectionName::Header),
    ),
    (
        0x172,
        "amqp:message-annotations-filter",
        Kind::Properties(SectionName::MessageAnnotations),
    ),
    (
        0x173,
        "amqp:properties-filter",
        Kind::Properties(SectionName::Properties),
    ),
    (
        0x174,
        "amqp:application-properties-filter",
        Kind::Properties(SectionName::ApplicationProperties),
    ),
    (
        0x178,
        "amqp:footer-filter",
        Kind::Properties(SectionName::Footer),
    ),
];

fn kind_of(descriptor: &Value) -> Option<Kind> {
    KINDS
        .iter()
        .find(|(code, name, _)| match descriptor {
            Value::Ulong(number) => number == code,
            Value::Symbol(symbol) => symbol == name,
            _ => false,
        })
        .map(|(_, _, kind)| *kind)
}

impl FilterSet {
    /// Reads the filters of a source.
    ///
    /// # Errors
    /// A filter that is known and wrong; the text names it. For the peer it is an invalid field.
    pub fn read(map: &Map) -> Result<Self, FilterError> {
        let mut set = Self::default();
        let mut known = Vec::new();
        for (name, value) in map {
            // A null filter is none, and the reply need not say so.
            if *value == Value::Null {
                continue;
            }
            let spec = read_entry(name, value).and_then(|spec| {
                spec.map(|spec| super::Filter::compile(spec).map(|filter| filter.spec))
                    .transpose()
            });
            let spec = spec.map_err(|mut error| {
                error.text = format!("filter {}: {}", shown(name), error.text);
                error
            })?;
            let entry = (name.clone(), value.clone());
            match spec {
                Some(spec) => {
                    known.push(spec);
                    set.effective.push(entry);
                }
                None => set.unknown.push(entry),
            }
        }
        set.spec = match known.len() {
            0 => None,
            1 => known.pop(),
            _ => Some(FilterSpec::All(known)),
        };
        if let Some(spec) = &set.spec {
            super::Filter::compile(spec.clone())?;
        }
        Ok(set)
    }
}

fn shown(name: &Value) -> String {
    match name {
        Value::Symbol(name) => quoted(name.as_str()),
        Value::Str(name) => quoted(name),
        _ => "without a name".to_owned(),
    }
}

/// One entry. Filters are described values; some clients leave the descriptor out and name the entry by it.
fn read_entry(name: &Value, value: &Value) -> Result<Option<FilterSpec>, FilterError> {
    match value {
        Value::Described(described) => read_filter(described),
        other => match kind_of(name) {
            Some(kind) => read_kind(kind, other),
            None => Ok(None),
        },
    }
}

fn read_filter(described: &Described) -> Result<Option<FilterSpec>, FilterError> {
    match kind_of(&described.descriptor) {
        Some(kind) => read_kind(kind, &described.value),
        None => Ok(None),
    }
}

/// None for a filter of which a part is not known. Recursion is bounded by the nesting that the codec allows.
fn read_kind(kind: Kind, value: &Value) -> Result<Option<FilterSpec>, FilterError> {
    Ok(Some(match (kind, value) {
        (Kind::Selector, Value::Str(text)) => FilterSpec::Selector(text.as_str().to_owned()),
        (Kind::Selector, Value::Symbol(text)) => FilterSpec::Selector(text.as_str().to_owned()),
        (Kind::Sql, Value::Str(text)) => FilterSpec::Sql(text.as_str().to_owned()),
        (Kind::Selector | Kind::Sql, _) => {
            return Err(FilterError::new("its value must be a string"));
        }
        (Kind::NoLocal, _) => FilterSpec::NoLocal,
        (Kind::Always(is_passed), _) => FilterSpec::Always(is_passed),
        (Kind::Properties(section), Value::Map(map)) => {
            let fields = map.iter().map(|(key, value)| read_field(key, value));
            FilterSpec::Properties(section, fields.collect::<Result<_, _>>()?)
        }
        (Kind::Properties(_), _) => return Err(FilterError::new("its value must be a map")),
        (Kind::Not, Value::Described(inner)) => match read_filter(inner)? {
            Some(spec) => FilterSpec::Not(Box::new(spec)),
            None => return Ok(None),
        },
        (Kind::Not, _) => return Err(FilterError::new("its value must be a filter")),
        (Kind::All | Kind::Any, Value::List(list)) => {
            let mut specs = Vec::with_capacity(list.len());
            for value in list {
                let Value::Described(inner) = value else {
                    return Err(FilterError::new("its value must be a list of filters"));
                };
                match read_filter(inner)? {
                    Some(spec) => specs.push(spec),
                    None => return Ok(None),
                }
            }
            if kind == Kind::All {
                FilterSpec::All(specs)
            } else {
                FilterSpec::Any(specs)
            }
        }
        (Kind::All | Kind::Any, _) => {
            return Err(FilterError::new("its value must be a list of filters"));
        }
    }))
}

fn read_field(key: &Value, value: &Value) -> Result<(String, Datum), FilterError> {
    let name = match key {
        Value::Symbol(name) => name.as_str(),
        Value::Str(name) => name.as_str(),
        _ => return Err(FilterError::new("its keys must be symbols or strings")),
    };
    let datum = datum_of(value).ok_or_else(|| {
        FilterError::new(format!(
            "the value for {} must be of a simple type",
            quoted(name)
        ))
    })?;
    Ok((name.to_owned(), datum))
}

/// A simple AMQP value as routing and filters keep it, such as an argument of a binding; none of a list, a map, an array
/// or a described value, which they cannot compare.
#[must_use]
pub fn datum_of(value: &Value) -> Option<Datum> {
    Some(match value {
        Value::Null => Datum::Null,
        Value::Bool(value) => Datum::Bool(*value),
        Value::Ubyte(value) => Datum::Int((*value).into()),
        Value::Ushort(value) => Datum::Int((*value).into()),
        Value::Uint(value) => Datum::Int((*value).into()),
        Value::Ulong(value) => i64::try_from(*value).map_or(Datum::Uint(*value), Datum::Int),
        Value::Byte(value) => Datum::Int((*value).into()),
        Value::Short(value) => Datum::Int((*value).into()),
        Value::Int(value) => Datum::Int((*value).into()),
        Value::Long(value) | Value::Timestamp(value) => Datum::Int(*value),
        Value::Float(bits) => Datum::Float(f32::from_bits(*bits).into()),
        Value::Double(bits) => Datum::Float(f64::from_bits(*bits)),
        Value::Char(value) => Datum::Typed(TypedDatum::Char(*value)),
        Value::Uuid(value) => Datum::Typed(TypedDatum::Uuid(*value)),
        Value::Binary(value) => Datum::Typed(TypedDatum::Binary(value.to_vec())),
        Value::Str(text) => Datum::Text(text.as_str().to_owned()),
        Value::Symbol(text) => Datum::Text(text.as_str().to_owned()),
        Value::Decimal32(_) | Value::Decimal64(_) | Value::Decimal128(_) => {
            let mut encoded = bytes::BytesMut::new();
            value.encode(&mut encoded);
            Datum::of(super::read::Bytes::new(&encoded, 0).scalar()?)?
        }
        Value::List(_) | Value::Map(_) | Value::Array(_) | Value::Described(_) => return None,
    })
}
