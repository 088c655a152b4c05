//! For how long a consumer may hold a message.

/// The time after which a delivery without an outcome returns to its queue: the first of these that is set. When none
/// is, a consumer holds it as long as it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockSpec {
    /// What the consumer asked for, milliseconds. It goes before what the queue says.
    pub asked_ms: Option<u64>,
    /// What its protocol promises where neither it nor the queue says anything, milliseconds.
    pub fallback_ms: Option<u64>,
}

impl LockSpec {
    /// The time in force on a queue, milliseconds.
    #[must_use]
    pub fn in_force(self, queue_ms: Option<u64>) -> Option<u64> {
        self.asked_ms.or(queue_ms).or(self.fallback_ms)
    }
}
