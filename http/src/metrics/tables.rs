//! Which metrics there are of a queue and of the node, as far as each is one number.

use qq_core::admin::NodeStats;

use super::Sample;

pub(super) type OfQueue = (&'static str, &'static str, &'static str, fn(&Sample) -> u64);

/// Metrics with the label `queue`: name, kind, help, value.
pub(super) const OF_QUEUES: &[OfQueue] = &[
    (
        "qwerq_messages_published_total",
        "counter",
        "Total number of messages published",
        |s| s.totals.published,
    ),
    (
        "qwerq_messages_consumed_total",
        "counter",
        "Total number of messages consumed (delivered to consumers)",
        |s| s.totals.delivered,
    ),
    (
        "qwerq_messages_acked_total",
        "counter",
        "Total number of messages acknowledged",
        |s| s.totals.acked,
    ),
    (
        "qwerq_messages_nacked_total",
        "counter",
        "Total number of messages negatively acknowledged",
        |s| s.totals.nacked,
    ),
    (
        "qwerq_queue_depth",
        "gauge",
        "Current number of messages in queue (not in-flight)",
        |s| s.depth,
    ),
    (
        "qwerq_in_flight_count",
        "gauge",
        "Current number of in-flight messages",
        |s| s.in_flight,
    ),
    (
        "qwerq_messages_dlq_total",
        "counter",
        "Total number of messages sent to dead letter queue",
        |s| s.totals.dead_lettered,
    ),
    (
        "qwerq_duplicate_messages_total",
        "counter",
        "Total number of duplicate messages rejected",
        |s| s.totals.duplicates,
    ),
    (
        "qwerq_queue_full_errors_total",
        "counter",
        "Total number of queue full errors",
        |s| s.totals.refused,
    ),
    (
        "qwerq_call_requests_total",
        "counter",
        "Total number of CALL requests",
        |s| s.totals.calls,
    ),
    (
        "qwerq_call_timeouts_total",
        "counter",
        "Total number of CALL timeouts",
        |s| s.totals.call_timeouts,
    ),
    (
        "qq_messages_redelivered_total",
        "counter",
        "Deliveries of messages that a consumer had had before",
        |s| s.totals.redelivered,
    ),
    (
        "qq_messages_expired_total",
        "counter",
        "Messages whose time to live was over",
        |s| s.totals.expired,
    ),
    (
        "qq_messages_dropped_total",
        "counter",
        "Messages dropped from the head of a full queue",
        |s| s.totals.dropped,
    ),
    (
        "qq_queue_bytes",
        "gauge",
        "Bytes of payload of the messages that wait",
        |s| s.bytes,
    ),
    (
        "qq_queue_paged_messages",
        "gauge",
        "Messages whose bodies are on disk only",
        |s| s.paged,
    ),
    ("qq_queue_consumers", "gauge", "Open consumers", |s| {
        s.consumers
    }),
    ("qq_queue_producers", "gauge", "Open producers", |s| {
        s.producers
    }),
];

pub(super) type OfNode = (
    &'static str,
    &'static str,
    &'static str,
    fn(&NodeStats) -> u64,
);

/// Metrics of the node.
pub(super) const OF_NODE: &[OfNode] = &[
    ("qq_queues", "gauge", "Queues", |s| s.queues),
    ("qq_exchanges", "gauge", "Exchanges with a name", |s| {
        s.exchanges
    }),
    ("qq_bindings", "gauge", "Bindings", |s| s.bindings),
    (
        "qq_connections",
        "gauge",
        "Connections that passed their hand-shake",
        |s| s.connections,
    ),
    (
        "qq_sessions",
        "gauge",
        "Open sessions, where the protocol has them",
        |s| s.sessions,
    ),
    ("qq_links", "gauge", "Open producers and consumers", |s| {
        s.producers + s.consumers
    }),
    (
        "qq_consumer_permits",
        "gauge",
        "Deliveries that consumers have granted and not had; connections grant the broker a part of their credit",
        |s| s.permits,
    ),
    ("qq_producers", "gauge", "Open producers", |s| s.producers),
    ("qq_consumers", "gauge", "Open consumers", |s| s.consumers),
    ("qq_messages", "gauge", "Messages in all queues", |s| {
        s.messages
    }),
    (
        "qq_messages_in_flight",
        "gauge",
        "Messages that consumers hold",
        |s| s.in_flight,
    ),
    (
        "qq_messages_paged",
        "gauge",
        "Messages whose bodies are on disk only",
        |s| s.paged,
    ),
    (
        "qq_store_fetches",
        "gauge",
        "Requests for bodies that the store has not answered",
        |s| s.fetches,
    ),
    (
        "qq_memory_queued_bytes",
        "gauge",
        "What messages in memory cost",
        |s| s.queued_bytes,
    ),
    (
        "qq_memory_limit_bytes",
        "gauge",
        "Cost of messages in memory above which publishes are refused",
        |s| s.memory_max_bytes,
    ),
    (
        "qq_messages_rejected_total",
        "counter",
        "Messages that consumers rejected",
        |s| s.rejected,
    ),
    (
        "qq_messages_unroutable_total",
        "counter",
        "Publishes that no queue wanted",
        |s| s.unroutable,
    ),
    (
        "qq_store_batches_total",
        "counter",
        "Batches given to the store",
        |s| s.batches,
    ),
    (
        "qq_store_batched_changes_total",
        "counter",
        "Changes in those batches",
        |s| s.batched_ops,
    ),
    (
        "qq_published_total",
        "counter",
        "Messages that producers brought, queues that are gone included",
        |s| s.totals.published,
    ),
    (
        "qq_delivered_total",
        "counter",
        "Deliveries to consumers, queues that are gone included",
        |s| s.totals.delivered,
    ),
    (
        "qq_acked_total",
        "counter",
        "Deliveries that ended well, queues that are gone included",
        |s| s.totals.acked,
    ),
    (
        "qq_refused_total",
        "counter",
        "Publishes for which a queue or the broker had no room",
        |s| s.totals.refused,
    ),
    (
        "qq_draining",
        "gauge",
        "1 while the broker goes down",
        |s| s.is_draining.into(),
    ),
];
