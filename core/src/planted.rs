//! Bugs on purpose, to show that the simulator finds them.
//!
//! Each is a line at the place where such a mistake could be made, and exists only in builds with
//! `--cfg qq_planted`: otherwise [`is_planted`] is a constant, and the line is not there. The switch belongs to a
//! thread, since a run of the simulator is one thread, and so that no interface of the broker has to carry it.

/// The mistakes that can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// A durable message is accepted before the store has it.
    AcceptBeforeSafe,
    /// A durable message is delivered before the store has it.
    DeliverBeforeSafe,
    /// A failed attempt is not told to the store.
    CountNotStored,
    /// What a detached link held is not given back.
    LostOnDetach,
    /// What a lost link held is given back and sent to the end of the queue as well.
    ReturnedTwice,
    /// What was given back comes after what is newer.
    OrderOfReturnLost,
    /// A consumer gets the message that it wanted never again.
    ExclusionForgotten,
    /// One delivery more than the permit allows.
    CreditOffByOne,
    /// Permit that a drain used up is used again.
    DrainKeepsCredit,
    /// A drain is not answered to the peer.
    DrainUnanswered,
    /// A settled range takes a delivery with it that is not in it.
    RangeTooWide,
    /// The link that was taken over stays.
    StolenLinkStays,
    /// The queue of one connection alone stays when that is gone.
    ExclusiveQueueStays,
    /// A purge takes what consumers hold.
    PurgeTakesHeld,
    /// A queue takes one message more than it may.
    LengthOffByOne,
    /// Lives are measured with the wall clock.
    WallClockLife,
    /// What expired is not taken out of the store.
    ExpiredStaysStored,
    /// After a restart positions are given again.
    PositionsReused,
    /// What waits for the store is let out when that fails.
    ConfirmAfterFailure,
    /// The last body of a fetch is dropped.
    FetchDropsLast,
    /// Recovery takes a batch of which only a part is there.
    TornBatchTaken,
    /// Bodies are read without a look at their CRC.
    CrcSkipped,
    /// A dead letter stays in the store's copy of its queue.
    DeadLetterCopied,
    /// A dead letter is not told to the store.
    DeadLetterVolatile,
    /// A message is tried once more than its queue allows.
    AttemptsOffByOne,
    /// A dead letter keeps its count of attempts.
    DeathKeepsCount,
    /// What a full queue refuses is not kept aside.
    RefusedNotKept,
    /// What expired is dropped where it should become a dead letter.
    ExpiredNotBuried,
    /// A queue gets a message once for each binding that takes it.
    RoutedTwice,
    /// Of the queues that get a message, the store is told of the first only.
    StoredInParts,
    /// `*` in a binding's pattern takes two words as well.
    StarTakesMany,
    /// What no binding takes does not go to the alternate exchange.
    AlternateForgotten,
    /// An exchange stays when its last binding goes.
    AutoDeleteStays,
    /// A producer's last route is taken again after the bindings changed.
    RouteRemembered,
    /// A headers binding wants all criteria where one is enough.
    HeadersAnyIsAll,
    /// A message that comes back stands behind those of lower priority.
    PriorityForgotten,
    /// A consumer gets what its filter does not let pass.
    FilterIgnored,
    /// A message that is to come later comes at once.
    DelayIgnored,
    /// There is no wait between attempts.
    BackoffIgnored,
    /// A transaction that is to be rolled back takes effect.
    RolledBackKept,
    /// A transaction is told as done before the store has it.
    DischargeBeforeSafe,
    /// A message that a queue had is taken again.
    DuplicateTaken,
    /// After a restart a queue does not know what it had.
    KeyNotStored,
    /// A second message of an ordering key goes out while the first is.
    KeyOverlooked,
    /// The newest message of an ordering key comes next.
    KeyOrderLost,
    /// Consumers that stand by get messages.
    StandbyServed,
    /// Nobody follows the active consumer that goes.
    HandOverForgotten,
    /// What a consumer holds for too long stays with it.
    LockForgotten,
    /// A consumer that is still at work loses its message all the same.
    ExtensionIgnored,
    /// A reader from the first message of a stream begins with the second.
    StreamBeginsLate,
    /// After a restart a reader of a stream begins where it was long ago.
    OffsetNotStored,
    /// A subscription that is to be kept goes with its link.
    SubscriptionDropped,
    /// Of several groups of a queue one gets its messages.
    GroupLeftOut,
    /// A client of the binary protocol ends one delivery more than it names.
    AckTooWide,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 54] = [
        Self::AcceptBeforeSafe,
        Self::DeliverBeforeSafe,
        Self::CountNotStored,
        Self::LostOnDetach,
        Self::ReturnedTwice,
        Self::OrderOfReturnLost,
        Self::ExclusionForgotten,
        Self::CreditOffByOne,
        Self::DrainKeepsCredit,
        Self::DrainUnanswered,
        Self::RangeTooWide,
        Self::StolenLinkStays,
        Self::ExclusiveQueueStays,
        Self::PurgeTakesHeld,
        Self::LengthOffByOne,
        Self::WallClockLife,
        Self::ExpiredStaysStored,
        Self::PositionsReused,
        Self::ConfirmAfterFailure,
        Self::FetchDropsLast,
        Self::TornBatchTaken,
        Self::CrcSkipped,
        Self::DeadLetterCopied,
        Self::DeadLetterVolatile,
        Self::AttemptsOffByOne,
        Self::DeathKeepsCount,
        Self::RefusedNotKept,
        Self::ExpiredNotBuried,
        Self::RoutedTwice,
        Self::StoredInParts,
        Self::StarTakesMany,
        Self::AlternateForgotten,
        Self::AutoDeleteStays,
        Self::RouteRemembered,
        Self::HeadersAnyIsAll,
        Self::PriorityForgotten,
        Self::FilterIgnored,
        Self::DelayIgnored,
        Self::BackoffIgnored,
        Self::RolledBackKept,
        Self::DischargeBeforeSafe,
        Self::DuplicateTaken,
        Self::KeyNotStored,
        Self::KeyOverlooked,
        Self::KeyOrderLost,
        Self::StandbyServed,
        Self::HandOverForgotten,
        Self::LockForgotten,
        Self::ExtensionIgnored,
        Self::StreamBeginsLate,
        Self::OffsetNotStored,
        Self::SubscriptionDropped,
        Self::GroupLeftOut,
        Self::AckTooWide,
    ];
}

/// Whether this thread makes that mistake.
#[cfg(not(qq_planted))]
#[inline(always)]
#[must_use]
pub const fn is_planted(_: Bug) -> bool {
    false
}

#[cfg(qq_planted)]
mod switch {
    use super::Bug;
    use core::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// From now on this thread makes that mistake, and no other.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Whether this thread makes that mistake.
    #[must_use]
    pub fn is_planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(qq_planted)]
pub use switch::{is_planted, plant};
