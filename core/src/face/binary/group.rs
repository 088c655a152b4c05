//! Members of consumer groups: HEARTBEAT, and what becomes of those that are silent.

use std::time::Duration;

use qq_proto_binary::connection::ReplyTo;
use qq_proto_binary::error::{ErrorCode, text};
use qq_proto_binary::message::{ConsumerClosed, HeartbeatRequest};
use qq_proto_binary::reply::Reply;

use super::BinaryFace;
use super::ports::PortState;
use crate::broker::Now;
use crate::vocab::{Command, Port};

impl BinaryFace {
    pub(super) fn on_heartbeat(&mut self, reply_to: ReplyTo, heartbeat: HeartbeatRequest) {
        let whose = (heartbeat.queue, heartbeat.group);
        match !whose.1.is_empty() && self.consumers.contains_key(&whose) {
            true => self.reply(reply_to, &Reply::Heard),
            false => self.refuse(reply_to, ErrorCode::NotFound, text::MEMBER_NOT_FOUND),
        }
    }

    /// When the memberships of this connection end, if it stays silent.
    pub(super) fn members_due_at(&self) -> Option<Duration> {
        let has_members = self.consumers.keys().any(|(_, group)| !group.is_empty());
        let timeout = Duration::from_millis(self.config.member_timeout_ms);
        has_members.then(|| self.heard_at.saturating_add(timeout))
    }

    /// Ends the memberships of a peer that was silent for too long: what it holds goes to other members.
    pub(super) fn end_silent_members(&mut self, now: Now) {
        if self.members_due_at().is_none_or(|due| due > now.mono) {
            return;
        }
        let members: Vec<Port> = (self.consumers.iter())
            .filter(|((_, group), _)| !group.is_empty())
            .map(|(_, port)| *port)
            .collect();
        self.consumers.retain(|(_, group), _| group.is_empty());
        for port in members {
            let Some(PortState::Consumer(consumer)) = self.ports.remove(port) else {
                continue;
            };
            self.held.forget(port);
            self.commands.push(Command::Close {
                port,
                forget: false,
                lost: true,
            });
            let closed = ConsumerClosed {
                queue: consumer.queue.clone(),
                group: consumer.group.clone(),
                code: ErrorCode::NotFound.number(),
                message: "this member of the group was silent for too long".to_owned(),
            };
            // Fails only when the connection is closing: nobody is left to hear it.
            let _ = self.conn.close_consumer(&closed);
            self.release_waiting(port, consumer);
        }
    }
}
