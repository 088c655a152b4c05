//! The part of a peer that knows sessions and links: credit, transfers, outcomes.

use super::Peer;
use super::peer::Link;
use crate::script::{Done, Failure};
use crate::wire::{Frame, Perf, Value, perf, sym};
use crate::{broke, ensure};

/// A whole delivery from the broker.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Delivery id.
    pub id: u32,
    /// Delivery tag.
    pub tag: Vec<u8>,
    /// True when it came settled.
    pub settled: bool,
    /// Payload of all its frames.
    pub payload: Vec<u8>,
    /// Transfers that it took.
    pub frames: usize,
    /// Message format.
    pub format: u64,
}

impl Delivery {
    /// First data section as text.
    pub fn text(&self) -> String {
        super::body_text(&self.payload)
    }

    /// header.delivery-count, 0 when absent.
    pub fn count(&self) -> u64 {
        crate::wire::message::delivery_count(&self.payload)
    }
}

impl Peer {
    pub(super) fn note_sent(&mut self, frame: &Frame) {
        match frame.name() {
            "begin" => {
                self.next_outgoing = frame.number("next-outgoing-id").unwrap_or(0) as u32;
                self.channels.retain(|c| c.0 != frame.channel);
                self.channels.push((frame.channel, None));
            }
            "attach" => {
                let name = frame.field("name").words().unwrap_or_default().to_string();
                let handle = frame.number("handle").unwrap_or(0) as u32;
                let is_receiver = frame.flag("role");
                let initial = frame.number("initial-delivery-count").unwrap_or(0) as u32;
                let channel = frame.channel;
                self.links
                    .retain(|l| !(l.channel == channel && l.handle == handle));
                self.links.push(Link {
                    channel,
                    name,
                    handle,
                    is_receiver,
                    remote_handle: None,
                    count: initial,
                    limit: initial,
                });
            }
            "transfer" => {
                self.next_outgoing = self.next_outgoing.wrapping_add(1);
                let handle = frame.number("handle").unwrap_or(0) as u32;
                let is_last = !frame.flag("more") || frame.flag("aborted");
                let link = self.links.iter_mut().find(|l| l.handle == handle);
                if let Some(link) = link.filter(|_| is_last) {
                    link.count = link.count.wrapping_add(1);
                }
            }
            _ => {}
        }
    }

    pub(super) fn note_received(&mut self, frame: &Frame) {
        match frame.name() {
            "begin" => {
                self.next_incoming = frame.number("next-outgoing-id").unwrap_or(0) as u32;
                self.has_begun = true;
                let ours = frame.number("remote-channel").unwrap_or(0) as u16;
                if let Some(entry) = self.channels.iter_mut().find(|c| c.0 == ours) {
                    entry.1 = Some(frame.channel);
                }
            }
            "attach" => {
                let initial = frame.number("initial-delivery-count").unwrap_or(0) as u32;
                let handle = frame.number("handle").map(|h| h as u32);
                let name = frame.field("name").words().unwrap_or_default();
                let is_receiver = !frame.flag("role");
                let found = self.links.iter_mut().rev().find(|l| {
                    l.name == name && l.is_receiver == is_receiver && l.remote_handle.is_none()
                });
                if let Some(link) = found {
                    link.remote_handle = handle;
                    if is_receiver {
                        link.count = initial;
                    }
                }
            }
            "flow" => {
                let Some(handle) = frame.number("handle").map(|h| h as u32) else {
                    return;
                };
                let credit = frame.number("link-credit").unwrap_or(0) as u32;
                let count = frame.number("delivery-count").map(|c| c as u32);
                let found = self
                    .links
                    .iter_mut()
                    .find(|l| l.remote_handle == Some(handle));
                if let Some(link) = found {
                    if link.is_receiver {
                        link.count = count.unwrap_or(link.count);
                    } else {
                        link.limit = count.unwrap_or(0).wrapping_add(credit);
                    }
                }
            }
            "transfer" => {
                self.next_incoming = self.next_incoming.wrapping_add(1);
                let handle = frame.number("handle").map(|h| h as u32);
                let is_last = !frame.flag("more");
                let found = self.links.iter_mut().find(|l| l.remote_handle == handle);
                if let Some(link) = found.filter(|_| is_last) {
                    link.count = link.count.wrapping_add(1);
                }
            }
            _ => {}
        }
    }

    /// The broker's channel for ours.
    pub fn remote_channel(&self, channel: u16) -> Option<u16> {
        self.channels
            .iter()
            .find(|c| c.0 == channel)
            .and_then(|c| c.1)
    }

    /// The broker's handle for the link that has this handle of ours on channel 0.
    pub fn remote_handle(&self, handle: u32) -> Option<u32> {
        self.links
            .iter()
            .find(|l| l.handle == handle)
            .and_then(|l| l.remote_handle)
    }

    fn link(&self, handle: u32) -> &Link {
        self.links
            .iter()
            .find(|l| l.handle == handle)
            .expect("an attached link")
    }

    /// Delivery-count of the link with this handle, as this peer counts it.
    pub fn delivery_count(&self, handle: u32) -> u32 {
        self.link(handle).count
    }

    // ---- attach

    /// An attach of a sender to a queue.
    pub fn sender_attach(&self, name: &str, handle: u32, queue: &str) -> Perf {
        let target = perf("target").with("address", self.addr(queue));
        let attach = perf("attach")
            .with("name", name)
            .with("handle", handle)
            .with("role", false);
        let attach = attach.with("source", perf("source")).with("target", target);
        attach.with("initial-delivery-count", 0u32)
    }

    /// An attach of a receiver to a queue.
    pub fn receiver_attach(&self, name: &str, handle: u32, queue: &str) -> Perf {
        let source = perf("source").with("address", self.addr(queue));
        let attach = perf("attach")
            .with("name", name)
            .with("handle", handle)
            .with("role", true);
        attach.with("source", source).with("target", perf("target"))
    }

    /// Attaches and waits for the answer; a refusal fails the script.
    pub fn attach(&mut self, attach: Perf) -> Done<Frame> {
        let name = attach.field("name").words().unwrap_or_default().to_string();
        let terminus = if *attach.field("role") == Value::Bool(true) {
            "source"
        } else {
            "target"
        };
        self.send(0, attach);
        let wanted = name.clone();
        let answer = self.want_where("attach", move |f| {
            f.name() == "attach" && f.field("name").words() == Some(&wanted)
        })?;
        ensure!(
            !answer.field(terminus).is_null(),
            "link {name} was refused: {answer:?}"
        );
        Ok(answer)
    }

    /// Attaches a sender on channel 0.
    pub fn sender(&mut self, name: &str, handle: u32, queue: &str) -> Done<Frame> {
        self.attach(self.sender_attach(name, handle, queue))
    }

    /// Attaches a receiver on channel 0.
    pub fn receiver(&mut self, name: &str, handle: u32, queue: &str) -> Done<Frame> {
        self.attach(self.receiver_attach(name, handle, queue))
    }

    /// Sends an attach that the broker must refuse: an answer with a null terminus, then a
    /// closing detach with one of these conditions. The session must live on.
    pub fn attach_refused(&mut self, attach: Perf, conditions: &[&str]) -> Done<Frame> {
        let name = attach.field("name").words().unwrap_or_default().to_string();
        let is_receiver = *attach.field("role") == Value::Bool(true);
        self.send(0, attach);
        self.refused_link(&name, is_receiver, conditions)
    }

    /// The broker refuses the link with this name; see `attach_refused`.
    pub fn refused_link(
        &mut self,
        name: &str,
        is_receiver: bool,
        conditions: &[&str],
    ) -> Done<Frame> {
        let terminus = if is_receiver { "source" } else { "target" };
        let wanted = name.to_string();
        let answer = self.want_where("attach", move |f| {
            f.name() == "attach" && f.field("name").words() == Some(&wanted)
        })?;
        ensure!(
            answer.field(terminus).is_null(),
            "a refused link's attach must have no {terminus}: {answer:?}"
        );
        self.detached(answer.number("handle").unwrap_or(0) as u32, conditions)
    }

    /// The broker closes the link that has this handle on its side, with one of these conditions;
    /// this peer answers.
    pub fn detached(&mut self, remote_handle: u32, conditions: &[&str]) -> Done<Frame> {
        let detach = self.want_where("detach", |f| {
            f.name() == "detach" && f.number("handle") == Some(remote_handle.into())
        })?;
        let condition = detach.condition();
        ensure!(
            conditions.contains(&condition.as_str()),
            "detach with {condition:?}, wanted one of {conditions:?}"
        );
        ensure!(
            detach.flag("closed"),
            "an error must close the link: {detach:?}"
        );
        let ours = self
            .links
            .iter()
            .position(|l| l.remote_handle == Some(remote_handle));
        if let Some(at) = ours {
            let link = self.links.remove(at);
            let answer = perf("detach")
                .with("handle", link.handle)
                .with("closed", true);
            self.send(link.channel, answer);
        }
        Ok(detach)
    }

    /// Detaches a link and waits for the answer, which must be of the same kind.
    pub fn detach(&mut self, handle: u32, closed: bool) -> Done<Frame> {
        let remote = self.remote_handle(handle).map(u64::from);
        self.send(
            0,
            perf("detach").with("handle", handle).with("closed", closed),
        );
        let answer = self.want_where("detach", move |f| {
            f.name() == "detach" && f.number("handle") == remote
        })?;
        self.links.retain(|l| l.handle != handle);
        crate::same!(
            answer.flag("closed"),
            closed,
            "closed of the answering detach"
        );
        Ok(answer)
    }

    // ---- flow

    /// A flow with the session's fields.
    pub fn session_flow(&self) -> Perf {
        let flow = perf("flow").with("incoming-window", self.window);
        let flow = flow
            .with("next-outgoing-id", self.next_outgoing)
            .with("outgoing-window", 2048u32);
        if self.has_begun {
            flow.with("next-incoming-id", self.next_incoming)
        } else {
            flow
        }
    }

    /// A flow with the link's fields.
    pub fn link_flow(&self, handle: u32, credit: u32) -> Perf {
        let flow = self.session_flow().with("handle", handle);
        let flow = flow.with("delivery-count", self.link(handle).count);
        flow.with("link-credit", credit)
    }

    /// Grants credit.
    pub fn credit(&mut self, handle: u32, credit: u32) {
        let flow = self.link_flow(handle, credit);
        self.send(self.link(handle).channel, flow);
    }

    /// Waits until the broker has granted credit to this sender.
    pub fn credit_wait(&mut self, handle: u32) -> Done {
        while self.credit_left(handle) == 0 {
            self.want_where("credit", |f| f.name() == "flow")?;
        }
        Ok(())
    }

    /// Credit that this sender has left.
    pub fn credit_left(&self, handle: u32) -> u32 {
        let link = self.link(handle);
        let left = link.limit.wrapping_sub(link.count);
        if left > u32::MAX / 2 { 0 } else { left }
    }

    // ---- transfer

    /// A transfer that starts a delivery; the tag is the id.
    pub fn transfer(&self, handle: u32, id: u32) -> Perf {
        let tag = id.to_be_bytes().to_vec();
        let transfer = perf("transfer")
            .with("handle", handle)
            .with("delivery-id", id);
        transfer
            .with("delivery-tag", tag)
            .with("message-format", 0u32)
    }

    /// Sends one unsettled message in one frame.
    pub fn publish(&mut self, handle: u32, id: u32, payload: &[u8]) -> bool {
        let transfer = self.transfer(handle, id);
        self.send_with(self.link(handle).channel, transfer, payload)
    }

    /// The broker's disposition that covers this delivery of ours.
    pub fn disposition(&mut self, id: u32) -> Done<Frame> {
        let covers = move |f: &Frame| {
            let first = f.number("first").unwrap_or(0) as u32;
            let last = f.number("last").map_or(first, |l| l as u32);
            id.wrapping_sub(first) <= last.wrapping_sub(first)
        };
        // A disposition may cover several deliveries, so it stays for the others.
        let found = self.want_where(&format!("disposition of delivery {id}"), |f| {
            f.name() == "disposition" && f.flag("role") && covers(f)
        })?;
        if found
            .number("last")
            .is_some_and(|l| Some(l) != found.number("first"))
        {
            self.stash.push_front(found.clone());
        }
        Ok(found)
    }

    /// The outcome that the broker gave this delivery of ours; it must have settled it.
    pub fn outcome(&mut self, id: u32) -> Done<&'static str> {
        let disposition = self.disposition(id)?;
        ensure!(
            disposition.flag("settled"),
            "the outcome came unsettled: {disposition:?}"
        );
        Ok(disposition.state())
    }

    /// The next whole delivery on a receiver link, `None` when none came in time.
    pub fn delivery(&mut self, name: &str, wait_ms: u64) -> Done<Option<Delivery>> {
        let link = self
            .links
            .iter()
            .rev()
            .find(|l| l.name == name && l.is_receiver);
        let handle = link.and_then(|l| l.remote_handle).map(u64::from);
        let is_ours = move |f: &Frame| f.name() == "transfer" && f.number("handle") == handle;
        let mut whole: Option<Delivery> = None;
        loop {
            let frame = match self.stash.iter().position(is_ours) {
                Some(at) => self.stash.remove(at).expect("a frame"),
                None => match self.fetch(wait_ms)? {
                    Some(frame) if is_ours(&frame) => frame,
                    Some(frame) => {
                        let is_close = frame.name() == "close";
                        ensure!(!is_close, "waited for a delivery, got {frame:?}");
                        self.stash.push_back(frame);
                        continue;
                    }
                    None if whole.is_some() => return Err(broke!("a delivery was not finished")),
                    None => return Ok(None),
                },
            };
            let is_more = frame.flag("more");
            let aborted = frame.flag("aborted");
            join(&mut whole, frame)?;
            if aborted {
                whole = None;
            } else if !is_more {
                return Ok(whole);
            }
        }
    }

    /// The next delivery, which must come.
    pub fn must_get(&mut self, name: &str) -> Done<Delivery> {
        let got = self.delivery(name, super::peer::PATIENCE_MS)?;
        got.ok_or_else(|| broke!("no delivery came on link {name}"))
    }

    /// `count` deliveries, which must come.
    pub fn must_get_all(&mut self, name: &str, count: usize) -> Done<Vec<Delivery>> {
        (0..count).map(|_| self.must_get(name)).collect()
    }

    /// Settles one delivery from the broker with a plain outcome.
    pub fn settle(&mut self, id: u32, outcome: &str) {
        self.settle_with(id, perf(outcome).value());
    }

    /// Settles one delivery from the broker with this state.
    pub fn settle_with(&mut self, id: u32, state: Value) {
        let disposition = perf("disposition").with("role", true).with("first", id);
        self.send(
            0,
            disposition
                .with("last", id)
                .with("settled", true)
                .with("state", state),
        );
    }

    /// Waits until the broker has worked off everything sent so far on channel 0.
    pub fn sync(&mut self) -> Done {
        self.take("flow");
        let flow = self.session_flow().with("echo", true);
        self.send(0, flow);
        self.want_where("answer to a session flow with echo", |f| {
            f.name() == "flow" && f.field("handle").is_null()
        })?;
        Ok(())
    }
}

fn join(whole: &mut Option<Delivery>, frame: Frame) -> Done {
    let settled = frame.flag("settled");
    match whole {
        Some(delivery) => {
            let same_id = frame
                .number("delivery-id")
                .is_none_or(|id| id == u64::from(delivery.id));
            ensure!(same_id, "frames of two deliveries are mixed: {frame:?}");
            delivery.payload.extend(&frame.payload);
            delivery.settled |= settled;
            delivery.frames += 1;
        }
        None => {
            let id = frame.number("delivery-id");
            let Value::Binary(tag) = frame.field("delivery-tag").clone() else {
                return Err(broke!("a delivery without tag: {frame:?}"));
            };
            *whole = Some(Delivery {
                id: id.ok_or_else(|| broke!("a delivery without id: {frame:?}"))? as u32,
                tag,
                settled,
                frames: 1,
                format: frame.number("message-format").unwrap_or(0),
                payload: frame.payload,
            });
        }
    }
    Ok(())
}

/// Says that the broker lacks an optional feature.
pub fn unsupported<T>(reason: &str) -> Done<T> {
    Err(Failure::Unsupported(reason.into()))
}

/// A modified outcome.
pub fn modified(failed: bool, here: bool) -> Value {
    let state = perf("modified").with("delivery-failed", failed);
    state.with("undeliverable-here", here).value()
}

/// A rejected outcome with an error.
pub fn rejected(condition: &str) -> Value {
    let error = perf("error").with("condition", sym(condition));
    perf("rejected").with("error", error).value()
}

impl Peer {
    /// The id of the transfer that this peer expects next.
    pub fn next_incoming_id(&self) -> u32 {
        self.next_incoming
    }

    /// For `ms` no frame of this name comes beyond the `known` ones in the stash.
    pub fn quiet_more(&mut self, name: &str, known: usize, ms: u64) -> Done {
        self.pump_for(ms)?;
        crate::same!(self.count(name), known, "{name} frames");
        Ok(())
    }
}
