//! A value before it is understood: from TOML, where it has a type, or from the environment, where all is text.

use toml::de::DeValue;

/// A value as it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Raw<'a> {
    /// From a file.
    Toml(&'a DeValue<'a>),
    /// From an environment variable.
    Text(&'a str),
}

impl Raw<'_> {
    /// Text: a TOML string or any variable.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Toml(value) => value.as_str(),
            Self::Text(text) => Some(text),
        }
    }

    /// A whole number; a TOML string is none, a variable may be one. Numbers beyond 128 bits do not count.
    pub(crate) fn integer(&self) -> Option<i128> {
        match self {
            Self::Toml(value) => {
                let integer = value.as_integer()?;
                i128::from_str_radix(integer.as_str(), integer.radix()).ok()
            }
            Self::Text(text) => text.parse().ok(),
        }
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&self) -> Option<bool> {
        match self {
            Self::Toml(value) => value.as_bool(),
            Self::Text(text) => text.parse().ok(),
        }
    }

    /// A list of texts; in a variable, separated by commas.
    pub(crate) fn texts(&self) -> Option<Vec<String>> {
        match self {
            Self::Toml(value) => value
                .as_array()?
                .iter()
                .map(|item| item.get_ref().as_str().map(str::to_owned))
                .collect(),
            Self::Text(text) => Some(
                text.split(',')
                    .map(str::trim)
                    .filter(|part| !part.is_empty())
                    .map(str::to_owned)
                    .collect(),
            ),
        }
    }

    /// The value as it can be shown in an error: short, on one line.
    pub(crate) fn quote(&self) -> String {
        match self {
            Self::Text(text) => shorten(&format!("{text:?}")),
            Self::Toml(DeValue::String(text)) => shorten(&format!("{:?}", text.as_ref())),
            Self::Toml(DeValue::Integer(integer)) => shorten(integer.as_str()),
            Self::Toml(DeValue::Float(float)) => shorten(float.as_str()),
            Self::Toml(DeValue::Boolean(flag)) => flag.to_string(),
            Self::Toml(DeValue::Array(_)) => "a list".to_owned(),
            Self::Toml(DeValue::Table(_)) => "a table".to_owned(),
            Self::Toml(DeValue::Datetime(moment)) => moment.to_string(),
        }
    }
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= 60 {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(57).collect();
    short.push_str("...");
    short
}
