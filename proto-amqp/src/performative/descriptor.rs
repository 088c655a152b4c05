//! Descriptors by their symbols. The numeric code and the symbol identify a type alike (part 1, 1.2).

use crate::codec::{Reader, code};
use crate::types::DecodeError;

/// The numeric code for a symbolic descriptor of the transport, messaging, transactions or security.
pub(crate) fn code_of_symbol(symbol: &[u8]) -> Option<u64> {
    let name = symbol.strip_prefix(b"amqp:")?.strip_suffix(b":list")?;
    Some(match name {
        b"open" => 0x10,
        b"begin" => 0x11,
        b"attach" => 0x12,
        b"flow" => 0x13,
        b"transfer" => 0x14,
        b"disposition" => 0x15,
        b"detach" => 0x16,
        b"end" => 0x17,
        b"close" => 0x18,
        b"error" => 0x1d,
        b"received" => 0x23,
        b"accepted" => 0x24,
        b"rejected" => 0x25,
        b"released" => 0x26,
        b"modified" => 0x27,
        b"source" => 0x28,
        b"target" => 0x29,
        b"coordinator" => 0x30,
        b"declared" => 0x33,
        b"transactional-state" => 0x34,
        b"sasl-mechanisms" => 0x40,
        b"sasl-init" => 0x41,
        b"sasl-challenge" => 0x42,
        b"sasl-response" => 0x43,
        b"sasl-outcome" => 0x44,
        _ => return None,
    })
}

/// Code of the descriptor of a field that holds a composite.
#[inline]
pub(super) fn read(
    constructor: u8,
    reader: &mut Reader<'_>,
    name: &'static str,
) -> Result<Option<u64>, DecodeError> {
    if constructor != code::DESCRIBED {
        return Err(DecodeError::FieldType(name));
    }
    reader.descriptor(code_of_symbol)
}
