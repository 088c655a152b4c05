//! Connections and links: who is there, what it holds, and why nothing flows.
//!
//! The broker knows ports; credit and windows are known to the connection's face, which is asked. One that does not
//! answer soon is shown as the broker knows it.

use std::time::Duration;

use super::super::conn::PortKind;
use super::super::ports::Target;
use super::super::{Action, Broker, Now, quoted};
use super::lists::page;
use super::{Asker, Done};
use crate::admin::{ConnDetail, ConnReport, ConnRow, LinkRole, LinkRow, Page, Reply};
use crate::vocab::{ConnId, LinkKey, NodeKind, Notice, Port, Reason, Refusal};

/// How long a connection may take to tell about itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// Connections that are asked at a time.
const ASKED_MAX: usize = 256;

/// Somebody waits for what a connection tells.
#[derive(Debug)]
pub(in crate::broker) struct Asked {
    asker: Asker,
    conn: ConnId,
    /// Only this link is wanted.
    port: Option<Port>,
    until: Duration,
}

impl Broker {
    pub(super) fn conn_page(&self, from: u64) -> Page<ConnRow> {
        page(from, self.conns.slots_end(), |slot| {
            self.conns.is_used(slot).then(|| self.conn_row(slot))
        })
    }

    fn conn_row(&self, slot: usize) -> ConnRow {
        let conn = self.conns.conn(slot);
        let mut in_flight = 0;
        let mut consumers = 0;
        for (_, kind) in conn.ports() {
            if let PortKind::Consumer(slot) = kind {
                consumers += 1;
                in_flight += self.consumers[slot].unsettled.len() as u64;
            }
        }
        ConnRow {
            conn: conn.id,
            about: conn.about.as_deref().cloned().unwrap_or_default(),
            connected_at_ms: conn.connected_at_ms,
            producers: conn.producers as u64,
            consumers,
            in_flight,
            is_pressed: conn.is_pressed,
        }
    }

    pub(super) fn link_page(
        &self,
        from: u64,
        conn: Option<ConnId>,
        node: Option<&str>,
    ) -> Page<LinkRow> {
        let pages = match conn {
            Some(conn) => Page {
                items: Vec::from_iter(self.conn_slots.get(&conn).map(|slot| self.links_of(*slot))),
                next: None,
            },
            None => page(from, self.conns.slots_end(), |slot| {
                self.conns.is_used(slot).then(|| self.links_of(slot))
            }),
        };
        let wanted = |link: &LinkRow| node.is_none() || link.address.as_deref() == node;
        Page {
            items: pages.items.into_iter().flatten().filter(wanted).collect(),
            next: pages.next,
        }
    }

    fn links_of(&self, slot: usize) -> Vec<LinkRow> {
        let conn = self.conns.conn(slot);
        let ports = conn.ports();
        ports
            .map(|(port, kind)| self.link_row(conn.id, port, kind))
            .collect()
    }

    fn link_row(&self, conn: ConnId, port: Port, kind: PortKind) -> LinkRow {
        let row = LinkRow {
            conn,
            port,
            name: None,
            role: LinkRole::Producer,
            address: None,
            node: NodeKind::Anonymous,
            channel: None,
            credit: None,
            delivery_count: None,
            unsettled: 0,
            is_browsing: false,
            is_settled: false,
            filter: None,
            waits: Vec::new(),
        };
        match kind {
            PortKind::Producer(slot) => {
                let producer = &self.producers[slot];
                let (node, address) = match &producer.target {
                    Target::Queue(queue) => {
                        let name = self.queues[*queue].spec.name.clone();
                        (NodeKind::Queue, Some(name))
                    }
                    Target::DefaultExchange { .. } => (NodeKind::Exchange, Some(String::new())),
                    Target::Exchange { id, .. } => {
                        let spec = self.exchanges.spec(*id);
                        (NodeKind::Exchange, spec.map(|spec| spec.name.clone()))
                    }
                    Target::Anonymous => (NodeKind::Anonymous, None),
                };
                LinkRow {
                    name: link_name(producer.key.as_ref()),
                    node,
                    address,
                    waits: self.why_producer_waits(producer.conn),
                    ..row
                }
            }
            PortKind::Consumer(slot) => {
                let consumer = &self.consumers[slot];
                let queue = &self.queues[consumer.queue];
                LinkRow {
                    name: link_name(consumer.key.as_ref()),
                    role: LinkRole::Consumer,
                    node: NodeKind::Queue,
                    address: Some(queue.spec.name.clone()),
                    delivery_count: Some(consumer.sent),
                    unsettled: consumer.unsettled.len() as u64,
                    is_browsing: consumer.is_browsing,
                    is_settled: consumer.is_settled,
                    filter: consumer
                        .wanted
                        .as_ref()
                        .and_then(|wanted| serde_json::to_string(wanted.filter.spec()).ok()),
                    waits: self.why_consumer_waits(slot),
                    ..row
                }
            }
        }
    }

    pub(super) fn manage_connection(
        &mut self,
        now: Now,
        asker: Asker,
        conn: ConnId,
    ) -> Result<Done, Refusal> {
        self.ask_conn(now, asker, conn, None)
    }

    pub(super) fn manage_link(
        &mut self,
        now: Now,
        asker: Asker,
        conn: ConnId,
        port: Port,
    ) -> Result<Done, Refusal> {
        self.link_slot(conn, port)?;
        self.ask_conn(now, asker, conn, Some(port))
    }

    /// The slot of a connection that has this link.
    fn link_slot(&self, conn: ConnId, port: Port) -> Result<usize, Refusal> {
        let slot = self.conn_slot(conn)?;
        match self.conns.conn(slot).port(port) {
            Some(_) => Ok(slot),
            None => Err(no_link(conn, port)),
        }
    }

    fn conn_slot(&self, conn: ConnId) -> Result<usize, Refusal> {
        let slot = self.conn_slots.get(&conn).copied();
        slot.ok_or_else(|| Refusal {
            reason: Reason::NotFound,
            text: format!("no connection {} is open", conn.0),
        })
    }

    fn ask_conn(
        &mut self,
        now: Now,
        asker: Asker,
        conn: ConnId,
        port: Option<Port>,
    ) -> Result<Done, Refusal> {
        let slot = self.conn_slot(conn)?;
        if self.asked.len() >= ASKED_MAX {
            let text = "too many connections are being asked about themselves".to_owned();
            return Err(Refusal {
                reason: Reason::LimitExceeded,
                text,
            });
        }
        let ticket = self.next_report;
        self.next_report += 1;
        let until = now.mono + PATIENCE;
        self.asked.insert(
            ticket,
            Asked {
                asker,
                conn,
                port,
                until,
            },
        );
        self.conns.tell(slot, Notice::Report { ticket });
        Ok(Done::Later)
    }

    /// A connection told about itself.
    pub(in crate::broker) fn on_report(&mut self, conn: ConnId, ticket: u64, report: ConnReport) {
        if self
            .asked
            .get(&ticket)
            .is_some_and(|asked| asked.conn == conn)
            && let Some(asked) = self.asked.remove(&ticket)
        {
            self.tell_report(&asked, Some(report));
        }
    }

    /// When the next connection has taken too long.
    pub(in crate::broker) fn report_due(&self) -> Option<Duration> {
        self.asked.values().map(|asked| asked.until).min()
    }

    /// Answers for connections that did not, or are gone.
    pub(in crate::broker) fn end_late_reports(&mut self, now: Now) {
        let is_late = |asked: &Asked| asked.until <= now.mono;
        let late: Vec<u64> = self
            .asked
            .iter()
            .filter(|(_, asked)| is_late(asked))
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in late {
            if let Some(asked) = self.asked.remove(&ticket) {
                self.tell_report(&asked, None);
            }
        }
    }

    fn tell_report(&mut self, asked: &Asked, report: Option<ConnReport>) {
        let reply = match self.conn_slot(asked.conn) {
            Ok(slot) => self.report_reply(slot, asked, report),
            Err(refusal) => Reply::Refused(refusal),
        };
        self.answer(asked.asker, reply, false);
    }

    fn report_reply(&self, slot: usize, asked: &Asked, report: Option<ConnReport>) -> Reply {
        let is_fresh = report.is_some();
        let report = report.unwrap_or_default();
        let mut links = self.links_of(slot);
        for told in report.links {
            let Some(link) = links.iter_mut().find(|link| link.port == told.port) else {
                continue;
            };
            link.channel = told.channel;
            link.credit = Some(told.credit);
            link.unsettled = link.unsettled.max(told.unsettled);
            // The connection knows better which of the two it is.
            link.waits.retain(|why| why.code != "no-credit");
            link.waits.extend(told.waits);
        }
        let Some(port) = asked.port else {
            return Reply::Connection(Box::new(ConnDetail {
                row: self.conn_row(slot),
                is_fresh,
                details: report.details,
                sessions: report.sessions,
                links,
            }));
        };
        match links.into_iter().find(|link| link.port == port) {
            Some(link) => Reply::Link(Box::new(link)),
            None => Reply::Refused(no_link(asked.conn, port)),
        }
    }

    pub(super) fn manage_close(&mut self, conn: ConnId, text: String) -> Result<Done, Refusal> {
        self.conn_slot(conn)?;
        log::info!(
            "connection {} is closed by an operator: {}",
            conn.0,
            quoted(&text)
        );
        let refusal = Refusal {
            reason: Reason::Shutdown,
            text,
        };
        self.actions.push_back(Action::Disconnect { conn, refusal });
        Ok(Done::Read(Reply::Done))
    }

    pub(super) fn manage_close_link(
        &mut self,
        now: Now,
        conn: ConnId,
        port: Port,
    ) -> Result<Done, Refusal> {
        let slot = self.link_slot(conn, port)?;
        let refusal = Refusal {
            reason: Reason::Forced,
            text: "an operator closed the link".to_owned(),
        };
        self.evict(now.clock(), slot, port, refusal);
        Ok(Done::Changed(Reply::Done))
    }
}

fn no_link(conn: ConnId, port: Port) -> Refusal {
    Refusal {
        reason: Reason::NotFound,
        text: format!("connection {} has no link {}", conn.0, port.0),
    }
}

fn link_name(key: Option<&LinkKey>) -> Option<String> {
    key.map(|key| String::from_utf8_lossy(&key.name).into_owned())
}
