//! AMQP values for the scripted peer: one enum, one encoder, one decoder.
//!
//! Written apart from the broker's codec on purpose. A test that decodes with the code under test
//! shares its mistakes; this codec is slow, plain and independent (types part, section 1.6).

use std::fmt;

/// Nesting depth at which the decoder gives up. Nothing in the suite expects deeper values back.
const DEPTH_MAX: usize = 64;

/// One AMQP value. Floating point and decimal values keep their bits.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// 0x40
    Null,
    /// 0x41, 0x42, 0x56
    Bool(bool),
    /// 0x50
    Ubyte(u8),
    /// 0x60
    Ushort(u16),
    /// 0x70, 0x52, 0x43
    Uint(u32),
    /// 0x80, 0x53, 0x44
    Ulong(u64),
    /// 0x51
    Byte(i8),
    /// 0x61
    Short(i16),
    /// 0x71, 0x54
    Int(i32),
    /// 0x81, 0x55
    Long(i64),
    /// Fixed-width values that the suite only compares: constructor and bytes
    /// (float, double, decimals, char, uuid).
    Fixed(u8, Vec<u8>),
    /// 0x83, milliseconds since 1970
    Timestamp(i64),
    /// 0xa0, 0xb0
    Binary(Vec<u8>),
    /// 0xa1, 0xb1
    Str(String),
    /// 0xa3, 0xb3
    Sym(String),
    /// 0x45, 0xc0, 0xd0
    List(Vec<Value>),
    /// 0xc1, 0xd1
    Map(Vec<(Value, Value)>),
    /// 0xe0, 0xf0
    Array(Vec<Value>),
    /// 0x00: descriptor and value
    Described(Box<Value>, Box<Value>),
    /// Encode only: bytes that go out as they are.
    Raw(Vec<u8>),
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(v) => write!(f, "{v}"),
            Self::Ubyte(v) => write!(f, "{v}"),
            Self::Ushort(v) => write!(f, "{v}"),
            Self::Uint(v) => write!(f, "{v}"),
            Self::Ulong(v) => write!(f, "{v}"),
            Self::Byte(v) => write!(f, "{v}"),
            Self::Short(v) => write!(f, "{v}"),
            Self::Int(v) => write!(f, "{v}"),
            Self::Long(v) => write!(f, "{v}"),
            Self::Fixed(c, b) => write!(f, "0x{c:02x}:{}", hex_of(b)),
            Self::Timestamp(v) => write!(f, "ts{v}"),
            Self::Binary(b) if b.len() > 32 => write!(f, "x({} bytes)", b.len()),
            Self::Binary(b) => write!(f, "x{}", hex_of(b)),
            Self::Str(s) => write!(f, "{s:?}"),
            Self::Sym(s) => write!(f, ":{s}"),
            Self::List(v) => f.debug_list().entries(v).finish(),
            Self::Map(v) => f
                .debug_map()
                .entries(v.iter().map(|(k, v)| (k, v)))
                .finish(),
            Self::Array(v) => {
                f.write_str("@")?;
                f.debug_list().entries(v).finish()
            }
            Self::Described(d, v) => write!(f, "<{d:?}>{v:?}"),
            Self::Raw(b) => write!(f, "raw{}", hex_of(b)),
        }
    }
}

/// Lower-case hex of `bytes`.
pub fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Bytes of a hex string; spaces are skipped. A script with bad hex is a bug, hence the panic.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "odd hex: {text}");
    digits
        .chunks(2)
        .map(|pair| {
            let nibble = |b: u8| (b as char).to_digit(16).expect("hex digit") as u8;
            nibble(pair[0]) << 4 | nibble(pair[1])
        })
        .collect()
}

/// A symbol.
pub fn sym(text: &str) -> Value {
    Value::Sym(text.to_string())
}

/// A string.
pub fn text(text: &str) -> Value {
    Value::Str(text.to_string())
}

impl From<u8> for Value {
    fn from(v: u8) -> Self {
        Self::Ubyte(v)
    }
}
impl From<u16> for Value {
    fn from(v: u16) -> Self {
        Self::Ushort(v)
    }
}
impl From<u32> for Value {
    fn from(v: u32) -> Self {
        Self::Uint(v)
    }
}
impl From<u64> for Value {
    fn from(v: u64) -> Self {
        Self::Ulong(v)
    }
}
impl From<bool> for Value {
    fn from(v: bool) -> Self {
        Self::Bool(v)
    }
}
impl From<&str> for Value {
    fn from(v: &str) -> Self {
        Self::Str(v.to_string())
    }
}
impl From<String> for Value {
    fn from(v: String) -> Self {
        Self::Str(v)
    }
}
impl From<Vec<u8>> for Value {
    fn from(v: Vec<u8>) -> Self {
        Self::Binary(v)
    }
}

impl Value {
    /// The value as an unsigned number, if it is one of the unsigned types.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Ubyte(v) => Some((*v).into()),
            Self::Ushort(v) => Some((*v).into()),
            Self::Uint(v) => Some((*v).into()),
            Self::Ulong(v) => Some(*v),
            _ => None,
        }
    }

    /// Text of a string or symbol.
    pub fn words(&self) -> Option<&str> {
        match self {
            Self::Str(s) | Self::Sym(s) => Some(s),
            _ => None,
        }
    }

    /// True for null.
    pub fn is_null(&self) -> bool {
        *self == Self::Null
    }

    /// Code of a described value, by number or by the symbolic name of a known type.
    pub fn code(&self) -> Option<u64> {
        match self {
            Self::Described(d, _) => match &**d {
                Self::Sym(name) => super::perf::code_of_symbol(name),
                other => other.number(),
            },
            _ => None,
        }
    }

    /// Field `index` of a described list or of a list; null when absent.
    pub fn field(&self, index: usize) -> &Self {
        const NULL: &Value = &Value::Null;
        match self {
            Self::Described(_, v) => v.field(index),
            Self::List(items) => items.get(index).unwrap_or(NULL),
            _ => NULL,
        }
    }

    /// The encoding of this value, in the shortest form of its type.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Appends the encoding of this value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.push(0x40),
            Self::Bool(true) => out.push(0x41),
            Self::Bool(false) => out.push(0x42),
            Self::Ubyte(v) => out.extend([0x50, *v]),
            Self::Ushort(v) => fixed(out, 0x60, &v.to_be_bytes()),
            Self::Uint(0) => out.push(0x43),
            Self::Uint(v) if *v < 256 => out.extend([0x52, *v as u8]),
            Self::Uint(v) => fixed(out, 0x70, &v.to_be_bytes()),
            Self::Ulong(0) => out.push(0x44),
            Self::Ulong(v) if *v < 256 => out.extend([0x53, *v as u8]),
            Self::Ulong(v) => fixed(out, 0x80, &v.to_be_bytes()),
            Self::Byte(v) => out.extend([0x51, *v as u8]),
            Self::Short(v) => fixed(out, 0x61, &v.to_be_bytes()),
            Self::Int(v) => fixed(out, 0x71, &v.to_be_bytes()),
            Self::Long(v) => fixed(out, 0x81, &v.to_be_bytes()),
            Self::Fixed(code, b) => fixed(out, *code, b),
            Self::Timestamp(v) => fixed(out, 0x83, &v.to_be_bytes()),
            Self::Binary(b) => variable(out, 0xa0, b),
            Self::Str(s) => variable(out, 0xa1, s.as_bytes()),
            Self::Sym(s) => variable(out, 0xa3, s.as_bytes()),
            Self::List(items) if items.is_empty() => out.push(0x45),
            Self::List(items) => compound(out, 0xc0, items.len(), &joined(items.iter())),
            Self::Map(items) => {
                let body = joined(items.iter().flat_map(|(k, v)| [k, v]));
                compound(out, 0xc1, items.len() * 2, &body);
            }
            Self::Array(items) => array(out, items),
            Self::Described(d, v) => {
                out.push(0);
                d.encode(out);
                v.encode(out);
            }
            Self::Raw(b) => out.extend(b),
        }
    }
}

fn fixed(out: &mut Vec<u8>, code: u8, bytes: &[u8]) {
    out.push(code);
    out.extend(bytes);
}

fn variable(out: &mut Vec<u8>, code: u8, bytes: &[u8]) {
    if let Ok(len) = u8::try_from(bytes.len()) {
        out.extend([code, len]);
    } else {
        out.push(code + 0x10);
        out.extend((bytes.len() as u32).to_be_bytes());
    }
    out.extend(bytes);
}

fn joined<'a>(items: impl Iterator<Item = &'a Value>) -> Vec<u8> {
    let mut body = Vec::new();
    items.for_each(|item| item.encode(&mut body));
    body
}

fn compound(out: &mut Vec<u8>, code: u8, count: usize, body: &[u8]) {
    if body.len() < 255 && count < 256 {
        out.extend([code, body.len() as u8 + 1, count as u8]);
    } else {
        out.push(code + 0x10);
        out.extend((body.len() as u32 + 4).to_be_bytes());
        out.extend((count as u32).to_be_bytes());
    }
    out.extend(body);
}

/// Arrays of symbols, which is all the suite has to send; other arrays go out as raw bytes.
fn array(out: &mut Vec<u8>, items: &[Value]) {
    let mut body = vec![0xb3];
    for item in items {
        let Value::Sym(s) = item else {
            panic!("only symbol arrays are encoded: {item:?}")
        };
        body.extend((s.len() as u32).to_be_bytes());
        body.extend(s.as_bytes());
    }
    compound(out, 0xe0, items.len(), &body);
}

/// Why bytes are not an AMQP value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadValue(pub String);

/// A cursor over the bytes of one frame body.
pub struct Reader<'a> {
    bytes: &'a [u8],
    /// Offset of the next byte.
    pub at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// True when every byte has been read.
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Bytes that have not been read.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], BadValue> {
        let end = self
            .at
            .checked_add(count)
            .filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| BadValue(format!("{count} bytes wanted at {}", self.at)))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn octet(&mut self) -> Result<u8, BadValue> {
        Ok(self.take(1)?[0])
    }

    fn length(&mut self, wide: bool) -> Result<usize, BadValue> {
        if wide {
            Ok(be(self.take(4)?) as usize)
        } else {
            Ok(self.octet()?.into())
        }
    }

    /// Reads one value.
    pub fn value(&mut self) -> Result<Value, BadValue> {
        self.nested(0)
    }

    fn nested(&mut self, depth: usize) -> Result<Value, BadValue> {
        if depth > DEPTH_MAX {
            return Err(BadValue("nested too deep".into()));
        }
        let code = self.octet()?;
        if code == 0 {
            let descriptor = self.nested(depth + 1)?;
            let value = self.nested(depth + 1)?;
            return Ok(Value::Described(Box::new(descriptor), Box::new(value)));
        }
        self.body(code, depth)
    }

    fn body(&mut self, code: u8, depth: usize) -> Result<Value, BadValue> {
        Ok(match code {
            0x40 => Value::Null,
            0x41 => Value::Bool(true),
            0x42 => Value::Bool(false),
            0x43 => Value::Uint(0),
            0x44 => Value::Ulong(0),
            0x45 => Value::List(vec![]),
            0x50 => Value::Ubyte(self.octet()?),
            0x51 => Value::Byte(self.octet()? as i8),
            0x52 => Value::Uint(self.octet()?.into()),
            0x53 => Value::Ulong(self.octet()?.into()),
            0x54 => Value::Int((self.octet()? as i8).into()),
            0x55 => Value::Long((self.octet()? as i8).into()),
            0x56 => match self.octet()? {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                other => return Err(BadValue(format!("boolean {other}"))),
            },
            0x60 => Value::Ushort(be(self.take(2)?) as u16),
            0x61 => Value::Short(be(self.take(2)?) as i16),
            0x70 => Value::Uint(be(self.take(4)?) as u32),
            0x71 => Value::Int(be(self.take(4)?) as i32),
            0x80 => Value::Ulong(be(self.take(8)?)),
            0x81 => Value::Long(be(self.take(8)?) as i64),
            0x83 => Value::Timestamp(be(self.take(8)?) as i64),
            0x72..=0x74 => Value::Fixed(code, self.take(4)?.to_vec()),
            0x82 | 0x84 => Value::Fixed(code, self.take(8)?.to_vec()),
            0x94 | 0x98 => Value::Fixed(code, self.take(16)?.to_vec()),
            0xa0 | 0xb0 | 0xa1 | 0xb1 | 0xa3 | 0xb3 => self.variable(code)?,
            0xc0 | 0xd0 | 0xc1 | 0xd1 | 0xe0 | 0xf0 => self.compound(code, depth)?,
            other => return Err(BadValue(format!("constructor 0x{other:02x}"))),
        })
    }

    fn variable(&mut self, code: u8) -> Result<Value, BadValue> {
        let len = self.length(code & 0x10 != 0)?;
        let bytes = self.take(len)?.to_vec();
        if code & 0x0f == 0 {
            return Ok(Value::Binary(bytes));
        }
        let words = String::from_utf8(bytes).map_err(|_| BadValue("not UTF-8".into()))?;
        if code & 0x0f == 1 {
            return Ok(Value::Str(words));
        }
        if words.is_ascii() {
            Ok(Value::Sym(words))
        } else {
            Err(BadValue("symbol not ASCII".into()))
        }
    }

    fn compound(&mut self, code: u8, depth: usize) -> Result<Value, BadValue> {
        let wide = code & 0x10 != 0;
        let size = self.length(wide)?;
        let mut inner = Reader::new(self.take(size)?);
        let count = inner.length(wide)?;
        let value = match code & 0xef {
            0xe0 => inner.array(count, depth)?,
            kind => {
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(inner.nested(depth + 1)?);
                }
                if kind == 0xc0 {
                    Value::List(items)
                } else {
                    Value::Map(pairs(items)?)
                }
            }
        };
        if inner.is_empty() {
            Ok(value)
        } else {
            Err(BadValue("bytes left in a compound".into()))
        }
    }

    fn array(&mut self, count: usize, depth: usize) -> Result<Value, BadValue> {
        let code = self.octet()?;
        let descriptor = if code == 0 {
            Some(self.nested(depth + 1)?)
        } else {
            None
        };
        let code = if descriptor.is_some() {
            self.octet()?
        } else {
            code
        };
        if count > 65_536 {
            return Err(BadValue("array count".into()));
        }
        let mut items = Vec::new();
        for _ in 0..count {
            let value = self.body(code, depth + 1)?;
            items.push(match &descriptor {
                Some(d) => Value::Described(Box::new(d.clone()), Box::new(value)),
                None => value,
            });
        }
        Ok(Value::Array(items))
    }
}

fn pairs(items: Vec<Value>) -> Result<Vec<(Value, Value)>, BadValue> {
    if !items.len().is_multiple_of(2) {
        return Err(BadValue("odd map".into()));
    }
    let mut items = items.into_iter();
    let mut out = Vec::new();
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        out.push((key, value));
    }
    Ok(out)
}

fn be(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, b| sum << 8 | u64::from(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Value {
        let bytes = hex(text);
        let mut reader = Reader::new(&bytes);
        let value = reader.value().expect("a value");
        assert!(reader.is_empty(), "bytes left");
        value
    }

    /// Vectors worked out by hand from the encodings of section 1.6.
    #[test]
    fn reads_and_writes_known_vectors() {
        for (bytes, value) in [
            ("40", Value::Null),
            ("43", Value::Uint(0)),
            ("52ff", Value::Uint(255)),
            ("7000000100", Value::Uint(256)),
            ("a3026869", sym("hi")),
            ("c00301 5201", Value::List(vec![Value::Uint(1)])),
            ("c10401 5201", Value::Null),
            ("e00801a305782d636170", Value::Array(vec![sym("x-cap")])),
        ] {
            if bytes.starts_with("c104") {
                assert!(
                    Reader::new(&hex("c1030152015202")).value().is_err(),
                    "odd map"
                );
                continue;
            }
            assert_eq!(read(bytes), value);
            assert_eq!(read(&hex_of(&value.bytes())), value);
        }
    }

    #[test]
    fn list_of_255_bytes_uses_the_wide_form() {
        let list = |n: usize| Value::List(vec![Value::Binary(vec![0; n - 2])]).bytes();
        assert_eq!(list(254)[..3], [0xc0, 0xff, 1]);
        assert_eq!(list(255)[..9], [0xd0, 0, 0, 1, 3, 0, 0, 0, 1]);
    }

    #[test]
    fn refuses_short_and_trailing_bytes() {
        for bad in [
            "",
            "52",
            "a105",
            "c00501",
            "c0040152 0101",
            "5602",
            "a3 01 ff",
            "ff",
        ] {
            let bytes = hex(bad);
            assert!(Reader::new(&bytes).value().is_err(), "{bad}");
        }
    }
}
