//! Questions about whole queues: declare, find, delete, purge, list.
//!
//! What changes something is answered when the change is safe, as every other confirmation.

use super::admin::Asker;
use super::{Broker, Now, QueueSpec, quoted};
use crate::admin::Request;
use crate::vocab::{Answer, Ask, AskId, Notice, QueueNumbers, Reason, Refusal};

impl Broker {
    /// Executes `Ask`.
    pub(super) fn ask(&mut self, now: Now, conn: usize, id: AskId, ask: Ask) {
        let answered = match ask {
            Ask::Declare { spec } => self.ask_declare(conn, spec),
            Ask::Find { name } => self
                .find_queue(conn, &name)
                .map(|slot| self.declared(slot, false)),
            Ask::Delete {
                name,
                if_unused,
                if_empty,
            } => self.ask_delete(now, conn, &name, if_unused, if_empty),
            Ask::Purge { name } => {
                // The answer comes when all of it is done.
                let asker = Asker::Ask(conn, self.conns.conn(conn).id, id);
                return self.manage(now, asker, Request::Purge { name });
            }
            Ask::StoreOffset {
                name,
                reader,
                next,
                is_own,
            } => self.ask_store_offset(conn, &name, reader, next, is_own),
            Ask::List => Ok(Answer::Listed(self.all_numbers())),
            Ask::Numbers { name } => self
                .find_queue(conn, &name)
                .map(|slot| Answer::Numbers(self.numbers(slot))),
            Ask::SchemaRegister { candidate } => Ok(match self.register_schema(now, candidate) {
                Ok(record) => Answer::SchemaRegistered(record),
                Err(refused) => Answer::SchemaRefused(refused),
            }),
            Ask::SchemaFind { subject, version } => Ok(Answer::Schema(
                self.schemas.version(&subject, version).cloned(),
            )),
            Ask::SchemaList => Ok(Answer::Schemas(self.schemas.list().collect())),
        };
        let answer = answered.unwrap_or_else(Answer::Refused);
        let is_change = matches!(
            answer,
            Answer::Declared { is_new: true, .. }
                | Answer::Deleted { .. }
                | Answer::SchemaRegistered(_)
                | Answer::OffsetStored { .. }
        );
        let notice = Notice::Answered {
            id,
            answer: Box::new(answer),
        };
        if is_change {
            self.gate.tell_when_safe(conn, &mut self.conns, notice);
        } else {
            self.conns.tell(conn, notice);
        }
    }

    fn ask_declare(&mut self, conn: usize, spec: QueueSpec) -> Result<Answer, Refusal> {
        let known = self.queue_names.get(spec.name.as_str()).copied();
        if let Some(slot) = known {
            self.find_queue(conn, &spec.name)?;
            let exists = &self.queues[slot].spec;
            if let Some(field) = exists.difference(&spec) {
                let text = format!(
                    "the queue {} exists with another {field}",
                    quoted(&spec.name)
                );
                return Ok(Answer::Conflict(Refusal {
                    reason: Reason::Invalid,
                    text,
                }));
            }
            return Ok(self.declared(slot, false));
        }
        let name = spec.name.clone();
        let owner = self.conns.conn(conn).id;
        self.declare_queue(spec, Some(owner))?;
        let slot = self.find_queue(conn, &name)?;
        Ok(self.declared(slot, true))
    }

    fn ask_delete(
        &mut self,
        now: Now,
        conn: usize,
        name: &str,
        if_unused: bool,
        if_empty: bool,
    ) -> Result<Answer, Refusal> {
        let slot = self.find_queue(conn, name)?;
        if let Some(refusal) = self.obstacle_to_delete(slot, if_unused, if_empty) {
            return Ok(Answer::InUse(refusal));
        }
        let messages = self.delete_queue(now, name)?;
        Ok(Answer::Deleted {
            messages: messages as u64,
        })
    }

    /// Why a queue is not to be deleted under these conditions.
    pub(super) fn obstacle_to_delete(
        &self,
        slot: usize,
        if_unused: bool,
        if_empty: bool,
    ) -> Option<Refusal> {
        let queue = &self.queues[slot];
        let obstacle = if if_unused && !queue.consumers.is_empty() {
            "has consumers"
        } else if if_empty && queue.backlog.len() > 0 {
            "has messages"
        } else {
            return None;
        };
        Some(Refusal {
            reason: Reason::Locked,
            text: format!("the queue {} {obstacle}", quoted(&queue.spec.name)),
        })
    }

    fn ask_store_offset(
        &mut self,
        conn: usize,
        name: &str,
        reader: String,
        next: u64,
        is_own: bool,
    ) -> Result<Answer, Refusal> {
        let is_there = self.queue_names.contains_key(name);
        if !is_there {
            return Ok(Answer::NoStream);
        }
        let slot = self.find_queue(conn, name)?;
        if !self.queues[slot].is_stream() {
            return Ok(Answer::NoStream);
        }
        self.check_reader(slot, &reader)?;
        if is_own {
            self.store_own_offset(conn, slot, reader, next);
        } else {
            self.store_offset(slot, reader, next);
        }
        Ok(Answer::OffsetStored { next })
    }

    /// A queue that this connection may use.
    fn find_queue(&self, conn: usize, name: &str) -> Result<usize, Refusal> {
        let slot = self.slot_of(name)?;
        self.check_owner(slot, Some(self.conns.conn(conn).id))?;
        Ok(slot)
    }

    fn declared(&self, slot: usize, is_new: bool) -> Answer {
        Answer::Declared {
            is_new,
            numbers: self.numbers(slot),
        }
    }

    fn numbers(&self, slot: usize) -> QueueNumbers {
        let queue = &self.queues[slot];
        let waiting = queue.backlog.waiting();
        QueueNumbers {
            name: queue.spec.name.clone(),
            is_stream: queue.is_stream(),
            waiting: waiting as u64,
            held: (queue.backlog.len() - waiting) as u64,
            consumers: u32::try_from(queue.consumers.len()).unwrap_or(u32::MAX),
            bytes: queue.backlog.waiting_bytes() as u64,
            next_position: queue.backlog.next_seq(),
            first_position: queue
                .backlog
                .first()
                .unwrap_or_else(|| queue.backlog.next_seq()),
        }
    }

    fn all_numbers(&self) -> Vec<QueueNumbers> {
        let mut all: Vec<_> = self
            .queues
            .iter()
            .map(|(slot, _)| self.numbers(slot))
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}
