//! What the face tells operators about its connection.

use qq_proto_amqp::types::Value;

use super::AmqpFace;
use super::ports::PortState;
use crate::admin::{ConnAbout, ConnReport, LinkReport, SessionReport, Why};
use crate::vocab::{Command, Port};

/// Longest text of the peer that is shown, characters.
const SHOWN_MAX: usize = 255;

impl AmqpFace {
    /// Introduces the connection to the broker.
    pub(super) fn describe(&mut self) {
        let open = self.conn.remote_open();
        let container = open.map(|open| shown(&open.container_id));
        let product = open.and_then(|open| {
            let properties = open.properties.as_ref()?;
            let named = |wanted: &str| {
                let mut found = properties.iter();
                found.find_map(|(key, value)| match (key, value) {
                    (Value::Symbol(key), Value::Str(text)) if key.as_str() == wanted => {
                        Some(shown(text.as_str()))
                    }
                    _ => None,
                })
            };
            let product = named("product")?;
            Some(match named("version") {
                Some(version) => format!("{product} {version}"),
                None => product,
            })
        });
        let about = ConnAbout {
            protocol: "amqp",
            peer: self.peer.address.clone(),
            container,
            user: self.user.clone(),
            product,
        };
        self.commands.push(Command::Describe {
            about: Box::new(about),
        });
    }

    /// Tells how the connection is.
    pub(super) fn report(&mut self, ticket: u64) {
        let sessions = self
            .conn
            .session_views()
            .into_iter()
            .map(|view| SessionReport {
                channel: view.channel.unwrap_or_default(),
                incoming_window: view.incoming_window,
                outgoing_window: view.remote_incoming_window,
                remote_incoming_window: view.remote_incoming_window,
                unsettled_incoming: view.unsettled_incoming as u64,
                unsettled_outgoing: view.unsettled_outgoing as u64,
                link_count: view.links as u64,
            });
        let mut report = ConnReport {
            sessions: sessions.collect(),
            ..ConnReport::default()
        };
        for port in self.ports.ports() {
            report.links.extend(self.report_link(port));
        }
        let unanswered = self.unanswered.to_string();
        report
            .details
            .push(("unanswered publishes".to_owned(), unanswered));
        let report = Box::new(report);
        self.commands.push(Command::Reported { ticket, report });
    }
}

impl AmqpFace {
    fn report_link(&mut self, port: Port) -> Option<LinkReport> {
        let entry = self.ports.entry(port)?;
        let view = self.conn.link_view(entry.link)?;
        let mut waits = Vec::new();
        let unsettled = match &entry.state {
            PortState::Producer(producer) => {
                if view.credit == 0 {
                    let text = format!(
                        "the sender has used its credit up; {} publishes wait for their answer",
                        producer.unanswered.len()
                    );
                    waits.push(Why::new("no-credit", text));
                }
                producer.unanswered.len()
            }
            PortState::Consumer(_) => {
                if view.unsent > 0 && !view.is_window_open {
                    waits.push(Why::new(
                        "window",
                        "the session's incoming window of the peer is used up",
                    ));
                } else if view.unsent > 0 {
                    let text = format!("{} messages wait for the peer to read", view.unsent);
                    waits.push(Why::new("output", text));
                } else if view.credit == 0 {
                    waits.push(Why::new(
                        "no-credit",
                        "the receiver has granted no credit that is left",
                    ));
                }
                0
            }
            _ => 0,
        };
        Some(LinkReport {
            port,
            channel: view.channel,
            credit: view.credit.into(),
            unsettled: unsettled as u64,
            waits,
        })
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}
