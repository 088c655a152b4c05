//! What the face tells operators about its connection.

use super::BinaryFace;
use crate::admin::{ConnAbout, ConnReport};
use crate::vocab::Command;

impl BinaryFace {
    /// Introduces the connection to the broker.
    pub(super) fn description(&self) -> Command {
        let about = ConnAbout {
            protocol: "qwer-q",
            peer: self.peer.address.clone(),
            ..ConnAbout::default()
        };
        Command::Describe {
            about: Box::new(about),
        }
    }

    /// Tells how the connection is.
    pub(super) fn report(&mut self, ticket: u64) {
        let report = Box::new(ConnReport::default());
        self.commands.push(Command::Reported { ticket, report });
    }
}
