//! Refusals in AMQP's words: the one table from [`Reason`] to conditions of the spec (part 2, 2.8.15 to 2.8.18).

use qq_proto_amqp::condition;
use qq_proto_amqp::performative::AmqpError;
use qq_proto_amqp::section::SectionError;
use qq_proto_amqp::types::{Str, Symbol, Value};

use crate::broker::quoted;
use crate::schema::Unfit;
use crate::vocab::{Reason, Refusal};

pub(super) fn condition_of(reason: Reason) -> Symbol {
    match reason {
        Reason::NotFound => condition::NOT_FOUND,
        Reason::Deleted => condition::RESOURCE_DELETED,
        Reason::Stolen => condition::LINK_STOLEN,
        Reason::Forced => condition::DETACH_FORCED,
        Reason::Locked => condition::RESOURCE_LOCKED,
        Reason::LimitExceeded | Reason::DiskFull => condition::RESOURCE_LIMIT_EXCEEDED,
        Reason::Invalid => condition::INVALID_FIELD,
        Reason::NotAllowed => condition::NOT_ALLOWED,
        Reason::NotImplemented => condition::NOT_IMPLEMENTED,
        Reason::Shutdown => condition::CONNECTION_FORCED,
        Reason::Undecodable => condition::DECODE_ERROR,
        Reason::Internal => condition::INTERNAL_ERROR,
    }
}

pub(super) fn error_of(refusal: &Refusal) -> AmqpError {
    error(condition_of(refusal.reason), &refusal.text)
}

pub(super) fn error(condition: Symbol, text: &str) -> AmqpError {
    AmqpError {
        condition,
        description: Some(Str::from(text)),
        info: None,
    }
}

/// The error of a message that is not one.
pub(super) fn of_section(fault: &SectionError) -> AmqpError {
    let condition = if fault.is_not_implemented() {
        condition::NOT_IMPLEMENTED
    } else {
        condition::DECODE_ERROR
    };
    error(condition, &fault.to_string())
}

/// The error of a rejected message: its info names queue and reason for programs.
pub(super) fn rejection(reason: Reason, node: &str) -> AmqpError {
    let (key, text) = match reason {
        Reason::NotFound => (
            "not-found",
            "no queue takes this message; check its address",
        ),
        Reason::LimitExceeded => ("limit", "the broker is full; try again later"),
        Reason::DiskFull => (
            "disk",
            "the disk of the broker is full, so it takes no durable messages; try again later",
        ),
        Reason::Invalid => (
            "invalid",
            "the message must name an existing address in its `to` field",
        ),
        Reason::Undecodable => ("undecodable", "the message is not valid AMQP 1.0"),
        Reason::Deleted => ("deleted", "the queue was deleted"),
        _ => ("refused", "the broker refused the message"),
    };
    AmqpError {
        info: Some(vec![entry("queue", node), entry("reason", key)]),
        ..error(condition_of(reason), text)
    }
}

fn entry(key: &'static str, text: &str) -> (Value, Value) {
    (
        Value::Symbol(Symbol::from_static(key)),
        Value::Str(Str::from(text)),
    )
}

/// The error of a message that its queue does not take: its info names the field for programs.
pub(super) fn of_unfit(unfit: &Unfit, node: &str) -> AmqpError {
    let (condition, key) = match unfit {
        Unfit::NoSchema => (condition::PRECONDITION_FAILED, "schema-required"),
        Unfit::NoBody | Unfit::Mismatch { .. } => (condition::DECODE_ERROR, "schema"),
    };
    let mut info = vec![entry("queue", node), entry("reason", key)];
    if !unfit.path().is_empty() {
        info.push(entry("path", unfit.path()));
    }
    AmqpError {
        info: Some(info),
        ..error(condition, &unfit.to_string())
    }
}

/// The error of a message for which a queue has no room; the exchange that routed it there, if one did.
pub(super) fn full(queue: &str, exchange: Option<&str>) -> AmqpError {
    let name = quoted(queue);
    let text = match exchange {
        Some(exchange) => format!(
            "the queue {name} of the exchange {} is full, so none of its queues has the message; try again later",
            quoted(exchange)
        ),
        None => format!("the queue {name} is full; try again later"),
    };
    let mut info = vec![entry("queue", queue), entry("reason", "limit")];
    info.extend(exchange.map(|exchange| entry("exchange", exchange)));
    AmqpError {
        info: Some(info),
        ..error(condition_of(Reason::LimitExceeded), &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_not_told_as_a_full_queue() {
        let error = rejection(Reason::DiskFull, "q");
        assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
        let text = error.description.expect("a description");
        assert!(text.contains("disk") && !text.contains("queue"), "{text:?}");
        let info = error.info.expect("an info map");
        assert_eq!(info, [entry("queue", "q"), entry("reason", "disk")]);
    }
}
