//! What a client hears.

use qq_proto_amqp::connection::{Event, IncomingId, LinkId, SessionId};
use qq_proto_amqp::performative::{AmqpError, Attach, DeliveryState};

use super::{Client, Kind, Link, Live, Mode, Scene, Unsettled};
use crate::history::Outcome;
use crate::sim::letter;
use crate::sim::recorder::VOID;

/// Conditions with which the broker may end a link: the queue is gone or not there, somebody else has it, it cannot be
/// read, or its transaction went with the session of the coordinator.
const LINK_CONDITIONS: &[&str] = &[
    "amqp:resource-deleted",
    "amqp:link:stolen",
    "amqp:not-found",
    "amqp:resource-locked",
    "amqp:internal-error",
    "amqp:transaction:unknown-id",
];
/// Conditions with which a connection may end: silence, shutdown, a broken store.
const CONNECTION_CONDITIONS: &[&str] = &[
    "amqp:connection:forced",
    "amqp:internal-error",
    "amqp:resource-limit-exceeded",
];

impl Client {
    pub(super) fn drain_events(&mut self, scene: &mut Scene<'_>) {
        while let Some(event) = self
            .live
            .as_mut()
            .and_then(|live| live.machine.poll_event())
        {
            self.on_event(scene, event);
        }
    }

    fn on_event(&mut self, scene: &mut Scene<'_>, event: Event) {
        let Some(live) = &mut self.live else {
            return;
        };
        match event {
            Event::Opened => {
                live.is_open = true;
                // Fails only when the connection is on its way out.
                let _ = live.machine.begin();
            }
            Event::SessionBegun(session) => live.sessions.push(session),
            Event::SessionEnded { session, error } => on_session_ended(live, scene, session, error),
            Event::LinkAccepted { link, .. } if live.is_control(link) => live.on_control_accepted(),
            Event::LinkAccepted { link, attach } => {
                if let Some(link) = live.link(link) {
                    on_accepted(link, &attach);
                }
            }
            Event::Flow {
                link,
                credit,
                drain,
                ..
            } => {
                if let Some(link) = live.link(link).filter(|_| drain && credit == 0) {
                    on_used_up(link);
                }
            }
            Event::Delivery {
                link,
                delivery,
                tag,
                settled,
                payload,
                ..
            } => {
                if let Some(link) = live.link(link) {
                    let token = tag.as_slice().try_into().map_or(VOID, u64::from_be_bytes);
                    on_delivery(link, scene, (delivery, token), settled, &payload);
                }
            }
            Event::Outcome {
                link,
                token,
                state,
                settled,
            } => {
                live.finish(link, token, settled);
                live.on_outcome(scene, link, token, state);
            }
            Event::IncomingSettled { link, delivery } => {
                if live.is_finished(link, delivery) {
                    return;
                }
                if let Some(link) = live.link(link) {
                    on_settled(link, scene, delivery);
                }
            }
            Event::LinkClosed { link, error, .. } if live.is_control(link) => {
                live.on_control_closed(scene, error);
            }
            Event::LinkClosed { link, error, .. } => live.on_link_closed(scene, link, error),
            Event::Closed { error } => {
                check_condition(scene, error, CONNECTION_CONDITIONS, "connection")
            }
            // What is left concerns servers and logins.
            _ => {}
        }
    }
}

impl Live {
    /// The last step of the second mode, if there is one.
    fn finish(&mut self, link: LinkId, token: u64, is_settled: bool) {
        if !is_settled {
            // Fails only when the link is on its way out.
            let _ = self.machine.settle_outgoing(link, token, None);
        }
    }

    pub(super) fn link(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.iter_mut().find(|link| link.id == id)
    }

    /// An answer to a message.
    fn on_outcome(
        &mut self,
        scene: &mut Scene<'_>,
        id: LinkId,
        token: u64,
        state: Option<DeliveryState>,
    ) {
        if self.is_control(id) {
            return self.on_control_outcome(scene, token, state);
        }
        let Some(link) = self.link(id) else {
            return;
        };
        let (process, queue) = (link.process.clone(), link.queue.clone());
        let Kind::Sender(sender) = &mut link.kind else {
            return;
        };
        let Some((number, txn)) = sender.unanswered.remove(&token) else {
            let text = format!("{process}: an answer to what is answered");
            return scene.broken.push(text);
        };
        let state = match (state, &txn) {
            (Some(DeliveryState::Transactional { txn_id, outcome }), Some(id)) if txn_id == *id => {
                outcome.map(|outcome| *outcome)
            }
            (Some(DeliveryState::Accepted | DeliveryState::Transactional { .. }), Some(_)) => {
                let text = format!("{process}: message {number} ended outside of its transaction");
                return scene.broken.push(text);
            }
            (state, _) => state,
        };
        let refusal = match &state {
            Some(DeliveryState::Accepted) => None,
            Some(DeliveryState::Rejected(Some(error))) => Some(error.condition.as_str()),
            Some(DeliveryState::Released) => Some("released"),
            other => {
                let text = format!("{process}: message {number} ended as {other:?}");
                return scene.broken.push(text);
            }
        };
        match txn {
            Some(id) if refusal.is_none() && self.has_txn(&id) => {
                self.note_posted(&id, &process, &queue, number);
            }
            // Its transaction went with the coordinator's link.
            Some(_) if refusal.is_none() => scene.recorder.unknown(scene.now, &process, number),
            _ => {
                let recorder = &mut scene.recorder;
                recorder.sent(scene.now, &process, &queue, number, refusal);
            }
        }
    }

    fn on_link_closed(&mut self, scene: &mut Scene<'_>, id: LinkId, error: Option<AmqpError>) {
        let Some(at) = self.links.iter().position(|link| link.id == id) else {
            return;
        };
        let link = self.links.remove(at);
        check_condition(scene, error, LINK_CONDITIONS, &link.queue);
        match link.kind {
            Kind::Sender(sender) => {
                for (number, _) in sender.unanswered.values() {
                    scene.recorder.unknown(scene.now, &link.process, *number);
                }
            }
            Kind::Receiver(_) => scene.recorder.gone(scene.now, &link.process),
        }
    }
}

/// The broker says that no credit is left.
fn on_used_up(link: &mut Link) {
    if let Kind::Receiver(receiver) = &mut link.kind
        && receiver.is_draining
    {
        receiver.is_draining = false;
        if !receiver.is_murky {
            receiver.limit = receiver.received;
        }
    }
}

fn on_accepted(link: &mut Link, attach: &Attach) {
    // A null terminus announces a refusal.
    link.is_up = match link.kind {
        Kind::Sender(_) => attach.target.is_some(),
        Kind::Receiver(_) => attach.source.is_some(),
    };
}

fn on_session_ended(
    live: &mut Live,
    scene: &mut Scene<'_>,
    session: SessionId,
    error: Option<AmqpError>,
) {
    live.sessions.retain(|known| *known != session);
    check_condition(scene, error, &[], "session");
    if live.sessions.is_empty() {
        // Fails only when the connection is on its way out.
        let _ = live.machine.begin();
    }
}

pub(super) fn check_condition(
    scene: &mut Scene<'_>,
    error: Option<AmqpError>,
    allowed: &[&str],
    what: &str,
) {
    if let Some(error) = error
        && !allowed.contains(&error.condition.as_str())
    {
        let text = error.description.as_ref().map_or("", |text| text.as_str());
        let condition = error.condition.as_str();
        scene
            .broken
            .push(format!("{what} ended with {condition}: {text}"));
    }
}

fn on_delivery(
    link: &mut Link,
    scene: &mut Scene<'_>,
    (id, token): (IncomingId, u64),
    is_settled: bool,
    payload: &bytes::Bytes,
) {
    let Kind::Receiver(receiver) = &mut link.kind else {
        return;
    };
    *scene.operations += 1;
    receiver.received += 1;
    if receiver.received > receiver.limit {
        let text = format!(
            "{} has delivery {} and allowed {}",
            link.process, receiver.received, receiver.limit
        );
        scene.broken.push(text);
    }
    let Some(arrived) = letter::read(payload) else {
        let text = format!("{} received what is no message of ours", link.process);
        return scene.broken.push(text);
    };
    // One that the broker took back while it was under way is settled with its last frame.
    let is_lost = receiver.lost.contains(&token);
    if is_settled != (receiver.mode == Mode::Settled) && !is_lost {
        let text = format!(
            "{} received a delivery with settled = {is_settled}",
            link.process
        );
        scene.broken.push(text);
    }
    if receiver.mode == Mode::Browse {
        // What is only looked at has no owner, and no place in the history.
        let d = VOID;
        receiver.held.push(Unsettled { id, d, token });
        return;
    }
    if is_lost && is_settled {
        return;
    }
    if is_lost {
        let d = VOID;
        return receiver.held.push(Unsettled { id, d, token });
    }
    let d = scene
        .recorder
        .receive(scene.now, &link.process, &link.queue, &arrived);
    if is_settled {
        scene.recorder.settle(scene.now, d, Outcome::Accepted);
    } else {
        receiver.held.push(Unsettled { id, d, token });
        receiver.numbers.insert(token, d);
    }
}

fn on_settled(link: &mut Link, scene: &mut Scene<'_>, id: IncomingId) {
    let Kind::Receiver(receiver) = &mut link.kind else {
        return;
    };
    if let Some(at) = receiver.stated.iter().position(|stated| stated.id == id) {
        let stated = receiver.stated.swap_remove(at);
        scene.recorder.settled(scene.now, stated.d);
    } else if let Some(at) = receiver.held.iter().position(|held| held.id == id)
        && receiver.lost.contains(&receiver.held[at].token)
    {
        receiver.held.swap_remove(at);
    } else {
        let text = format!("{}: the broker settled what was not ended", link.process);
        scene.broken.push(text);
    }
}
