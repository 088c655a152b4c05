//! Schemas: SCHEMA_REGISTER, SCHEMA_GET and SCHEMA_LIST, and what queues ask of the messages that the peer publishes.
//!
//! Sources are compiled and messages are checked here, on the task of the connection; the broker decides and remembers.

use std::sync::Arc;

use qq_proto_binary::connection::ReplyTo;
use qq_proto_binary::error::ErrorCode;
use qq_proto_binary::message::{
    Compatibility as WireCompatibility, SchemaInfo, SchemaListResponse, SchemaRegisterRequest,
    SchemaRegisterResponse,
};
use qq_proto_binary::reply::Reply;

use super::publish::Obstacle;
use super::{BinaryFace, refusal};
use crate::schema::{
    Candidate, Compatibility, Fault, Rule, Schema, SchemaSummary, SchemaVersion, Source,
};
use crate::vocab::{Ask, Port, RuleId};

impl BinaryFace {
    pub(super) fn on_schema_register(&mut self, reply_to: ReplyTo, request: SchemaRegisterRequest) {
        match candidate_of(request) {
            Ok(candidate) => self.ask(reply_to, Ask::SchemaRegister { candidate }),
            Err(fault) => {
                let text = refusal::of_fault(&fault);
                self.refuse(reply_to, ErrorCode::SchemaRefused, &text);
            }
        }
    }

    pub(super) fn on_schema_get(&mut self, reply_to: ReplyTo, get: SchemaRegisterRequest) {
        let ask = Ask::SchemaFind {
            subject: get.queue,
            version: get.version,
        };
        self.ask(reply_to, ask);
    }

    pub(super) fn on_schema_list(&mut self, reply_to: ReplyTo) {
        self.ask(reply_to, Ask::SchemaList);
    }

    /// The broker says what a queue asks of messages.
    pub(super) fn on_ruled(&mut self, port: Port, rule: Option<Arc<Rule>>) {
        self.has_rules |= rule.is_some();
        if let Some(producer) = self.ports.producer(port) {
            producer.rule = rule;
        }
    }

    /// Checks the payload of a message against what its queue asks. What is not known yet the broker checks.
    ///
    /// # Errors
    /// The queue does not take it.
    pub(super) fn vet(&mut self, queue: &str, payload: &[u8]) -> Result<RuleId, Obstacle> {
        if !self.has_rules {
            return Ok(RuleId::NONE);
        }
        let Some(rule) = self.rule_of(queue) else {
            return Ok(RuleId::NONE);
        };
        match rule.check(payload) {
            Ok(()) => Ok(rule.id),
            Err(unfit) => Err(refusal::of_unfit(&unfit)),
        }
    }

    /// What a queue that the peer publishes to asks of messages.
    pub(super) fn rule_of(&mut self, queue: &str) -> Option<Arc<Rule>> {
        let port = self.producers.get(queue)?;
        self.ports.producer(*port)?.rule.clone()
    }
}

/// Compiles what the peer sent.
///
/// # Errors
/// It is no schema.
fn candidate_of(request: SchemaRegisterRequest) -> Result<Candidate, Fault> {
    let (source, text) = match (
        request.descriptor.is_empty(),
        request.proto_source.is_empty(),
    ) {
        (false, false) => {
            let text = "a descriptor and the text of a file exclude each other";
            return Err(Fault::Invalid(text.to_owned()));
        }
        (_, true) => (Source::Descriptor(request.descriptor), None),
        (true, false) => {
            let text = request.proto_source;
            (Source::Text(text.clone()), Some(text))
        }
    };
    let compatibility = match WireCompatibility::try_from(request.compatibility) {
        Ok(WireCompatibility::Unspecified) => None,
        Ok(WireCompatibility::None) => Some(Compatibility::None),
        Ok(WireCompatibility::Backward) => Some(Compatibility::Backward),
        Ok(WireCompatibility::Forward) => Some(Compatibility::Forward),
        Ok(WireCompatibility::Full) => Some(Compatibility::Full),
        Err(_) => {
            let text = format!("no rule has the number {}", request.compatibility);
            return Err(Fault::Invalid(text));
        }
    };
    Ok(Candidate {
        schema: Arc::new(Schema::compile(&source, &request.message_type)?),
        subject: request.queue,
        source: text,
        compatibility,
        refuses_unknown_fields: request.refuse_unknown_fields,
    })
}

/// The answer to SCHEMA_REGISTER, and with the descriptor to SCHEMA_GET.
pub(super) fn reply_of(version: &SchemaVersion, has_descriptor: bool) -> Reply {
    let compatibility = match version.compatibility {
        Compatibility::None => WireCompatibility::None,
        Compatibility::Backward => WireCompatibility::Backward,
        Compatibility::Forward => WireCompatibility::Forward,
        Compatibility::Full => WireCompatibility::Full,
    };
    Reply::Schema(Box::new(SchemaRegisterResponse {
        schema_id: 0,
        version: version.version,
        message_type: version.message_type.clone(),
        descriptor: match has_descriptor {
            true => version.descriptor.clone(),
            false => bytes::Bytes::new(),
        },
        compatibility: compatibility as i32,
        refuse_unknown_fields: version.refuses_unknown_fields,
    }))
}

/// The answer to SCHEMA_LIST.
pub(super) fn list_of(all: Vec<SchemaSummary>) -> Reply {
    let schemas = all.into_iter().map(|summary| SchemaInfo {
        queue: summary.subject,
        message_type: summary.message_type,
        version: summary.version,
    });
    Reply::SchemaList(SchemaListResponse {
        schemas: schemas.collect(),
    })
}
