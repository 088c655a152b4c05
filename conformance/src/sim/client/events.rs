//! What a client hears.

use qq_proto_amqp::connection::{Event, IncomingId, LinkId, SessionId};
use qq_proto_amqp::performative::{AmqpError, Attach, DeliveryState};

use super::{Client, Kind, Link, Live, Mode, Scene, Unsettled};
use crate::history::Outcome;
use crate::sim::letter;
use crate::sim::recorder::VOID;

/// Conditions with which the broker may end a link: the queue is gone or not there, somebody else has it, or it cannot
/// be read.
const LINK_CONDITIONS: &[&str] = &[
    "amqp:resource-deleted",
    "amqp:link:stolen",
    "amqp:not-found",
    "amqp:resource-locked",
    "amqp:internal-error",
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
                if let Some(Kind::Receiver(receiver)) = live.link(link).map(|link| &mut link.kind)
                    && receiver.is_draining
                    && drain
                    && credit == 0
                {
                    receiver.is_draining = false;
                    if !receiver.is_murky {
                        receiver.limit = receiver.received;
                    }
                }
            }
            Event::Delivery {
                link,
                delivery,
                settled,
                payload,
                ..
            } => {
                if let Some(link) = live.link(link) {
                    on_delivery(link, scene, delivery, settled, &payload);
                }
            }
            Event::Outcome {
                link,
                token,
                state,
                settled,
            } => {
                live.finish(link, token, settled);
                if let Some(link) = live.link(link) {
                    on_outcome(link, scene, token, state.as_ref());
                }
            }
            Event::IncomingSettled { link, delivery } => {
                if let Some(link) = live.link(link) {
                    on_settled(link, scene, delivery);
                }
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

    fn on_link_closed(&mut self, scene: &mut Scene<'_>, id: LinkId, error: Option<AmqpError>) {
        let Some(at) = self.links.iter().position(|link| link.id == id) else {
            return;
        };
        let link = self.links.remove(at);
        check_condition(scene, error, LINK_CONDITIONS, &link.queue);
        match link.kind {
            Kind::Sender(sender) => {
                for number in sender.unanswered.values() {
                    scene.recorder.unknown(scene.now, &link.process, *number);
                }
            }
            Kind::Receiver(_) => scene.recorder.gone(scene.now, &link.process),
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

fn check_condition(scene: &mut Scene<'_>, error: Option<AmqpError>, allowed: &[&str], what: &str) {
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
    id: IncomingId,
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
    if is_settled != (receiver.mode == Mode::Settled) {
        let text = format!(
            "{} received a delivery with settled = {is_settled}",
            link.process
        );
        scene.broken.push(text);
    }
    if receiver.mode == Mode::Browse {
        // What is only looked at has no owner, and no place in the history.
        receiver.held.push(Unsettled { id, d: VOID });
        return;
    }
    let d = scene
        .recorder
        .receive(scene.now, &link.process, &link.queue, &arrived);
    if is_settled {
        scene.recorder.settle(scene.now, d, Outcome::Accepted);
    } else {
        receiver.held.push(Unsettled { id, d });
    }
}

fn on_outcome(link: &mut Link, scene: &mut Scene<'_>, token: u64, state: Option<&DeliveryState>) {
    let Kind::Sender(sender) = &mut link.kind else {
        return;
    };
    let Some(number) = sender.unanswered.remove(&token) else {
        let text = format!("{}: an answer to what is answered", link.process);
        return scene.broken.push(text);
    };
    let refusal = match state {
        Some(DeliveryState::Accepted) => None,
        Some(DeliveryState::Rejected(Some(error))) => Some(error.condition.as_str()),
        Some(DeliveryState::Released) => Some("released"),
        other => {
            let text = format!("{}: message {number} ended as {other:?}", link.process);
            return scene.broken.push(text);
        }
    };
    scene
        .recorder
        .sent(scene.now, &link.process, &link.queue, number, refusal);
}

fn on_settled(link: &mut Link, scene: &mut Scene<'_>, id: IncomingId) {
    let Kind::Receiver(receiver) = &mut link.kind else {
        return;
    };
    if let Some(at) = receiver.stated.iter().position(|stated| stated.id == id) {
        let stated = receiver.stated.swap_remove(at);
        scene.recorder.settled(scene.now, stated.d);
    } else {
        let text = format!("{}: the broker settled what was not ended", link.process);
        scene.broken.push(text);
    }
}
