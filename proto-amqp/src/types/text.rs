//! Strings and symbols: slices of the buffer they came in, checked once.

use alloc::string::String;
use core::{fmt, ops::Deref, str};

use bytes::Bytes;

/// UTF-8 text (part 1, 1.6.20). Cloning it shares the bytes.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Str(Bytes);

impl Str {
    /// Text that lives for ever; nothing is copied.
    #[must_use]
    pub const fn from_static(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// Text from bytes; none when they are not UTF-8.
    #[must_use]
    pub fn from_utf8(bytes: Bytes) -> Option<Self> {
        str::from_utf8(&bytes).is_ok().then_some(Self(bytes))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Checked when made and never changed. Without `unsafe` the check costs a second time; the text is short
        // and off the hot path.
        str::from_utf8(&self.0).expect("checked when made")
    }

    /// The bytes of the text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as a shared slice.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for Str {
    fn from(text: String) -> Self {
        Self(Bytes::from(text))
    }
}

impl Deref for Str {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for Str {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Str {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An ASCII name (part 1, 1.6.21). Cloning it shares the bytes.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(Bytes);

impl Symbol {
    /// A name that lives for ever; nothing is copied.
    ///
    /// # Panics
    /// When it is not ASCII: at compile time in a constant.
    #[must_use]
    pub const fn from_static(name: &'static str) -> Self {
        assert!(name.is_ascii(), "symbols are ASCII");
        Self(Bytes::from_static(name.as_bytes()))
    }

    /// A copy of a name; none when it is not ASCII.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        name.is_ascii()
            .then(|| Self(Bytes::copy_from_slice(name.as_bytes())))
    }

    /// A name from bytes; none when they are not ASCII.
    #[must_use]
    pub fn from_ascii(bytes: Bytes) -> Option<Self> {
        bytes.is_ascii().then_some(Self(bytes))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("checked when made")
    }

    /// The bytes of the name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<str> for Symbol {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Symbol {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
