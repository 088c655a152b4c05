//! Whole queues: QUEUE_DECLARE, QUEUE_DELETE, QUEUE_PURGE, QUEUE_LIST and QUEUE_STATS.

use qq_proto_binary::connection::ReplyTo;
use qq_proto_binary::error::{ErrorCode, text};
use qq_proto_binary::message::{
    ExtendVisibilityResponse, FailurePolicy as WireFailurePolicy, Overflow as WireOverflow,
    QueueDeclareRequest, QueueDeclareResponse, QueueDeleteRequest, QueueDeleteResponse, QueueInfo,
    QueueKind, QueueListResponse, QueuePurgeRequest, QueuePurgeResponse, QueueStatsRequest,
    QueueStatsResponse,
};
use qq_proto_binary::reply::Reply;

use super::{BinaryFace, refusal, schema};
use crate::broker::{Backoff, FailurePolicy, Overflow, PRIORITY_LEVELS_MAX, QueueSpec};
use crate::schema::SchemaMode;
use crate::vocab::{Answer, Ask, AskId, Command, QueueNumbers};

/// Who waits for the answer to a question.
#[derive(Debug)]
pub(super) struct Asked {
    reply_to: ReplyTo,
}

impl BinaryFace {
    pub(super) fn on_declare(&mut self, reply_to: ReplyTo, declare: QueueDeclareRequest) {
        if declare.passive {
            let name = declare.queue;
            return self.ask(reply_to, Ask::Find { name });
        }
        match spec_of(&self.config.queue_spec, declare) {
            Ok(spec) => self.ask(reply_to, Ask::Declare { spec }),
            Err(what) => self.refuse_unoffered(reply_to, what),
        }
    }

    pub(super) fn on_delete(&mut self, reply_to: ReplyTo, delete: QueueDeleteRequest) {
        let ask = Ask::Delete {
            name: delete.queue,
            if_unused: delete.if_unused,
            if_empty: delete.if_empty,
        };
        self.ask(reply_to, ask);
    }

    pub(super) fn on_purge(&mut self, reply_to: ReplyTo, purge: QueuePurgeRequest) {
        self.ask(reply_to, Ask::Purge { name: purge.queue });
    }

    pub(super) fn on_list(&mut self, reply_to: ReplyTo) {
        self.ask(reply_to, Ask::List);
    }

    pub(super) fn on_stats(&mut self, reply_to: ReplyTo, stats: QueueStatsRequest) {
        self.ask(reply_to, Ask::Numbers { name: stats.queue });
    }

    pub(super) fn ask(&mut self, reply_to: ReplyTo, ask: Ask) {
        let id = self.await_answer(reply_to);
        self.commands.push(Command::Ask {
            id,
            ask: Box::new(ask),
        });
    }

    /// The number for a question whose answer somebody waits for.
    pub(super) fn await_answer(&mut self, reply_to: ReplyTo) -> AskId {
        let id = AskId(self.next_ask);
        self.next_ask += 1;
        self.asked.insert(id, Asked { reply_to });
        id
    }

    pub(super) fn on_answered(&mut self, id: AskId, answer: Answer) {
        let Some(Asked { reply_to }) = self.asked.remove(&id) else {
            return;
        };
        let reply = match answer {
            Answer::OffsetStored { next } => return self.answer_commit(reply_to, next),
            Answer::NoStream => {
                return self.refuse(reply_to, ErrorCode::NotFound, text::STREAM_NOT_FOUND);
            }
            Answer::Declared { is_new, numbers } => Reply::QueueDeclared(QueueDeclareResponse {
                queue: numbers.name,
                created: is_new,
                message_count: numbers.waiting,
                consumer_count: numbers.consumers,
            }),
            Answer::Deleted { messages } => Reply::QueueDeleted(QueueDeleteResponse {
                message_count: messages,
            }),
            Answer::Purged { messages } => Reply::QueuePurged(QueuePurgeResponse {
                message_count: messages,
            }),
            Answer::Listed(all) => {
                let queues = all.into_iter().map(info_of).collect();
                Reply::QueueList(QueueListResponse { queues })
            }
            Answer::Numbers(numbers) => Reply::QueueStats(Box::new(stats_of(numbers))),
            Answer::Extended { until_ms } => Reply::Extended(ExtendVisibilityResponse {
                new_visible_at: until_ms,
            }),
            Answer::SchemaRegistered(version) => schema::reply_of(&version, false),
            Answer::Schema(Some(version)) => schema::reply_of(&version, true),
            Answer::Schemas(all) => schema::list_of(all),
            Answer::Schema(None) => {
                return self.refuse(reply_to, ErrorCode::SchemaMissing, text::SCHEMA_NOT_FOUND);
            }
            Answer::SchemaRefused(refused) => {
                let text = refusal::of_schema(&refused);
                return self.refuse(reply_to, ErrorCode::SchemaRefused, &text);
            }
            Answer::Conflict(refusal) => {
                return self.refuse(reply_to, ErrorCode::Conflict, &refusal.text);
            }
            Answer::InUse(refusal) => {
                return self.refuse(reply_to, ErrorCode::InUse, &refusal.text);
            }
            Answer::Refused(refusal) => return self.refuse_with(reply_to, &refusal),
        };
        self.reply(reply_to, &reply);
    }
}

/// A line of a list.
fn info_of(numbers: QueueNumbers) -> QueueInfo {
    QueueInfo {
        name: numbers.name,
        // Of a stream the last sequence, as the first clients expect it.
        message_count: u32::try_from(match numbers.is_stream {
            true => numbers.next_position,
            false => numbers.waiting,
        })
        .unwrap_or(u32::MAX),
        in_flight_count: u32::try_from(numbers.held).unwrap_or(u32::MAX),
    }
}

fn stats_of(numbers: QueueNumbers) -> QueueStatsResponse {
    let stream_only = |position: u64| match numbers.is_stream {
        true => position.saturating_add(1),
        false => 0,
    };
    QueueStatsResponse {
        queue: numbers.name,
        message_count: numbers.waiting,
        in_flight_count: numbers.held,
        consumer_count: numbers.consumers,
        bytes: numbers.bytes,
        published_total: numbers.next_position,
        kind: match numbers.is_stream {
            true => QueueKind::Stream as i32,
            false => QueueKind::Queue as i32,
        },
        first_sequence: stream_only(numbers.first_position),
        next_sequence: stream_only(numbers.next_position),
        ..QueueStatsResponse::default()
    }
}

/// How a queue's messages wait between attempts, if the definition says anything about it.
fn backoff_of(declare: &QueueDeclareRequest) -> Option<Backoff> {
    let has_backoff = declare.retry_backoff_min_ms > 0
        || declare.retry_backoff_max_ms > 0
        || declare.retry_backoff_factor_percent > 0;
    let factor = match declare.retry_backoff_factor_percent / 100 {
        0 => Backoff::default().factor,
        factor => factor,
    };
    has_backoff.then(|| Backoff {
        min_ms: given(declare.retry_backoff_min_ms).unwrap_or(Backoff::default().min_ms),
        max_ms: given(declare.retry_backoff_max_ms).unwrap_or(Backoff::default().max_ms),
        factor,
    })
}

/// What it asks for and this broker does not offer.
fn unoffered(declare: &QueueDeclareRequest) -> Option<&'static str> {
    [
        (
            declare.priority_max > u32::from(PRIORITY_LEVELS_MAX),
            "a `priority_max` above 32",
        ),
        (
            !declare.retry_backoff_factor_percent.is_multiple_of(100),
            "a `retry_backoff_factor_percent` that is no multiple of 100",
        ),
        (
            !declare.arguments.is_empty(),
            "`arguments` other than `schema` and `schema_mode`",
        ),
    ]
    .into_iter()
    .find_map(|(is_asked, what)| is_asked.then_some(what))
}

/// A definition of a queue.
///
/// # Errors
/// The setting that this broker does not offer.
fn spec_of(
    defaults: &QueueSpec,
    mut declare: QueueDeclareRequest,
) -> Result<QueueSpec, &'static str> {
    let overflow = match WireOverflow::try_from(declare.overflow) {
        Ok(WireOverflow::Unspecified) => defaults.overflow,
        Ok(WireOverflow::Reject) => Overflow::Reject,
        Ok(WireOverflow::DropHead) => Overflow::DropHead,
        Ok(WireOverflow::RejectDlx) => Overflow::RejectDlx,
        Err(_) => return Err("this `overflow`"),
    };
    let failure_policy = match WireFailurePolicy::try_from(declare.failure_policy) {
        Ok(WireFailurePolicy::Unspecified) => defaults.failure_policy,
        Ok(WireFailurePolicy::Dlq) => FailurePolicy::Dlq,
        Ok(WireFailurePolicy::Drop) => FailurePolicy::Drop,
        Ok(WireFailurePolicy::Infinite) => FailurePolicy::Infinite,
        Err(_) => return Err("this `failure_policy`"),
    };
    let schema_mode = match declare.arguments.remove("schema_mode").as_deref() {
        None => defaults.schema_mode,
        Some("permissive") => Some(SchemaMode::Permissive),
        Some("strict") => Some(SchemaMode::Strict),
        Some(_) => return Err("this `schema_mode`"),
    };
    let schema = declare.arguments.remove("schema");
    if let Some(what) = unoffered(&declare) {
        return Err(what);
    }
    if declare.kind == QueueKind::Stream as i32 {
        return stream_of(declare, schema, schema_mode);
    }
    let retry_backoff = backoff_of(&declare);
    Ok(QueueSpec {
        name: declare.queue,
        expires_ms: given(declare.expires_ms).or(defaults.expires_ms),
        max_priority: match declare.priority_max {
            0 => defaults.max_priority,
            levels => u8::try_from(levels).unwrap_or(PRIORITY_LEVELS_MAX),
        },
        max_deliveries: declare.deliveries_max.unwrap_or(defaults.max_deliveries),
        failure_policy,
        dead_letter_exchange: named(declare.dead_letter_exchange)
            .or_else(|| defaults.dead_letter_exchange.clone()),
        dead_letter_routing_key: named(declare.dead_letter_routing_key)
            .or_else(|| defaults.dead_letter_routing_key.clone()),
        schema: schema.or_else(|| defaults.schema.clone()),
        schema_mode,
        durable: declare.durable.unwrap_or(defaults.durable),
        exclusive: declare.exclusive,
        auto_delete: declare.auto_delete,
        message_ttl_ms: given(declare.message_ttl_ms).or(defaults.message_ttl_ms),
        max_length: given(declare.length_max).or(defaults.max_length),
        max_bytes: given(declare.bytes_max).or(defaults.max_bytes),
        max_age_ms: given(declare.age_max_ms),
        overflow,
        retry_backoff: retry_backoff.or(defaults.retry_backoff),
        single_active_consumer: declare.single_active_consumer,
        dedup_window_ms: declare.dedup_window_ms.unwrap_or(defaults.dedup_window_ms),
        lock_timeout_ms: given(declare.lock_timeout_ms).or(defaults.lock_timeout_ms),
        ..defaults.clone()
    })
}

fn named(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn given(value: u64) -> Option<u64> {
    (value > 0).then_some(value)
}

/// A definition of a stream; what a stream cannot have, the broker refuses.
///
/// # Errors
/// The setting that this broker does not offer.
fn stream_of(
    declare: QueueDeclareRequest,
    schema: Option<String>,
    schema_mode: Option<SchemaMode>,
) -> Result<QueueSpec, &'static str> {
    let drops_head = [WireOverflow::Unspecified, WireOverflow::DropHead];
    if !WireOverflow::try_from(declare.overflow).is_ok_and(|asked| drops_head.contains(&asked)) {
        return Err("an `overflow` of streams other than DROP_HEAD");
    }
    let is_of_queues = declare.expires_ms > 0
        || declare.priority_max > 0
        || declare.deliveries_max.is_some()
        || declare.failure_policy != 0
        || !declare.dead_letter_exchange.is_empty()
        || !declare.dead_letter_routing_key.is_empty();
    if is_of_queues {
        return Err("expiry, priorities, limits of attempts and dead letters of streams");
    }
    Ok(QueueSpec {
        durable: declare.durable.unwrap_or(true),
        exclusive: declare.exclusive,
        auto_delete: declare.auto_delete,
        message_ttl_ms: given(declare.message_ttl_ms),
        max_length: given(declare.length_max),
        max_bytes: given(declare.bytes_max),
        max_age_ms: given(declare.age_max_ms),
        lock_timeout_ms: given(declare.lock_timeout_ms),
        schema,
        schema_mode,
        ..QueueSpec::stream(declare.queue)
    })
}
