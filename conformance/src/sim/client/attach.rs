//! Links that a client opens.

use std::collections::BTreeMap;

use qq_core::broker::QueueSpec;
use qq_proto_amqp::connection::NewLink;
use qq_proto_amqp::performative::{
    DeliveryState, RcvSettleMode, SndSettleMode, Source, Target, TargetKind,
};
use qq_proto_amqp::types::{Described, Map, Str, Symbol, Value};

use super::{Client, Kind, Link, Mode, Receiver, Scene, Sender};
use crate::sim::plan::{Fault, Plan};
use crate::sim::random::Random;

/// Links of one connection.
const LINKS_MAX: usize = 8;
/// Names that links share where they steal from each other.
const SHARED_NAMES: u64 = 3;

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
        let has_filter = !opening.is_drainer && plan.has(Fault::Filters) && random.is_lucky(400);
        let filter = has_filter.then(|| pick_filter(random));
        let source = Source {
            address: Some(address(spec, random)),
            filter,
            distribution_mode: (mode == Mode::Browse).then(|| Symbol::from_static("copy")),
            // Never `accepted`: what a link leaves behind must not count as done without a word.
            default_outcome: random.is_lucky(250).then_some(DeliveryState::Released),
            ..Source::default()
        };
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
