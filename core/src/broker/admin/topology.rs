//! Queues and exchanges: declare, delete, purge.

use super::super::{Broker, Now, QueueSpec, quoted};
use super::jobs::Work;
use super::{Asker, Done};
use crate::admin::Reply;
use crate::route::ExchangeSpec;
use crate::vocab::{Reason, Refusal};

impl Broker {
    pub(super) fn manage_declare(
        &mut self,
        asker: Asker,
        spec: QueueSpec,
    ) -> Result<Done, Refusal> {
        let name = spec.name.clone();
        let known = self.queue_names.get(name.as_str()).copied();
        if let Some(slot) = known {
            self.slot_to_change(asker, &name)?;
            if let Some(field) = self.queues[slot].spec.difference(&spec) {
                return Ok(Done::Read(Reply::Conflict {
                    field: field.to_owned(),
                    text: format!("the queue {} exists with another {field}", quoted(&name)),
                }));
            }
        }
        if spec.exclusive {
            return Err(Refusal {
                reason: Reason::Invalid,
                text: "an exclusive queue belongs to the connection that declares it".to_owned(),
            });
        }
        let is_new = known.is_none();
        if is_new {
            self.declare_queue(spec, asker.conn())?;
        }
        let slot = self.slot_of(&name)?;
        self.note_use(slot);
        let queue = Box::new(self.queue_detail(slot));
        Ok(Done::Changed(Reply::QueueDeclared { is_new, queue }))
    }

    pub(super) fn manage_delete(
        &mut self,
        now: Now,
        asker: Asker,
        name: &str,
        if_unused: bool,
        if_empty: bool,
    ) -> Result<Done, Refusal> {
        let slot = self.slot_to_change(asker, name)?;
        if let Some(refusal) = self.obstacle_to_delete(slot, if_unused, if_empty) {
            return Ok(Done::Read(Reply::InUse(refusal)));
        }
        let messages = self.delete_queue(now, name)? as u64;
        Ok(Done::Changed(Reply::QueueDeleted { messages }))
    }

    pub(super) fn manage_purge(
        &mut self,
        now: Now,
        asker: Asker,
        name: &str,
    ) -> Result<Done, Refusal> {
        let slot = self.slot_to_change(asker, name)?;
        self.start_job(now, asker, slot, 0, u64::MAX, Work::Purge)
    }

    pub(super) fn manage_declare_exchange(&mut self, spec: ExchangeSpec) -> Result<Done, Refusal> {
        let name = spec.name.clone();
        let known = self
            .exchanges
            .find(&name)
            .and_then(|id| self.exchanges.spec(id));
        if let Some(field) = known.and_then(|known| known.difference(&spec)) {
            return Ok(Done::Read(Reply::Conflict {
                field: field.to_owned(),
                text: format!("the exchange {} exists with another {field}", quoted(&name)),
            }));
        }
        let is_new = self.declare_exchange(spec)?;
        let row = self.exchange_row(&name);
        let exchange = row.ok_or_else(|| super::missing("exchange", &name))?;
        Ok(Done::Changed(Reply::ExchangeDeclared { is_new, exchange }))
    }

    pub(super) fn manage_delete_exchange(
        &mut self,
        now: Now,
        name: &str,
        if_unused: bool,
    ) -> Result<Done, Refusal> {
        let bindings = self.exchange_row(name).map_or(0, |row| row.binding_count);
        if if_unused && bindings > 0 {
            return Ok(Done::Read(Reply::InUse(Refusal {
                reason: Reason::Locked,
                text: format!("the exchange {} has {bindings} bindings", quoted(name)),
            })));
        }
        self.delete_exchange(now, name, false)?;
        Ok(Done::Changed(Reply::Done))
    }
}
