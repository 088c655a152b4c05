//! Kinds of settings: each knows how it is read, what it allows, and how it is written back.

use std::net::IpAddr;

use super::raw::Raw;

/// One value of the configuration.
pub(crate) trait Setting {
    /// Takes a value. `Err(())` when it is not allowed; the setting is then unchanged.
    fn read(&mut self, raw: Raw<'_>) -> Result<(), ()>;
    /// What is allowed, for errors and for the reference.
    fn allowed(&self) -> String;
    /// The value as TOML; none when it is not set.
    fn show(&self) -> Option<String>;
}

/// A text as a TOML basic string.
pub(crate) fn toml_text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

impl Setting for bool {
    fn read(&mut self, raw: Raw<'_>) -> Result<(), ()> {
        *self = raw.boolean().ok_or(())?;
        Ok(())
    }

    fn allowed(&self) -> String {
        "true or false".to_owned()
    }

    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// A whole number within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    value: u64,
    min: u64,
    max: u64,
}

impl Number {
    pub(crate) const fn new(value: u64, min: u64, max: u64) -> Self {
        assert!(min <= value && value <= max);
        Self { value, min, max }
    }

    /// A TCP port; 0 lets the system choose.
    pub(crate) const fn port(value: u16) -> Self {
        Self::new(value as u64, 0, u16::MAX as u64)
    }

    pub(crate) const fn value(self) -> u64 {
        self.value
    }

    /// The value in a type that its upper bound fits.
    ///
    /// # Panics
    /// When the bound does not fit: a mistake in this crate, which a test of `serve` looks for.
    pub(crate) fn to<T: TryFrom<u64>>(self) -> T {
        T::try_from(self.value)
            .ok()
            .expect("the upper bound of a number fits its use")
    }
}

impl Setting for Number {
    fn read(&mut self, raw: Raw<'_>) -> Result<(), ()> {
        let value = raw
            .integer()
            .and_then(|value| u64::try_from(value).ok())
            .ok_or(())?;
        if !(self.min..=self.max).contains(&value) {
            return Err(());
        }
        self.value = value;
        Ok(())
    }

    fn allowed(&self) -> String {
        format!(
            "a whole number from {} to {}, without quotes",
            self.min, self.max
        )
    }

    fn show(&self) -> Option<String> {
        Some(self.value.to_string())
    }
}

/// One of a few words, in any letter case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    value: &'static str,
    among: &'static [&'static str],
}

impl Choice {
    pub(crate) fn new(value: &'static str, among: &'static [&'static str]) -> Self {
        assert!(among.contains(&value));
        Self { value, among }
    }

    pub(crate) const fn value(self) -> &'static str {
        self.value
    }
}

impl Setting for Choice {
    fn read(&mut self, raw: Raw<'_>) -> Result<(), ()> {
        let text = raw.text().ok_or(())?;
        self.value = self
            .among
            .iter()
            .find(|word| word.eq_ignore_ascii_case(text))
            .ok_or(())?;
        Ok(())
    }

    fn allowed(&self) -> String {
        let words: Vec<String> = self.among.iter().map(|word| toml_text(word)).collect();
        match words.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => String::new(),
        }
    }

    fn show(&self) -> Option<String> {
        Some(toml_text(self.value))
    }
}

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host(pub(crate) IpAddr);

impl Setting for Host {
    fn read(&mut self, raw: Raw<'_>) -> Result<(), ()> {
        let text = raw.text().ok_or(())?;
        let text = if text == "localhost" {
            "127.0.0.1"
        } else {
            text
        };
        self.0 = text.parse().map_err(|_| ())?;
        Ok(())
    }

    fn allowed(&self) -> String {
        "an IP address such as \"127.0.0.1\", \"0.0.0.0\" or \"::1\", or \"localhost\"".to_owned()
    }

    fn show(&self) -> Option<String> {
        Some(toml_text(&self.0.to_string()))
    }
}

/// A text that may be absent: a path, a name. The empty text unsets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) Option<String>);

impl Text {
    pub(crate) fn of(text: &str) -> Self {
        Self(Some(text.to_owned()))
    }
}

impl Setting for Text {
    fn read(&mut self, raw: Raw<'_>) -> Result<(), ()> {
        let text = raw.text().ok_or(())?;
        if text.chars().any(char::is_control) {
            return Err(());
        }
        self.0 = (!text.is_empty()).then(|| text.to_owned());
        Ok(())
    }

    fn allowed(&self) -> String {
        "a text without control characters".to_owned()
    }

    fn show(&self) -> Option<String> {
        self.0.as_deref().map(toml_text)
    }
}

/// A list of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts(pub(crate) Vec<String>);

impl Setting for Texts {
    fn read(&mut self, raw: Raw<'_>) -> Result<(), ()> {
        let texts = raw.texts().ok_or(())?;
        if texts
            .iter()
            .any(|text| text.is_empty() || text.chars().any(char::is_control))
        {
            return Err(());
        }
        self.0 = texts;
        Ok(())
    }

    fn allowed(&self) -> String {
        "a list of texts such as [\"a\", \"b\"] (in a variable: a,b)".to_owned()
    }

    fn show(&self) -> Option<String> {
        let items: Vec<String> = self.0.iter().map(|text| toml_text(text)).collect();
        Some(format!("[{}]", items.join(", ")))
    }
}

/// A setting that has no value unless it is given. The empty text in a variable unsets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Maybe<S> {
    inner: S,
    is_set: bool,
}

impl<S: Setting + Copy> Maybe<S> {
    /// Not set; `bounds` says what would be allowed.
    pub(crate) const fn unset(bounds: S) -> Self {
        Self {
            inner: bounds,
            is_set: false,
        }
    }

    pub(crate) fn value(self) -> Option<S> {
        self.is_set.then_some(self.inner)
    }
}

impl<S: Setting + Copy> Setting for Maybe<S> {
    fn read(&mut self, raw: Raw<'_>) -> Result<(), ()> {
        if raw.text() == Some("") {
            self.is_set = false;
            return Ok(());
        }
        self.inner.read(raw)?;
        self.is_set = true;
        Ok(())
    }

    fn allowed(&self) -> String {
        self.inner.allowed()
    }

    fn show(&self) -> Option<String> {
        self.value().and_then(|inner| inner.show())
    }
}
