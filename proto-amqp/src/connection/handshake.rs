//! Protocol headers and the SASL layer (part 2, 2.2; part 5, 5.3), both roles.
//!
//! A server answers any header that it cannot serve with the one that it wants, then closes. The outcome of SASL is
//! the embedder's; while it decides, input is held.

use alloc::vec::Vec;

use bytes::{BufMut, Bytes};

use super::config::Credentials;
use super::event::{Event, SaslCode};
use super::{Connection, Side, State};
use crate::performative::{SaslInit, SaslMechanisms, SaslOutcome};
use crate::types::Symbol;

/// Length of a protocol header.
pub(super) const HEADER_LEN: usize = 8;
/// The AMQP layer.
pub(super) const HEADER_AMQP: [u8; HEADER_LEN] = *b"AMQP\x00\x01\x00\x00";
/// The SASL layer.
pub(super) const HEADER_SASL: [u8; HEADER_LEN] = *b"AMQP\x03\x01\x00\x00";

const ANONYMOUS: Symbol = Symbol::from_static("ANONYMOUS");
const PLAIN: Symbol = Symbol::from_static("PLAIN");

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

    /// A frame of the SASL layer.
    pub(super) fn on_sasl_init(&mut self, init: SaslInit) {
        let is_offered = self.config.sasl.mechanisms.contains(&init.mechanism);
        self.state.go(State::SaslDeciding);
        if !is_offered {
            // Part 5, 5.3.2: no falling back to a mechanism that was not asked for.
            self.sasl_outcome(SaslCode::Auth);
            return;
        }
        self.events.push_back(Event::SaslInit {
            mechanism: init.mechanism,
            response: init.initial_response.unwrap_or_default(),
            hostname: init.hostname,
        });
    }

    /// Server: answers [`Event::SaslInit`]. Anything but [`SaslCode::Ok`] ends the connection after the peer could
    /// read why. Without such an event outstanding this does nothing.
    pub fn sasl_outcome(&mut self, code: SaslCode) {
        if self.state != State::SaslDeciding {
            return;
        }
        self.write_sasl(&SaslOutcome {
            code: code as u8,
            additional_data: None,
        });
        if code == SaslCode::Ok {
            self.state.go(State::AmqpHeaderAwaited);
            self.handle_held();
        } else {
            self.break_off(None);
        }
    }

    /// Client: chooses a mechanism that we have credentials for.
    pub(super) fn on_sasl_mechanisms(&mut self, offered: &SaslMechanisms) {
        let (mechanism, response) = match &self.config.sasl.credentials {
            Some(Credentials::Plain { user, password }) => (PLAIN, plain_response(user, password)),
            _ => (ANONYMOUS, Bytes::new()),
        };
        if !offered.sasl_server_mechanisms.contains(&mechanism) {
            log::debug!("the server does not offer SASL {mechanism}");
            self.break_off(None);
            return;
        }
        let init = SaslInit {
            mechanism,
            initial_response: Some(response),
            hostname: self.config.hostname.clone(),
        };
        self.write_sasl(&init);
        self.state.go(State::OutcomeAwaited);
    }

    /// Client: the server's decision.
    pub(super) fn on_sasl_outcome(&mut self, outcome: &SaslOutcome) {
        if outcome.code != SaslCode::Ok as u8 {
            log::debug!(
                "the server refused the credentials with code {}",
                outcome.code
            );
            self.break_off(Some(super::unauthorized()));
            return;
        }
        self.state.go(State::AmqpHeaderAwaited);
        self.output.buf().put_slice(&HEADER_AMQP);
        self.events.push_back(Event::SaslDone);
    }
}

/// RFC 4616: an empty authorization identity, then identity and password, each behind a NUL.
fn plain_response(user: &str, password: &str) -> Bytes {
    let mut response = Vec::with_capacity(user.len() + password.len() + 2);
    response.push(0);
    response.extend_from_slice(user.as_bytes());
    response.push(0);
    response.extend_from_slice(password.as_bytes());
    Bytes::from(response)
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
