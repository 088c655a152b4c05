//! Frames of the SASL layer (part 5, 5.3.3).

use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::descriptor::code_of_symbol;
use crate::codec::{Reader, code, composite};
use crate::types::{DecodeError, Str, Symbol};

composite! {
    /// The mechanisms that a server offers (part 5, 5.3.3.1).
    SaslMechanisms = 0x40, short {
        /// At least one. Written as an array even when there is one.
        sasl_server_mechanisms["sasl-server-mechanisms"]: required Vec<Symbol>,
    }
}

composite! {
    /// The client's choice (part 5, 5.3.3.2).
    SaslInit = 0x41, short {
        /// One of the mechanisms offered.
        mechanism["mechanism"]: required Symbol,
        /// First response, for mechanisms in which the client speaks first.
        initial_response["initial-response"]: optional Bytes,
        /// The host that the client believes to speak to.
        hostname["hostname"]: optional Str,
    }
}

composite! {
    /// A question of the server (part 5, 5.3.3.3).
    SaslChallenge = 0x42, short {
        /// As the mechanism defines it.
        challenge["challenge"]: required Bytes,
    }
}

composite! {
    /// The client's answer (part 5, 5.3.3.4).
    SaslResponse = 0x43, short {
        /// As the mechanism defines it.
        response["response"]: required Bytes,
    }
}

composite! {
    /// The end of the exchange (part 5, 5.3.3.5).
    SaslOutcome = 0x44, short {
        /// 0 authenticated, 1 wrong credentials, 2 system error, 3 permanent, 4 transient.
        code["code"]: required u8,
        /// As the mechanism defines it.
        additional_data["additional-data"]: optional Bytes,
    }
}

/// Any frame of the SASL layer.
#[derive(Clone, Debug, PartialEq)]
pub enum SaslPerformative {
    /// From the server: what it offers.
    Mechanisms(SaslMechanisms),
    /// From the client: what it chose.
    Init(SaslInit),
    /// From the server.
    Challenge(SaslChallenge),
    /// From the client.
    Response(SaslResponse),
    /// From the server: the end.
    Outcome(SaslOutcome),
}

impl SaslPerformative {
    /// Reads the body of a SASL frame and tells its length, which is all of it.
    ///
    /// # Errors
    /// The first rule that the bytes break. Nothing may follow.
    pub fn decode(body: &Bytes) -> Result<(Self, usize), DecodeError> {
        let mut reader = Reader::new(body);
        if reader.byte()? != code::DESCRIBED {
            return Err(DecodeError::NotDescribedList);
        }
        let found = reader.descriptor(code_of_symbol)?;
        let frame = match found {
            Some(SaslMechanisms::DESCRIPTOR) => {
                Self::Mechanisms(SaslMechanisms::read_fields(&mut reader)?)
            }
            Some(SaslInit::DESCRIPTOR) => Self::Init(SaslInit::read_fields(&mut reader)?),
            Some(SaslChallenge::DESCRIPTOR) => {
                Self::Challenge(SaslChallenge::read_fields(&mut reader)?)
            }
            Some(SaslResponse::DESCRIPTOR) => {
                Self::Response(SaslResponse::read_fields(&mut reader)?)
            }
            Some(SaslOutcome::DESCRIPTOR) => Self::Outcome(SaslOutcome::read_fields(&mut reader)?),
            _ => return Err(DecodeError::UnknownDescriptor(found)),
        };
        reader.finish()?;
        Ok((frame, reader.at()))
    }

    /// Appends the encoded form.
    pub fn encode(&self, buf: &mut BytesMut) {
        match self {
            Self::Mechanisms(mechanisms) => mechanisms.encode(buf),
            Self::Init(init) => init.encode(buf),
            Self::Challenge(challenge) => challenge.encode(buf),
            Self::Response(response) => response.encode(buf),
            Self::Outcome(outcome) => outcome.encode(buf),
        }
    }
}
