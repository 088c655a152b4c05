//! The SASL layer (part 5, 5.3), both roles: mechanisms, the client's choice, challenges and responses by turns, the
//! outcome.
//!
//! What a mechanism says is the embedder's business; turns and sizes are the machine's. While the embedder of a server
//! decides, input is held.

use alloc::vec::Vec;

use bytes::{BufMut, Bytes};

use super::config::Credentials;
use super::event::{Event, SaslCode, UsageError};
use super::handshake::HEADER_AMQP;
use super::violation::Violation;
use super::write::Body;
use super::{Connection, State};
use crate::performative::{
    SaslChallenge, SaslInit, SaslMechanisms, SaslOutcome, SaslPerformative, SaslResponse,
};
use crate::types::Symbol;

const ANONYMOUS: Symbol = Symbol::from_static("ANONYMOUS");
const PLAIN: Symbol = Symbol::from_static("PLAIN");
/// Part 5, 5.3.1: the largest body of a SASL frame.
const BODY_MAX: usize = 512 - 8;

/// Whether a frame with this body keeps to the limit.
fn check_size(body: &impl Body) -> Result<(), UsageError> {
    let mut buf = bytes::BytesMut::new();
    body.put(&mut buf);
    if buf.len() <= BODY_MAX {
        Ok(())
    } else {
        Err(UsageError::TooLarge)
    }
}

impl Connection {
    /// A frame of the SASL layer that fits the role is led to its turn; none fits out of turn (part 5, 5.3.2).
    pub(super) fn on_sasl(&mut self, frame: SaslPerformative) -> Result<(), Violation> {
        match (frame, self.state) {
            (SaslPerformative::Init(init), State::SaslInitAwaited) => self.on_sasl_init(init),
            (SaslPerformative::Response(response), State::SaslResponseAwaited) => {
                self.state.go(State::SaslDeciding);
                self.events.push_back(Event::SaslResponse {
                    response: response.response,
                });
            }
            (SaslPerformative::Mechanisms(offered), State::MechanismsAwaited) => {
                self.on_sasl_mechanisms(&offered);
            }
            (SaslPerformative::Challenge(challenge), State::OutcomeAwaited)
                if self.has_sasl_steps() =>
            {
                self.events.push_back(Event::SaslChallenge {
                    challenge: challenge.challenge,
                });
            }
            (SaslPerformative::Outcome(outcome), State::OutcomeAwaited) => {
                self.on_sasl_outcome(outcome);
            }
            _ => return Err(Violation::UnexpectedPerformative),
        }
        Ok(())
    }

    fn on_sasl_init(&mut self, init: SaslInit) {
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

    /// Server: answers [`Event::SaslInit`] or [`Event::SaslResponse`] with a question; [`Event::SaslResponse`] follows.
    ///
    /// # Errors
    /// [`UsageError::WrongState`] when neither event is outstanding, [`UsageError::TooLarge`] for a challenge that does
    /// not fit into the 512 bytes of a SASL frame. Nothing changed then.
    pub fn sasl_challenge(&mut self, challenge: Bytes) -> Result<(), UsageError> {
        if self.state != State::SaslDeciding {
            return Err(UsageError::WrongState);
        }
        let frame = SaslChallenge { challenge };
        check_size(&frame)?;
        self.write_sasl(&frame);
        self.state.go(State::SaslResponseAwaited);
        self.handle_held();
        Ok(())
    }

    /// Server: answers [`Event::SaslInit`] or [`Event::SaslResponse`]. Anything but [`SaslCode::Ok`] ends the connection
    /// after the peer could read why. Without such an event outstanding this does nothing.
    pub fn sasl_outcome(&mut self, code: SaslCode) {
        // Fails only without an event outstanding.
        let _ = self.finish_sasl(code, None);
    }

    /// Server: lets the peer in, and tells it what the mechanism has to say with that (the proof that the server knows
    /// the password, for instance).
    ///
    /// # Errors
    /// As [`sasl_challenge`](Self::sasl_challenge).
    pub fn sasl_accept(&mut self, additional_data: Bytes) -> Result<(), UsageError> {
        self.finish_sasl(SaslCode::Ok, Some(additional_data))
    }

    fn finish_sasl(
        &mut self,
        code: SaslCode,
        additional_data: Option<Bytes>,
    ) -> Result<(), UsageError> {
        if self.state != State::SaslDeciding {
            return Err(UsageError::WrongState);
        }
        let frame = SaslOutcome {
            code: code as u8,
            additional_data,
        };
        check_size(&frame)?;
        self.write_sasl(&frame);
        if code == SaslCode::Ok {
            self.state.go(State::AmqpHeaderAwaited);
            self.handle_held();
        } else {
            self.break_off(None);
        }
        Ok(())
    }

    fn has_sasl_steps(&self) -> bool {
        matches!(
            self.config.sasl.credentials,
            Some(Credentials::Steps { .. })
        )
    }

    /// Client: chooses a mechanism that we have credentials for.
    fn on_sasl_mechanisms(&mut self, offered: &SaslMechanisms) {
        let (mechanism, response) = match &self.config.sasl.credentials {
            Some(Credentials::Plain { user, password }) => {
                (PLAIN, Some(plain_response(user, password)))
            }
            Some(Credentials::Steps {
                mechanism,
                initial_response,
            }) => (mechanism.clone(), initial_response.clone()),
            Some(Credentials::Anonymous) | None => (ANONYMOUS, Some(Bytes::new())),
        };
        if !offered.sasl_server_mechanisms.contains(&mechanism) {
            log::debug!("the server does not offer SASL {mechanism}");
            self.break_off(None);
            return;
        }
        let init = SaslInit {
            mechanism,
            initial_response: response,
            hostname: self.config.hostname.clone(),
        };
        self.write_sasl(&init);
        self.state.go(State::OutcomeAwaited);
    }

    /// Client: answers [`Event::SaslChallenge`].
    ///
    /// # Errors
    /// [`UsageError::WrongState`] when the exchange is over or did not begin, [`UsageError::TooLarge`] as with
    /// [`sasl_challenge`](Self::sasl_challenge).
    pub fn sasl_respond(&mut self, response: Bytes) -> Result<(), UsageError> {
        if self.state != State::OutcomeAwaited || !self.has_sasl_steps() {
            return Err(UsageError::WrongState);
        }
        let frame = SaslResponse { response };
        check_size(&frame)?;
        self.write_sasl(&frame);
        Ok(())
    }

    /// Client: the server's decision.
    fn on_sasl_outcome(&mut self, outcome: SaslOutcome) {
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
        self.events.push_back(Event::SaslDone {
            additional_data: outcome.additional_data.unwrap_or_default(),
        });
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
