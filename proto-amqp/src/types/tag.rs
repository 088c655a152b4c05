//! Delivery tags: up to 32 bytes, copied around without allocation.

use core::fmt;

/// A delivery-tag (part 2, 2.8.7): up to 32 bytes that name a delivery on its link.
#[derive(Clone, Copy, Default)]
pub struct DeliveryTag {
    len: u8,
    bytes: [u8; 32],
}

impl DeliveryTag {
    /// The most bytes that a tag has.
    pub const LEN_MAX: usize = 32;

    /// A tag of these bytes; none when there are more than 32.
    #[must_use]
    pub fn new(tag: &[u8]) -> Option<Self> {
        if tag.len() > Self::LEN_MAX {
            return None;
        }
        let mut bytes = [0; 32];
        bytes[..tag.len()].copy_from_slice(tag);
        // At most 32, checked above.
        Some(Self {
            len: tag.len() as u8,
            bytes,
        })
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Number of bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it has no byte, which is legal.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl PartialEq for DeliveryTag {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for DeliveryTag {}

impl PartialOrd for DeliveryTag {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DeliveryTag {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl core::hash::Hash for DeliveryTag {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for DeliveryTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::DeliveryTag;

    #[test]
    fn holds_0_to_32_bytes() {
        for len in 0..=32_usize {
            let bytes = [0x5a; 32];
            let tag = DeliveryTag::new(&bytes[..len]).expect("fits");
            assert_eq!(
                (tag.as_slice(), tag.len(), tag.is_empty()),
                (&bytes[..len], len, len == 0)
            );
        }
        assert_eq!(DeliveryTag::new(&[0; 33]), None);
        assert!(DeliveryTag::new(&[0]) > DeliveryTag::new(&[]));
    }
}
