//! Protocol headers (part 2, 2.2; part 5, 5.3), both roles.
//!
//! A server answers any header that it cannot serve with the one that it wants, then closes.

use bytes::BufMut;

use super::{Connection, Side, State};
use crate::performative::SaslMechanisms;

/// Length of a protocol header.
pub(super) const HEADER_LEN: usize = 8;
/// The AMQP layer.
pub(super) const HEADER_AMQP: [u8; HEADER_LEN] = *b"AMQP\x00\x01\x00\x00";
/// The SASL layer.
pub(super) const HEADER_SASL: [u8; HEADER_LEN] = *b"AMQP\x03\x01\x00\x00";

impl Connection {
    /// Client: the first header.
    pub(super) fn start_client(&mut self) {
        let header = if self.config.sasl.credentials.is_some() {
            HEADER_SASL
        } else {
            HEADER_AMQP
        };
        self.output.buf().put_slice(&header);
    }

    /// Whether these first bytes (fewer than a header) can still become one. If not, there is no point in waiting for
    /// the rest: whoever speaks another protocol may wait for our answer.
    pub(super) fn is_header_start(bytes: &[u8]) -> bool {
        bytes
            .iter()
            .zip(b"AMQP")
            .all(|(came, wanted)| came == wanted)
    }

    /// The peer's protocol header.
    pub(super) fn on_header(&mut self, header: &[u8]) {
        match self.state {
            State::HeaderAwaited if self.side == Side::Server => self.on_first_header(header),
            State::HeaderAwaited => self.on_header_answer(header),
            State::AmqpHeaderAwaited if header == HEADER_AMQP => {
                if self.side == Side::Server {
                    self.output.buf().put_slice(&HEADER_AMQP);
                }
                self.state.go(State::OpenAwaited);
                self.write_open_if_wanted();
            }
            _ => self.refuse_header(HEADER_AMQP, header),
        }
    }

    fn on_first_header(&mut self, header: &[u8]) {
        let has_sasl = !self.config.sasl.mechanisms.is_empty();
        if header == HEADER_SASL && has_sasl {
            self.output.buf().put_slice(&HEADER_SASL);
            let mechanisms = SaslMechanisms {
                sasl_server_mechanisms: self.config.sasl.mechanisms.clone(),
            };
            self.write_sasl(&mechanisms);
            self.state.go(State::SaslInitAwaited);
        } else if header == HEADER_AMQP && !self.config.sasl.required {
            self.output.buf().put_slice(&HEADER_AMQP);
            self.state.go(State::OpenAwaited);
        } else {
            let wanted = if self.config.sasl.required && has_sasl {
                HEADER_SASL
            } else {
                HEADER_AMQP
            };
            self.refuse_header(wanted, header);
        }
    }

    fn on_header_answer(&mut self, header: &[u8]) {
        let has_sasl = self.config.sasl.credentials.is_some();
        if header == HEADER_SASL && has_sasl {
            self.state.go(State::MechanismsAwaited);
        } else if header == HEADER_AMQP && !has_sasl {
            self.state.go(State::OpenAwaited);
        } else {
            // Our own header is out already; there is nothing to add.
            log::debug!("the server answered with another protocol header: {header:02x?}");
            self.break_off(None);
        }
    }

    /// Part 2, 2.2: a header that cannot be served is answered with one that can, then the connection closes.
    pub(super) fn refuse_header(&mut self, wanted: [u8; HEADER_LEN], came: &[u8]) {
        log::info!(
            "refused a peer that does not speak AMQP 1.0 here: {}",
            likely_protocol(came)
        );
        if self.side == Side::Server {
            self.output.buf().put_slice(&wanted);
        }
        self.break_off(None);
    }
}

/// For the one log line that tells an operator what is knocking at the wrong port.
fn likely_protocol(bytes: &[u8]) -> &'static str {
    match bytes {
        [b'A', b'M', b'Q', b'P', 0 | 3, 1, 0, 0] => {
            "an AMQP layer that is not served in this place"
        }
        [b'A', b'M', b'Q', b'P', 2, ..] => "AMQP with the obsolete TLS header",
        [b'A', b'M', b'Q', b'P', 0, 0, 9, _] => "AMQP 0-9",
        [b'A', b'M', b'Q', b'P', ..] => "another version of AMQP",
        [
            b'G' | b'P' | b'H' | b'D' | b'O' | b'C',
            b'E' | b'O' | b'U' | b'P',
            ..,
        ] => "HTTP, perhaps",
        [0x16, 3, ..] => "TLS on a plain port",
        _ => "unknown bytes",
    }
}
