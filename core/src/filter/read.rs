//! Reads single values out of encoded AMQP sections (part 1, 1.6) without making anything of the rest.
//!
//! The codec decodes into owned values; here a value is borrowed for as long as one comparison takes. Whatever is
//! malformed reads as absent: messages were checked when they came, and a filter has nobody to tell.

use crate::route::Scalar;

/// Reads values from front to back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    pub(super) const fn new(data: &'a [u8], at: usize) -> Self {
        Self { data, at }
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.data.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn slice(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let slice = self.data.get(self.at..end)?;
        self.at = end;
        Some(slice)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.slice(N)?.try_into().ok()
    }

    /// The data behind a constructor. The upper half of a constructor says how long that is (1.2).
    fn data_of(&mut self, constructor: u8) -> Option<&'a [u8]> {
        let len = match constructor >> 4 {
            0x4 => 0,
            0x5 => 1,
            0x6 => 2,
            0x7 => 4,
            0x8 => 8,
            0x9 => 16,
            0xa | 0xc | 0xe => usize::from(self.byte()?),
            0xb | 0xd | 0xf => usize::try_from(u32::from_be_bytes(self.array()?)).ok()?,
            _ => return None,
        };
        self.slice(len)
    }

    /// Passes so many values, described or not.
    pub(super) fn skip(&mut self, mut values: usize) -> Option<()> {
        while values > 0 {
            let constructor = self.byte()?;
            if constructor == 0 {
                // A descriptor and the value it describes.
                values = values.checked_add(1)?;
            } else {
                self.data_of(constructor)?;
                values -= 1;
            }
        }
        Some(())
    }

    /// The next value, which must not be described, as text: a string or a symbol.
    fn text(&mut self) -> Option<&'a [u8]> {
        let constructor = self.byte()?;
        if constructor == 0 {
            self.at -= 1;
            self.skip(1)?;
            return Some(&[]);
        }
        let data = self.data_of(constructor)?;
        Some(match constructor {
            0xa1 | 0xa3 | 0xb1 | 0xb3 => data,
            _ => &[],
        })
    }

    /// The next value.
    pub(super) fn scalar(&mut self) -> Option<Scalar<'a>> {
        let constructor = self.byte()?;
        if constructor == 0 {
            self.skip(2)?;
            return Some(Scalar::Other);
        }
        let data = self.data_of(constructor)?;
        Some(scalar_of(constructor, data))
    }

    /// The code of a section's descriptor, which stands here; none of what is no section.
    pub(super) fn section(&mut self) -> Option<u64> {
        if self.byte()? != 0 {
            return None;
        }
        let constructor = self.byte()?;
        let data = self.data_of(constructor)?;
        match (constructor, data) {
            (0x53, [code]) => Some(u64::from(*code)),
            (0x80, _) => data.try_into().ok().map(u64::from_be_bytes),
            (0xa3 | 0xb3, b"amqp:message-annotations:map") => Some(0x72),
            (0xa3 | 0xb3, b"amqp:properties:list") => Some(0x73),
            (0xa3 | 0xb3, b"amqp:application-properties:map") => Some(0x74),
            (0xa3 | 0xb3, b"amqp:footer:map") => Some(0x78),
            (0xa3 | 0xb3, b"amqp:data:binary") => Some(0x75),
            (0xa3 | 0xb3, b"amqp:amqp-sequence:list") => Some(0x76),
            (0xa3 | 0xb3, b"amqp:amqp-value:*") => Some(0x77),
            _ => None,
        }
    }

    /// Number of items of a list or a map that begins here.
    fn count(&mut self) -> Option<usize> {
        match self.byte()? {
            0x45 => Some(0),
            0xc0 | 0xc1 => {
                self.byte()?;
                self.byte().map(usize::from)
            }
            0xd0 | 0xd1 => {
                self.slice(4)?;
                usize::try_from(u32::from_be_bytes(self.array()?)).ok()
            }
            _ => None,
        }
    }

    /// The n-th item of the list that begins here.
    pub(super) fn item(mut self, n: usize) -> Option<Scalar<'a>> {
        if n >= self.count()? {
            return None;
        }
        self.skip(n)?;
        self.scalar()
    }

    /// The value of a key of the map that begins here; of equal keys, which are invalid, the first.
    pub(super) fn entry(mut self, name: &str) -> Option<Scalar<'a>> {
        for _ in 0..self.count()? / 2 {
            if self.text()? == name.as_bytes() {
                return self.scalar();
            }
            self.skip(1)?;
        }
        None
    }

    /// Calls `each` for every entry of the map that begins here.
    pub(super) fn entries(mut self, each: &mut dyn FnMut(&str, Scalar<'_>)) -> Option<()> {
        for _ in 0..self.count()? / 2 {
            let name = std::str::from_utf8(self.text()?).ok()?;
            each(name, self.scalar()?);
        }
        Some(())
    }
}

fn scalar_of(constructor: u8, data: &[u8]) -> Scalar<'_> {
    match constructor {
        0x40 => Scalar::Null,
        0x41 => Scalar::Bool(true),
        0x42 => Scalar::Bool(false),
        0x56 => Scalar::Bool(data != [0]),
        // Unsigned numbers of any width, then signed ones: big-endian both.
        0x43 | 0x44 | 0x50 | 0x52 | 0x53 | 0x60 | 0x70 | 0x80 => Scalar::Int(
            data.iter()
                .fold(0, |value, byte| (value << 8) | i128::from(*byte)),
        ),
        0x51 | 0x54 | 0x55 | 0x61 | 0x71 | 0x81 | 0x83 => Scalar::Int(signed(data)),
        0x72 => match data.try_into() {
            Ok(bits) => Scalar::Float(f32::from_be_bytes(bits).into()),
            Err(_) => Scalar::Null,
        },
        0x82 => match data.try_into() {
            Ok(bits) => Scalar::Float(f64::from_be_bytes(bits)),
            Err(_) => Scalar::Null,
        },
        0x73 => match data.try_into().map(u32::from_be_bytes) {
            Ok(code) => char::from_u32(code).map_or(Scalar::Null, Scalar::Char),
            Err(_) => Scalar::Null,
        },
        0x74 | 0x84 | 0x94 => decimal(data),
        0x98 => data.try_into().map_or(Scalar::Null, Scalar::Uuid),
        0xa0 | 0xb0 => Scalar::Bytes(data),
        0xa1 | 0xa3 | 0xb1 | 0xb3 => std::str::from_utf8(data).map_or(Scalar::Null, Scalar::Text),
        _ => Scalar::Other,
    }
}

fn signed(data: &[u8]) -> i128 {
    let start = match data.first() {
        Some(first) if first & 0x80 != 0 => -1,
        _ => 0,
    };
    data.iter()
        .fold(start, |value, byte| (value << 8) | i128::from(*byte))
}

/// An IEEE 754 decimal in binary integer encoding (1.6.13 to 1.6.15): whole ones as integers, others as the double next
/// to them.
fn decimal(data: &[u8]) -> Scalar<'_> {
    let (exponent_bits, bias) = match data.len() {
        4 => (8, 101),
        8 => (10, 398),
        _ => (14, 6_176),
    };
    let bits = data
        .iter()
        .fold(0_u128, |value, byte| (value << 8) | u128::from(*byte));
    let width = data.len() * 8;
    let is_negative = bits >> (width - 1) & 1 == 1;
    if bits >> (width - 5) & 0b1111 == 0b1111 {
        return match (bits >> (width - 6) & 1 == 1, is_negative) {
            (true, _) => Scalar::Float(f64::NAN),
            (false, true) => Scalar::Float(f64::NEG_INFINITY),
            (false, false) => Scalar::Float(f64::INFINITY),
        };
    }
    // Two set bits behind the sign move the exponent two places on and stand for the coefficient's first three bits.
    let is_large = bits >> (width - 3) & 0b11 == 0b11;
    let shift = width - 1 - exponent_bits - if is_large { 2 } else { 0 };
    let low = bits & ((1 << shift) - 1);
    let mut coefficient = if is_large { low | 0b100 << shift } else { low };
    let exponent_mask = (1_u128 << exponent_bits) - 1;
    let mut exponent = i32::try_from(bits >> shift & exponent_mask).unwrap_or(0) - bias;
    // Coefficients beyond 34 digits are not canonical and mean zero.
    if coefficient >= 10_u128.pow(34) {
        coefficient = 0;
    }
    while exponent < 0 && coefficient.is_multiple_of(10) && coefficient > 0 {
        coefficient /= 10;
        exponent += 1;
    }
    let Ok(coefficient) = i128::try_from(coefficient) else {
        return Scalar::Null;
    };
    let signed = if is_negative {
        -coefficient
    } else {
        coefficient
    };
    if coefficient == 0 {
        return Scalar::Int(0);
    }
    let power = u32::try_from(exponent).ok();
    if let Some(whole) = power
        .and_then(|power| 10_i128.checked_pow(power))
        .and_then(|power| signed.checked_mul(power))
    {
        return Scalar::Int(whole);
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "the nearest double is what is wanted"
    )]
    let float = signed as f64;
    Scalar::Float(if exponent < 0 {
        float / 10_f64.powi(-exponent)
    } else {
        float * 10_f64.powi(exponent)
    })
}
