//! A run before it happens: everything that a seed decides, and what a person (or the shrinker) took out of it.

use std::fmt::Write as _;

use qq_core::broker::QueueSpec;
use qq_core::planted::Bug;
use qq_core::route::ExchangeSpec;

use super::random::Random;
use super::setup::{Queues, exchanges};

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal),* $(,)?) => {
        /// A kind of trouble. In each run each kind is either off or frequent.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $($(#[$doc])* $name),* }

        impl Fault {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its name on the command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

faults! {
    /// Byte streams are split anywhere and joined.
    Cut = "cut",
    /// Bytes take their time.
    Delay = "delay",
    /// One direction of a stream stands still for seconds.
    Stall = "stall",
    /// Connections are reset.
    Reset = "reset",
    /// Connections fall silent without an end.
    Silence = "silence",
    /// The node is killed, and comes back with what its disk kept.
    Crash = "crash",
    /// The disk is slow.
    SlowStore = "slow-store",
    /// The disk stands still for up to 30 s.
    StoreStall = "store-stall",
    /// The disk is full now and then.
    NoRoom = "no-room",
    /// A sync fails: the node must stop.
    SyncFails = "sync-fails",
    /// The wall clock jumps.
    WallJump = "wall-jump",
    /// Links are taken over by others of the same name.
    Steal = "steal",
    /// Links are detached with deliveries in flight, sessions ended, connections closed.
    Detach = "detach",
    /// Credit of nothing, of everything, drained, taken back.
    Credit = "credit",
    /// Released, modified, rejected.
    Outcomes = "outcomes",
    /// Queues are purged.
    Purge = "purge",
    /// Queues are deleted and made again.
    Delete = "delete",
    /// Messages and queues with a time to live.
    Expiry = "expiry",
    /// Queues with a limit.
    Limits = "limits",
    /// Queues of one connection alone.
    Exclusive = "exclusive",
    /// Little memory.
    Memory = "memory",
    /// Bodies leave memory for the store.
    Paging = "paging",
    /// Bodies that left memory are read wrongly.
    ReadFails = "read-fails",
    /// Small frames and windows, ids near their wrap.
    Tiny = "tiny",
    /// Deliveries that are settled when they are sent, both ways.
    Presettled = "presettled",
    /// Readers that do not take.
    Browse = "browse",
    /// Settlements in two steps.
    Second = "second",
    /// Queues that give up on a message and keep it aside.
    DeadLetters = "dead-letters",
    /// Exchanges and bindings that come and go.
    Exchanges = "exchanges",
    /// Messages that come before others.
    Priorities = "priorities",
    /// Receivers that want some messages only.
    Filters = "filters",
    /// Messages that are to come later, and waits between attempts.
    Delays = "delays",
    /// Sends and settlements that take effect together.
    Transactions = "transactions",
    /// Messages that are sent again under the key of an earlier one.
    Duplicates = "duplicates",
    /// Messages of a key, of which one is out at a time.
    Keys = "keys",
    /// Queues that serve one consumer at a time.
    Single = "single",
    /// Queues that take back what consumers hold for too long.
    Locks = "locks",
    /// A stream with its readers.
    Streams = "streams",
    /// Receivers from exchanges whose messages are kept for them.
    Subscriptions = "subscriptions",
    /// A queue whose messages several groups get.
    Groups = "groups",
    /// Clients of the binary protocol beside those of AMQP.
    Qwerq = "qwer-q",
}

/// Everything about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The kinds of trouble in it.
    pub faults: Vec<Fault>,
    /// Acts before everything is healed ...
    pub acts_max: u32,
    /// ... and more, up to twenty times as many, until there were so many operations ...
    pub operations_min: u64,
    /// ... and so many crashes.
    pub crashes_min: u32,
    /// Acts between two crashes, when [`Fault::Crash`] is in it.
    pub crash_every: u32,
    /// Clients, by number.
    pub clients: Vec<usize>,
    /// A crash at the store's boundary of this number, the first being 1, whatever else happens.
    pub crash_at: Option<u64>,
    /// The mistake that the code under test makes, in builds that can.
    pub planted: Option<Bug>,
    /// Prints what faces and broker say to each other.
    pub is_traced: bool,
    /// Acts left out, as ranges of numbers, both ends included.
    pub skipped: Vec<(u32, u32)>,
    /// The queues that clients send to.
    pub queues: Vec<QueueSpec>,
    /// Queues for dead letters that are there from the start.
    pub targets: Vec<QueueSpec>,
    /// Queues for dead letters that the broker makes when it needs them.
    pub graves: Vec<QueueSpec>,
    /// Exchanges that come and go; with them those that always exist are used.
    pub exchanges: Vec<ExchangeSpec>,
    /// Longest pause between two acts of a client, milliseconds.
    pub pause_max_ms: u64,
}

/// The kinds of trouble up to this one draw from one stream.
const FIRST_NEWEST: Fault = Fault::Delays;

/// Acts are not extended beyond so many times their planned number.
pub(super) const ACTS_FACTOR: u32 = 20;

/// How much happens in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Some hundred operations, each kind of trouble or not.
    Short,
    /// At least two thousand operations and five crashes.
    Long,
}

impl Plan {
    /// The run of a seed.
    #[must_use]
    pub fn new(seed: u64, size: Size) -> Self {
        Self::until(seed, size, Fault::Qwerq)
    }

    /// The run of a seed as it was when a kind of trouble was the newest.
    #[must_use]
    pub fn until(seed: u64, size: Size, newest: Fault) -> Self {
        let mut random = Random::fork(seed, 1, 0);
        // Kinds that came later draw from streams of their own, so that earlier runs stay what they were.
        let (first, later): (Vec<Fault>, Vec<Fault>) = Fault::ALL
            .iter()
            .filter(|fault| **fault <= newest)
            .partition(|fault| **fault <= FIRST_NEWEST);
        let mut faults = first;
        faults.retain(|_| random.is_lucky(500));
        let is_there = |fault: &Fault| Random::fork(seed, 11, *fault as u64).is_lucky(500);
        faults.extend(later.into_iter().filter(is_there));
        // One run in eight is calm: no deliveries are lost, so that the order seen by clients can be judged as well.
        if random.is_lucky(125) {
            faults.retain(|fault| !fault.loses_deliveries());
        }
        let is_long = size == Size::Long;
        if is_long && !faults.contains(&Fault::Crash) {
            faults.push(Fault::Crash);
            faults.sort_unstable();
        }
        let clients = random.within(2, 6) as usize;
        let pause_max_ms = [5, 40, 400][random.index(3)];
        let Queues {
            queues,
            targets,
            graves,
        } = Queues::new(&mut random, &faults, seed);
        let exchanges = if faults.contains(&Fault::Exchanges) {
            exchanges(&mut random)
        } else {
            Vec::new()
        };
        let (acts, crashes) = match size {
            Size::Short => (random.within(200, 700), random.within(1, 3)),
            Size::Long => (random.within(2_000, 3_000), random.within(5, 8)),
        };
        Self {
            seed,
            faults,
            acts_max: acts as u32,
            operations_min: if is_long { 2_000 } else { 100 },
            crashes_min: if is_long { 5 } else { 0 },
            crash_every: (acts / (crashes + 1)).max(1) as u32,
            clients: (0..clients).collect(),
            crash_at: None,
            planted: None,
            is_traced: false,
            skipped: Vec::new(),
            queues,
            targets,
            graves,
            exchanges,
            pause_max_ms,
        }
    }

    /// Whether this kind of trouble is in it.
    #[must_use]
    pub fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// The queues that are there from the start.
    #[must_use]
    pub fn declared(&self) -> Vec<QueueSpec> {
        let all = self.queues.iter().chain(&self.targets);
        all.cloned().collect()
    }

    /// Ends the troubled part after so many acts, whatever happened until then.
    pub fn end_after(&mut self, acts: u32) {
        (self.acts_max, self.operations_min, self.crashes_min) = (acts, 0, 0);
    }

    /// Whether no delivery can get lost on its way, so that the clients see the broker's order.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        !self.faults.iter().any(|fault| fault.loses_deliveries())
    }

    /// Leaves out some more acts.
    pub(super) fn skip(&mut self, first: u32, last: u32) {
        self.skipped.push((first, last));
        self.skipped.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::new();
        for (first, last) in self.skipped.drain(..) {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last)
                }
                _ => joined.push((first, last)),
            }
        }
        self.skipped = joined;
    }

    /// Whether an act is left out.
    #[must_use]
    pub fn is_skipped(&self, act: u32) -> bool {
        self.skipped
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&act))
    }

    /// The arguments of `qq-sim` that repeat this run, given the run as its seed alone would have it.
    #[must_use]
    pub fn arguments(&self, size: Size) -> String {
        let whole = Self::new(self.seed, size);
        let mut text = format!("--seed {}", self.seed);
        if size == Size::Long {
            text.push_str(" --long");
        }
        let without: Vec<_> = whole
            .faults
            .iter()
            .filter(|fault| !self.has(**fault))
            .map(|fault| fault.name())
            .collect();
        if !without.is_empty() {
            let _ = write!(text, " --without {}", without.join(","));
        }
        if self.clients != whole.clients {
            let clients: Vec<_> = self.clients.iter().map(ToString::to_string).collect();
            let _ = write!(text, " --clients {}", clients.join(","));
        }
        if (self.acts_max, self.operations_min) != (whole.acts_max, whole.operations_min) {
            let _ = write!(text, " --acts {}", self.acts_max);
        }
        if let Some(boundary) = self.crash_at {
            let _ = write!(text, " --crash-at {boundary}");
        }
        if !self.skipped.is_empty() {
            let ranges: Vec<_> = self
                .skipped
                .iter()
                .map(|(first, last)| format!("{first}-{last}"))
                .collect();
            let _ = write!(text, " --skip {}", ranges.join(","));
        }
        text
    }
}

impl Fault {
    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| fault.name() == name)
    }

    const fn loses_deliveries(self) -> bool {
        matches!(
            self,
            Self::Stall
                | Self::Reset
                | Self::Silence
                | Self::Crash
                | Self::SyncFails
                | Self::StoreStall
                | Self::Steal
                | Self::Detach
                | Self::Delete
                | Self::Exclusive
                | Self::Credit
                | Self::Locks
        )
    }
}
