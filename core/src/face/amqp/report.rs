//! What the face tells operators about its connection.

use qq_proto_amqp::types::Value;

use super::AmqpFace;
use crate::admin::{ConnAbout, ConnReport};
use crate::vocab::Command;

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
        let report = Box::new(ConnReport::default());
        self.commands.push(Command::Reported { ticket, report });
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}
