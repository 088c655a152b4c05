//! Links that a client opens.

use std::collections::{BTreeMap, BTreeSet};

use qq_core::broker::QueueSpec;
use qq_proto_amqp::connection::NewLink;
use qq_proto_amqp::performative::{
    DeliveryState, RcvSettleMode, SndSettleMode, Source, Target, TargetKind,
};
use qq_proto_amqp::types::{Described, Map, Str, Symbol, Value};

use super::{Client, Kind, Link, Mode, Receiver, Scene, Sender};
use crate::sim::plan::{Fault, Plan};
use crate::sim::random::Random;
use crate::sim::setup::{KEYED, TEAM};

/// Links of one connection.
const LINKS_MAX: usize = 8;
/// Names that links share where they steal from each other.
const SHARED_NAMES: u64 = 3;

/// Readers of streams whose place is kept.
const READERS: u64 = 3;

/// Subscriptions of a container.
const SUBSCRIPTIONS: u64 = 3;
/// Groups of a queue.
const GROUPS: u64 = 2;

/// What a link is opened with.
struct Opening {
    name: String,
    spec: QueueSpec,
    is_sender: bool,
    /// One of a connection that has as many as there are queues.
    is_drainer: bool,
}

impl Client {
    fn opening(
        &mut self,
        random: &mut Random,
        is_sender: bool,
        spec: &QueueSpec,
        may_share: bool,
    ) -> Opening {
        self.links_made += 1;
        let name = if may_share && random.is_lucky(500) {
            format!("shared-{}", random.below(SHARED_NAMES))
        } else {
            format!("{}-{}", self.number, self.links_made)
        };
        Opening {
            name,
            spec: spec.clone(),
            is_sender,
            is_drainer: false,
        }
    }

    /// Opens a link that sends to a queue.
    pub(in crate::sim) fn attach_sender(
        &mut self,
        scene: &mut Scene<'_>,
        plan: &Plan,
        random: &mut Random,
        spec: &QueueSpec,
    ) {
        let address = address(spec, random);
        self.open_sender(scene, plan, random, (spec, address, false));
    }

    /// Opens a link that sends to an exchange, with the same key for all or that of each message.
    pub(in crate::sim) fn attach_poster(
        &mut self,
        scene: &mut Scene<'_>,
        plan: &Plan,
        random: &mut Random,
        exchange: &str,
    ) {
        let text = match random.below(3) {
            0 => exchange.to_owned(),
            1 => format!("/exchanges/{exchange}"),
            _ => format!("/exchanges/{exchange}/{}", pick_key(random)),
        };
        let spec = QueueSpec::new(exchange);
        let address = Value::Str(Str::from(text.as_str()));
        self.open_sender(scene, plan, random, (&spec, address, true));
    }

    fn open_sender(
        &mut self,
        scene: &mut Scene<'_>,
        plan: &Plan,
        random: &mut Random,
        (spec, address, is_poster): (&QueueSpec, Value, bool),
    ) {
        let opening = self.opening(random, true, spec, plan.has(Fault::Steal));
        let is_settled = plan.has(Fault::Presettled) && random.is_lucky(250);
        let link = NewLink {
            name: Str::from(opening.name.as_str()),
            is_sender: true,
            source: Some(Source::default()),
            target: Some(TargetKind::Target(Target {
                address: Some(address),
                ..Target::default()
            })),
            snd_settle_mode: if is_settled {
                SndSettleMode::Settled
            } else {
                SndSettleMode::Mixed
            },
            rcv_settle_mode: if plan.has(Fault::Second) && random.is_lucky(500) {
                RcvSettleMode::Second
            } else {
                RcvSettleMode::First
            },
            max_message_size: None,
            properties: None,
            unsettled: None,
        };
        let kind = Kind::Sender(Sender {
            is_settled,
            is_poster,
            unanswered: BTreeMap::new(),
            next_token: 0,
        });
        self.attach(scene, opening, link, kind, random);
    }

    /// Opens a link that receives from a queue.
    pub(in crate::sim) fn attach_receiver(
        &mut self,
        scene: &mut Scene<'_>,
        plan: &Plan,
        random: &mut Random,
        spec: &QueueSpec,
        mode: Option<Mode>,
    ) {
        let mut opening = self.opening(
            random,
            false,
            spec,
            mode.is_none() && plan.has(Fault::Steal),
        );
        opening.is_drainer = mode.is_some();
        let mode = mode.unwrap_or_else(|| pick_mode(plan, random));
        let keeps_place = spec.is_stream() && !opening.is_drainer && random.is_lucky(400);
        if keeps_place {
            opening.name = format!("reader-{}", random.below(READERS));
        }
        // With filters, which message of a key is the next depends on who asks, and a place may lie behind what was
        // looked at and not wanted.
        let may_filter = !opening.is_drainer && !keeps_place && !spec.name.starts_with(KEYED);
        let has_filter = may_filter && plan.has(Fault::Filters) && random.is_lucky(400);
        let mut filter = has_filter.then(|| pick_filter(random));
        if spec.is_stream() {
            let start = match opening.is_drainer {
                true => Value::Str(Str::from_static("first")),
                false => pick_start(random),
            };
            let name = Value::Symbol(Symbol::from_static("qq:stream-start"));
            filter.get_or_insert_default().push((name, start));
        }
        let source = Source {
            address: Some(address(spec, random)),
            filter,
            distribution_mode: (mode == Mode::Browse).then(|| Symbol::from_static("copy")),
            // Never `accepted`: what a link leaves behind must not count as done without a word.
            expiry_policy: match keeps_place {
                true => Symbol::from_static("never"),
                false => Source::default().expiry_policy,
            },
            default_outcome: random.is_lucky(250).then_some(DeliveryState::Released),
            ..Source::default()
        };
        self.open_receiver(scene, random, opening, (mode, source));
    }

    /// Opens a link that receives from a group of a queue.
    pub(in crate::sim) fn attach_member(
        &mut self,
        scene: &mut Scene<'_>,
        plan: &Plan,
        random: &mut Random,
    ) {
        let group = format!("g{}", random.below(GROUPS));
        let spec = QueueSpec::new(format!("amq.group-{TEAM}.{group}"));
        let address = format!("/queues/{TEAM}/groups/{group}");
        let opening = self.opening(random, false, &spec, plan.has(Fault::Steal));
        let mode = pick_mode(plan, random);
        let source = Source {
            address: Some(Value::Str(Str::from(address.as_str()))),
            distribution_mode: (mode == Mode::Browse).then(|| Symbol::from_static("copy")),
            ..Source::default()
        };
        self.open_receiver(scene, random, opening, (mode, source));
    }

    /// Opens a link that receives from an exchange, and whose messages are kept while it is away.
    pub(in crate::sim) fn attach_subscriber(
        &mut self,
        scene: &mut Scene<'_>,
        plan: &Plan,
        random: &mut Random,
        exchange: &str,
    ) {
        let name = format!("sub-{}", random.below(SUBSCRIPTIONS));
        let spec = QueueSpec::new(format!("amq.sub-{}.{name}", self.container));
        let mut opening = self.opening(random, false, &spec, false);
        opening.name = name;
        let mode = match pick_mode(plan, random) {
            Mode::Browse => Mode::First,
            mode => mode,
        };
        // A key that is not `#`, which a topic exchange is given without one.
        let has_key = random.is_lucky(700) || ["d", "amq.direct"].contains(&exchange);
        let address = match has_key {
            true => format!("/exchanges/{exchange}/{}", pick_key(random)),
            false => format!("/exchanges/{exchange}"),
        };
        let source = Source {
            address: Some(Value::Str(Str::from(address.as_str()))),
            durable: random.below(3) as u32,
            expiry_policy: Symbol::from_static("never"),
            ..Source::default()
        };
        self.open_receiver(scene, random, opening, (mode, source));
    }

    fn open_receiver(
        &mut self,
        scene: &mut Scene<'_>,
        random: &mut Random,
        opening: Opening,
        (mode, source): (Mode, Source),
    ) {
        let link = NewLink {
            name: Str::from(opening.name.as_str()),
            is_sender: false,
            source: Some(source),
            target: Some(TargetKind::Target(Target::default())),
            snd_settle_mode: if mode == Mode::Settled {
                SndSettleMode::Settled
            } else {
                SndSettleMode::Mixed
            },
            rcv_settle_mode: if mode == Mode::Second {
                RcvSettleMode::Second
            } else {
                RcvSettleMode::First
            },
            max_message_size: None,
            properties: None,
            unsettled: None,
        };
        let kind = Kind::Receiver(Receiver {
            mode,
            held: Vec::new(),
            stated: Vec::new(),
            received: 0,
            limit: 0,
            is_draining: false,
            is_murky: false,
            numbers: BTreeMap::new(),
            lost: BTreeSet::new(),
        });
        self.attach(scene, opening, link, kind, random);
    }

    fn attach(
        &mut self,
        scene: &mut Scene<'_>,
        opening: Opening,
        new: NewLink,
        kind: Kind,
        random: &mut Random,
    ) {
        let process = format!("c{}.{}", self.number, self.links_made);
        let Some(live) = self.live.as_mut().filter(|live| !live.sessions.is_empty()) else {
            return;
        };
        // A name is unique among the links of a connection and direction.
        let is_taken = live.links.iter().any(|link| {
            link.name == opening.name && matches!(link.kind, Kind::Sender(_)) == opening.is_sender
        });
        if is_taken || live.links.len() >= LINKS_MAX && !opening.is_drainer {
            return;
        }
        let session = live.sessions[random.index(live.sessions.len())];
        // A session on its way out takes no new links.
        let Ok(id) = live.machine.attach(session, new) else {
            return;
        };
        *scene.operations += 1;
        live.links.push(Link {
            id,
            process,
            name: opening.name,
            is_queue_durable: opening.spec.durable && !opening.spec.exclusive,
            queue: opening.spec.name,
            is_up: false,
            kind,
        });
    }
}

/// A routing key of up to three words.
pub(super) fn pick_key(random: &mut Random) -> String {
    let words: Vec<_> = (0..random.within(1, 3))
        .map(|_| ["a", "b", "c"][random.index(3)])
        .collect();
    words.join(".")
}

/// Application properties that messages must have.
fn pick_filter(random: &mut Random) -> Map {
    let text = |text: &str| Value::Str(Str::from(text));
    let mut wanted = Map::default();
    if random.is_lucky(700) {
        wanted.push((text("color"), text(["red", "blue"][random.index(2)])));
    }
    if wanted.is_empty() || random.is_lucky(400) {
        let size = if random.is_lucky(200) {
            Value::Null
        } else {
            Value::Ubyte(random.below(4) as u8)
        };
        wanted.push((text("size"), size));
    }
    let filter = Described {
        descriptor: Value::Ulong(0x174),
        value: Value::Map(wanted),
    };
    let name = Value::Symbol(Symbol::from_static("wanted"));
    [(name, Value::Described(Box::new(filter)))]
        .into_iter()
        .collect()
}

/// Where a reader of a stream begins.
fn pick_start(random: &mut Random) -> Value {
    let text = |text: &'static str| Value::Str(Str::from_static(text));
    match random.below(5) {
        0 => text("last"),
        1 => text("next"),
        2 => Value::Ulong(random.below(60)),
        _ => text("first"),
    }
}

fn pick_mode(plan: &Plan, random: &mut Random) -> Mode {
    let choices = [
        (4, Mode::First),
        (if plan.has(Fault::Second) { 3 } else { 0 }, Mode::Second),
        (u64::from(plan.has(Fault::Presettled)), Mode::Settled),
        (u64::from(plan.has(Fault::Browse)), Mode::Browse),
    ];
    random.weighted(&choices).unwrap_or(Mode::First)
}

/// A queue's address in one of the forms that name it.
fn address(spec: &QueueSpec, random: &mut Random) -> Value {
    let text = if random.is_lucky(500) {
        format!("/queues/{}", spec.name)
    } else {
        spec.name.clone()
    };
    Value::Str(Str::from(text.as_str()))
}
