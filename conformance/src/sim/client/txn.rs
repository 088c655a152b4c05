//! Transactions of a client: a coordinator, messages and settlements that wait for the discharge.
//!
//! What the history says of them is known at two moments. A settlement ends when the broker executes the discharge,
//! which the reference tells the recorder. Whether messages are there is known when the client hears the answer.

use bytes::{BufMut, Bytes, BytesMut};
use qq_proto_amqp::connection::{LinkId, NewLink, OutgoingDelivery, SessionId};
use qq_proto_amqp::performative::{
    AmqpError, Coordinator, DeliveryState, RcvSettleMode, SndSettleMode, Source, TargetKind,
};
use qq_proto_amqp::types::{DeliveryTag, Described, Str, Value};

use super::events::check_condition;
use super::{Client, Kind, Live, Scene, Unsettled};
use crate::sim::random::Random;

/// Transactions of a connection at a time.
const OPEN_MAX: usize = 3;
/// Conditions with which a discharge may fail: what it needs is gone, or there is no room for all of it.
const FAULTS: &[&str] = &["amqp:transaction:rollback"];

/// A message whose place is known and that is not there yet.
#[derive(Debug)]
struct Posted {
    process: String,
    queue: String,
    number: u64,
}

/// What is to take effect together.
#[derive(Debug)]
struct Txn {
    id: Bytes,
    posted: Vec<Posted>,
    /// Deliveries that the broker was told an outcome of, and not that they are forgotten.
    retired: Vec<(LinkId, Unsettled)>,
    /// The token of its discharge, and whether that rolls it back.
    ending: Option<(u64, bool)>,
}

/// The link to the coordinator, and the transactions that live as long as it does.
#[derive(Debug)]
pub(super) struct Control {
    link: LinkId,
    is_up: bool,
    next_token: u64,
    /// The token of a declaration without an answer.
    declaring: Option<u64>,
    txns: Vec<Txn>,
}

impl Control {
    fn new(link: LinkId) -> Self {
        Self {
            link,
            is_up: false,
            next_token: 0,
            declaring: None,
            txns: Vec::new(),
        }
    }

    /// An open transaction.
    pub(super) fn pick(&self, random: &mut Random) -> Option<Bytes> {
        let open: Vec<&Txn> = self.open().collect();
        let at = random.draw().checked_rem(open.len() as u64)?;
        Some(open[at as usize].id.clone())
    }

    /// Discharges and declarations without an answer.
    pub(super) fn unanswered(&self) -> usize {
        self.txns.len() - self.open().count() + usize::from(self.declaring.is_some())
    }

    fn open(&self) -> impl Iterator<Item = &Txn> {
        self.txns.iter().filter(|txn| txn.ending.is_none())
    }

    fn find(&mut self, id: &Bytes) -> Option<&mut Txn> {
        self.txns.iter_mut().find(|txn| txn.id == *id)
    }
}

/// The number by which the broker knows a transaction.
pub(super) fn number_of(id: &Bytes) -> u64 {
    id[..].try_into().map_or(u64::MAX, u64::from_be_bytes)
}

/// A state that takes effect with a transaction.
pub(super) fn within(id: &Bytes, outcome: DeliveryState) -> DeliveryState {
    DeliveryState::Transactional {
        txn_id: id.clone(),
        outcome: Some(Box::new(outcome)),
    }
}

impl Client {
    /// Opens a coordinator, declares a transaction, or ends one.
    pub(in crate::sim) fn transact(&mut self, scene: &mut Scene<'_>, random: &mut Random) {
        let Some(live) = self.live.as_mut().filter(|live| !live.sessions.is_empty()) else {
            return;
        };
        *scene.operations += 1;
        let Some(control) = &mut live.control else {
            let session = live.sessions[random.index(live.sessions.len())];
            self.links_made += 1;
            let name = format!("control-{}-{}", self.number, self.links_made);
            return live.open_control(session, &name);
        };
        let has_credit = control.is_up && live.machine.credit(control.link) > 0;
        let open = control.open().count();
        if !has_credit {
            return;
        }
        if control.declaring.is_none() && (open == 0 || open < OPEN_MAX && random.is_lucky(400)) {
            let token = control.next_token;
            control.declaring = Some(token);
            return live.ask(0x31, vec![Value::Null]);
        }
        let is_failed = random.is_lucky(300);
        if let Some(id) = control.pick(random) {
            live.discharge(&id, is_failed);
        }
    }
}

impl Live {
    fn open_control(&mut self, session: SessionId, name: &str) {
        let new = NewLink {
            name: Str::from(name),
            is_sender: true,
            source: Some(Source::default()),
            target: Some(TargetKind::Coordinator(Coordinator {
                capabilities: Vec::new(),
            })),
            snd_settle_mode: SndSettleMode::Unsettled,
            rcv_settle_mode: RcvSettleMode::First,
            max_message_size: None,
            properties: None,
            unsettled: None,
        };
        // A session on its way out takes no new links.
        if let Ok(link) = self.machine.attach(session, new) {
            self.control = Some(Control::new(link));
        }
    }

    fn discharge(&mut self, id: &Bytes, is_failed: bool) {
        let Some(control) = &mut self.control else {
            return;
        };
        let token = control.next_token;
        if let Some(txn) = control.find(id) {
            txn.ending = Some((token, is_failed));
            self.ask(
                0x32,
                vec![Value::Binary(id.clone()), Value::Bool(is_failed)],
            );
        }
    }

    /// Sends a message to the coordinator.
    fn ask(&mut self, code: u64, fields: Vec<Value>) {
        let Some(control) = &mut self.control else {
            return;
        };
        let token = control.next_token;
        control.next_token += 1;
        let asked = Described {
            descriptor: Value::Ulong(code),
            value: Value::List(fields),
        };
        let mut payload = BytesMut::new();
        payload.put_slice(&[0x00, 0x53, 0x77]);
        Value::Described(Box::new(asked)).encode(&mut payload);
        let out = OutgoingDelivery {
            tag: DeliveryTag::new(&token.to_be_bytes()).unwrap_or_default(),
            token,
            settled: false,
            message_format: 0,
            head: &[],
            payload: &payload.freeze(),
            batchable: false,
        };
        // Fails only when the link is on its way out; then nothing is answered any more.
        let _ = self.machine.send(control.link, out);
    }

    pub(super) fn is_control(&self, link: LinkId) -> bool {
        let control = self.control.as_ref();
        control.is_some_and(|control| control.link == link)
    }

    pub(super) fn on_control_accepted(&mut self) {
        if let Some(control) = &mut self.control {
            control.is_up = true;
        }
    }

    /// A message under a transaction has a place.
    pub(super) fn note_posted(&mut self, id: &Bytes, process: &str, queue: &str, number: u64) {
        let txn = self.control.as_mut().and_then(|control| control.find(id));
        if let Some(txn) = txn {
            txn.posted.push(Posted {
                process: process.to_owned(),
                queue: queue.to_owned(),
                number,
            });
        }
    }

    /// Whether there is a transaction of this id, so that the fate of its messages will be heard.
    pub(super) fn has_txn(&self, id: &Bytes) -> bool {
        let mut txns = self.control.iter().flat_map(|control| &control.txns);
        txns.any(|txn| txn.id == *id)
    }

    /// A delivery got an outcome under a transaction.
    pub(super) fn note_retired(&mut self, id: &Bytes, link: LinkId, unsettled: Unsettled) {
        let txn = self.control.as_mut().and_then(|control| control.find(id));
        if let Some(txn) = txn {
            txn.retired.push((link, unsettled));
        }
    }

    /// The coordinator answered.
    pub(super) fn on_control_outcome(
        &mut self,
        scene: &mut Scene<'_>,
        token: u64,
        state: Option<DeliveryState>,
    ) {
        let Some(control) = &mut self.control else {
            return;
        };
        if control.declaring == Some(token) {
            control.declaring = None;
            match state {
                Some(DeliveryState::Declared { txn_id }) => control.txns.push(Txn {
                    id: txn_id,
                    posted: Vec::new(),
                    retired: Vec::new(),
                    ending: None,
                }),
                other => scene
                    .broken
                    .push(format!("a declaration ends as {other:?}")),
            }
            return;
        }
        let is_it = |txn: &Txn| txn.ending.is_some_and(|(ending, _)| ending == token);
        let Some(at) = control.txns.iter().position(is_it) else {
            return scene.broken.push(format!(
                "the coordinator answers {token}, which is answered"
            ));
        };
        let txn = control.txns.remove(at);
        let is_asked = txn.ending.is_some_and(|(_, is_failed)| is_failed);
        let refusal = match state {
            Some(DeliveryState::Accepted) if is_asked => Some("rolled back".to_owned()),
            Some(DeliveryState::Accepted) => None,
            Some(DeliveryState::Rejected(Some(error))) if !is_asked => {
                let why = error.condition.as_str().to_owned();
                check_condition(scene, Some(*error), FAULTS, "transaction");
                Some(why)
            }
            other => {
                return scene.broken.push(format!("a discharge ends as {other:?}"));
            }
        };
        for posted in &txn.posted {
            let (p, q, number) = (&posted.process, &posted.queue, posted.number);
            scene
                .recorder
                .sent(scene.now, p, q, number, refusal.as_deref());
        }
        if refusal.is_some() {
            self.take_back(txn);
        } else {
            // The settlements of the broker follow.
            let retired = txn.retired.into_iter();
            self.finished
                .extend(retired.map(|(link, unsettled)| (link, unsettled.id)));
        }
    }

    /// A transaction is rolled back: what it had not forgotten, the client has as before.
    fn take_back(&mut self, txn: Txn) {
        for (id, unsettled) in txn.retired {
            if let Some(Kind::Receiver(receiver)) = self.link(id).map(|link| &mut link.kind) {
                receiver.held.push(unsettled);
            }
        }
    }

    /// The link to the coordinator is gone. What was not discharged is rolled back; what was being discharged may be done
    /// or not.
    pub(super) fn on_control_closed(&mut self, scene: &mut Scene<'_>, error: Option<AmqpError>) {
        check_condition(scene, error, &[], "coordinator");
        let Some(control) = self.control.take() else {
            return;
        };
        for txn in control.txns {
            for posted in &txn.posted {
                scene
                    .recorder
                    .unknown(scene.now, &posted.process, posted.number);
            }
            let retired = txn.retired.iter();
            self.finished
                .extend(retired.map(|(link, unsettled)| (*link, unsettled.id)));
            self.take_back(txn);
        }
    }

    /// Whether the broker may settle a delivery by itself: its transaction took effect. Takes it from what the client
    /// holds, where the client believed that it did not.
    pub(super) fn is_finished(&mut self, link: LinkId, id: super::IncomingId) -> bool {
        let is_lost = |token: u64| {
            let link = self.links.iter().find(|found| found.id == link);
            link.is_some_and(|link| link.has_lost(token))
        };
        for txn in self
            .control
            .iter_mut()
            .flat_map(|control| &mut control.txns)
        {
            let is_it = |(at, unsettled): &(LinkId, Unsettled)| (*at, unsettled.id) == (link, id);
            let Some(at) = txn.retired.iter().position(is_it) else {
                continue;
            };
            // It may come before the answer to the discharge: they are of different sessions.
            let is_ending = txn.ending.is_some_and(|(_, is_failed)| !is_failed);
            if is_ending || is_lost(txn.retired[at].1.token) {
                txn.retired.swap_remove(at);
                return true;
            }
        }
        let Some(at) = self.finished.iter().position(|found| *found == (link, id)) else {
            return false;
        };
        self.finished.swap_remove(at);
        if let Some(Kind::Receiver(receiver)) = self.link(link).map(|link| &mut link.kind) {
            receiver.held.retain(|held| held.id != id);
        }
        true
    }
}
