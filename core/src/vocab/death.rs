//! Why a message is a dead letter: where it failed, how often, and what it lost on the way.
//!
//! The history travels with the message from one dead-letter queue to the next. It is what tells a ring of queues that a
//! message goes round in from one that a consumer drives by rejecting.

/// Deaths in a row without a consumer's doing after which a message is not sent on; also the places that are remembered.
pub const DEATHS_MAX: usize = 32;

/// Why a message could not stay in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A consumer rejected it.
    Rejected,
    /// Its time to live was over.
    Expired,
    /// The queue was full.
    Overflow,
    /// It failed as often as the queue allows.
    Attempts,
}

impl Cause {
    /// All of them, in the order of their numbers in the store.
    pub const ALL: [Self; 4] = [
        Self::Rejected,
        Self::Expired,
        Self::Overflow,
        Self::Attempts,
    ];

    /// The word that consumers read.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Overflow => "maxlen",
            Self::Attempts => "delivery-limit",
        }
    }

    /// A consumer had a hand in it, so that it cannot happen for ever by itself.
    #[must_use]
    pub fn is_consumers(self) -> bool {
        matches!(self, Self::Rejected | Self::Attempts)
    }
}

/// That a message failed in one queue for one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// The queue's name.
    pub queue: String,
    /// Why.
    pub cause: Cause,
    /// How often so far.
    pub count: u32,
    /// The last time, milliseconds since the Unix epoch.
    pub at_ms: i64,
}

/// The history of a dead letter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deaths {
    /// Newest first, one for each queue and cause, [`DEATHS_MAX`] at most.
    pub list: Vec<Death>,
    /// The time to live that the message came with, milliseconds.
    pub ttl_ms: Option<u64>,
    /// The absolute expiry time that it came with, milliseconds since the Unix epoch.
    pub expires_at_ms: Option<i64>,
}

impl Deaths {
    /// Adds one more.
    pub fn add(&mut self, queue: &str, cause: Cause, at_ms: i64) {
        let known = |death: &Death| death.queue == queue && death.cause == cause;
        let before = self.list.iter().position(known);
        let count = before.map_or(0, |at| self.list.remove(at).count);
        let death = Death {
            queue: queue.to_owned(),
            cause,
            count: count.saturating_add(1),
            at_ms,
        };
        self.list.insert(0, death);
        self.list.truncate(DEATHS_MAX);
    }

    /// Whether going to that queue would end a round in which no consumer had a hand.
    #[must_use]
    pub fn is_round(&self, queue: &str) -> bool {
        let idle = self
            .list
            .iter()
            .take_while(|death| !death.cause.is_consumers());
        let (mut len, mut was_there) = (0, false);
        for death in idle {
            len += 1;
            was_there |= death.queue == queue;
        }
        was_there || len >= DEATHS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_without_a_consumers_doing_is_told_from_one_with() {
        let mut deaths = Deaths::default();
        deaths.add("work", Cause::Rejected, 1);
        assert!(!deaths.is_round("retry") && !deaths.is_round("work"));
        deaths.add("retry", Cause::Expired, 2);
        assert!(!deaths.is_round("work") && deaths.is_round("retry"));
        deaths.add("work", Cause::Rejected, 3);
        assert!(!deaths.is_round("retry"));
        let counts: Vec<_> = deaths.list.iter().map(|death| death.count).collect();
        assert_eq!((counts, deaths.list[0].at_ms), (vec![2, 1], 3));
    }

    #[test]
    fn a_chain_that_never_ends_is_a_round_and_the_list_is_bounded() {
        let mut deaths = Deaths::default();
        for number in 0..DEATHS_MAX {
            assert!(!deaths.is_round("next"));
            deaths.add(&number.to_string(), Cause::Expired, 0);
        }
        assert!(deaths.is_round("next"));
        deaths.add("next", Cause::Rejected, 0);
        assert_eq!(deaths.list.len(), DEATHS_MAX);
        assert!(!deaths.is_round("0"));
    }
}
