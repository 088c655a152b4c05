//! Executes the management vocabulary.
//!
//! Who asks is the driver (for HTTP) or a connection (for `$management`); both get the same answers, and what changed
//! something is answered when it is safe. A list is handed out in pages, and whatever touches many messages is a job
//! that goes on in slices with every turn of the broker.

mod conns;
mod import;
mod jobs;
mod lists;
mod messages;
mod permit;
mod topology;
mod why;

pub(super) use conns::Asked;
pub(super) use jobs::Jobs;

use super::{Broker, Now, missing};
use crate::admin::{Reply, Request};
use crate::schema::Candidate;
use crate::vocab::{Answer, AskId, ConnId, Notice, Refusal};

/// Who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The driver, under its number.
    Driver(u64),
    /// A connection by slot and id, under its number.
    Conn(usize, ConnId, u64),
    /// A connection by slot and id, with an `Ask` under its number.
    Ask(usize, ConnId, AskId),
}

impl Asker {
    /// The connection that asks.
    fn conn(self) -> Option<ConnId> {
        match self {
            Self::Driver(_) => None,
            Self::Conn(_, id, _) | Self::Ask(_, id, _) => Some(id),
        }
    }
}

/// What executing a request came to.
enum Done {
    /// Nothing changed.
    Read(Reply),
    /// Something did.
    Changed(Reply),
    /// The answer comes later.
    Later,
}

impl Broker {
    /// Executes a request.
    pub(super) fn manage(&mut self, now: Now, asker: Asker, request: Request) {
        match self.execute(now, asker, request) {
            Ok(Done::Read(reply)) => self.answer(asker, reply, false),
            Ok(Done::Changed(reply)) => self.answer(asker, reply, true),
            Ok(Done::Later) => {}
            Err(refusal) => self.answer(asker, Reply::Refused(refusal), false),
        }
    }

    fn execute(&mut self, now: Now, asker: Asker, request: Request) -> Result<Done, Refusal> {
        permit::check(asker, &request)?;
        let read = |reply| Ok(Done::Read(reply));
        match request {
            Request::Stats => read(Reply::Stats(Box::new(self.node_stats()))),
            Request::Queues { from } => read(Reply::Queues(self.queue_page(from))),
            Request::Queue { name } => {
                let slot = self.slot_of(&name)?;
                read(Reply::Queue(Box::new(self.queue_detail(slot))))
            }
            Request::DeclareQueue { spec } => self.manage_declare(asker, *spec),
            Request::DeleteQueue {
                name,
                if_unused,
                if_empty,
            } => self.manage_delete(now, asker, &name, if_unused, if_empty),
            Request::Purge { name } => self.manage_purge(now, asker, &name),
            Request::Exchanges { from } => read(Reply::Exchanges(self.exchange_page(from))),
            Request::Exchange { name } => read(Reply::Exchange(
                self.exchange_row(&name)
                    .ok_or_else(|| missing("exchange", &name))?,
            )),
            Request::DeclareExchange { spec } => self.manage_declare_exchange(spec),
            Request::DeleteExchange { name, if_unused } => {
                self.manage_delete_exchange(now, &name, if_unused)
            }
            Request::Bindings { from, filter } => {
                read(Reply::Bindings(self.binding_page(from, &filter)))
            }
            Request::Bind { spec } => {
                let is_new = self.bind(spec, asker.conn())?;
                Ok(Done::Changed(Reply::Bound { is_new }))
            }
            Request::Unbind { spec } => {
                self.unbind(now, &spec, asker.conn())?;
                Ok(Done::Changed(Reply::Done))
            }
            Request::Peek {
                queue,
                from,
                limit,
                with_held,
            } => self.manage_peek(now, asker, &queue, from, limit, with_held),
            Request::Message { queue, position } => {
                self.manage_message(now, asker, &queue, position)
            }
            Request::Publish { to, message } => self.manage_publish(now, to, message),
            Request::Move {
                queue,
                to,
                only_from,
                limit,
            } => self.manage_move(now, asker, &queue, to.as_deref(), only_from, limit),
            Request::Connections { from } => read(Reply::Connections(self.conn_page(from))),
            Request::Connection { conn } => self.manage_connection(now, asker, conn),
            Request::CloseConnection { conn, text } => self.manage_close(conn, text),
            Request::Links { from, conn, node } => {
                read(Reply::Links(self.link_page(from, conn, node.as_deref())))
            }
            Request::Link { conn, port } => self.manage_link(now, asker, conn, port),
            Request::CloseLink { conn, port } => self.manage_close_link(now, conn, port),
            Request::Schemas => read(Reply::Schemas(self.schemas.newest().cloned().collect())),
            Request::Schema { subject, version } => self.schema_row(&subject, version),
            Request::SchemaVersions { subject } => self.schema_history(&subject),
            Request::RegisterSchema { candidate } => self.manage_register(now, *candidate),
            Request::DeleteSchema { subject } => self.manage_forget(&subject),
            Request::Import { definitions } => self.manage_import(now, &definitions),
        }
    }

    fn schema_row(&self, subject: &str, version: u32) -> Result<Done, Refusal> {
        let found = self.schemas.version(subject, version).cloned();
        let found = found.ok_or_else(|| missing("schema", subject))?;
        Ok(Done::Read(Reply::Schema(found)))
    }

    fn schema_history(&self, subject: &str) -> Result<Done, Refusal> {
        self.known_schema(subject)?;
        let all = self.schemas.history(subject).to_vec();
        Ok(Done::Read(Reply::Schemas(all)))
    }

    fn manage_register(&mut self, now: Now, candidate: Candidate) -> Result<Done, Refusal> {
        Ok(match self.register_schema(now, candidate) {
            Ok(record) => Done::Changed(Reply::Schema(record)),
            Err(refused) => Done::Read(Reply::SchemaRefused(Box::new(refused))),
        })
    }

    fn manage_forget(&mut self, subject: &str) -> Result<Done, Refusal> {
        self.known_schema(subject)?;
        let versions = self.delete_schema(subject);
        Ok(Done::Changed(Reply::SchemaDeleted(versions)))
    }

    fn known_schema(&self, subject: &str) -> Result<(), Refusal> {
        match self.schemas.history(subject) {
            [] => Err(missing("schema", subject)),
            _ => Ok(()),
        }
    }

    /// Tells the answer; when something changed, not before that is safe.
    pub(super) fn answer(&mut self, asker: Asker, reply: Reply, is_change: bool) {
        let (slot, id, notice) = match asker {
            Asker::Driver(ticket) if is_change => {
                return self.gate.reply_when_safe(ticket, reply);
            }
            Asker::Driver(ticket) => return self.gate.reply(ticket, reply),
            Asker::Conn(slot, id, ticket) => {
                let reply = Box::new(reply);
                (slot, id, Notice::Managed { ticket, reply })
            }
            Asker::Ask(slot, conn, id) => {
                let answer = Box::new(match reply {
                    Reply::Purged { messages } => Answer::Purged { messages },
                    Reply::Refused(refusal) => Answer::Refused(refusal),
                    other => unreachable!("a purge is not answered with {other:?}"),
                });
                (slot, conn, Notice::Answered { id, answer })
            }
        };
        if !self.conns.is_at(slot, id) {
            return;
        }
        if is_change {
            self.gate.tell_when_safe(slot, &mut self.conns, notice);
        } else {
            self.conns.tell(slot, notice);
        }
    }

    /// As [`Broker::slot_of`], for what changes its messages: a connection may not touch another's own queue, an operator
    /// may touch everything.
    fn slot_to_change(&self, asker: Asker, name: &str) -> Result<usize, Refusal> {
        let slot = self.slot_of(name)?;
        match asker.conn() {
            Some(conn) => self.check_owner(slot, Some(conn)).map(|()| slot),
            None => Ok(slot),
        }
    }
}
