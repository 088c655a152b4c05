//! Metrics in Prometheus' text format 0.0.4: the names of the QWER-Q document with their labels, and `qq_*` for the rest.
//!
//! Queues that come and go with links and connections share one label, and so do those beyond a number, so that no
//! client can make the scrape grow without bound.

use std::fmt::Write as _;

use qq_core::admin::{NodeStats, QueueRow, Totals};

use crate::api::{node, queues};
use crate::backend::Backend;
use crate::problem::Problem;

/// Queues with a label of their own.
const QUEUES_MAX: usize = 10_000;
/// The label of queues that belong to a link or connection; no queue can be declared with such a name.
const TEMPORARY: &str = "_temporary";
/// The label of queues beyond the number.
const OTHER: &str = "_other";

/// What one label counts.
struct Sample<'a> {
    queue: &'a str,
    depth: u64,
    in_flight: u64,
    bytes: u64,
    paged: u64,
    consumers: u64,
    producers: u64,
    totals: Totals,
}

impl<'a> Sample<'a> {
    fn empty(queue: &'a str) -> Self {
        Self {
            queue,
            depth: 0,
            in_flight: 0,
            bytes: 0,
            paged: 0,
            consumers: 0,
            producers: 0,
            totals: Totals::default(),
        }
    }

    fn add(&mut self, row: &QueueRow) {
        self.depth += row.depth;
        self.in_flight += row.in_flight;
        self.bytes += row.bytes;
        self.paged += row.paged;
        self.consumers += row.consumers;
        self.producers += row.producers;
        self.totals.add(&row.totals);
    }
}

type OfQueue = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Sample<'_>) -> u64,
);

/// Metrics with the label `queue`: name, kind, help, value.
const OF_QUEUES: &[OfQueue] = &[
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

type OfNode = (
    &'static str,
    &'static str,
    &'static str,
    fn(&NodeStats) -> u64,
);

/// Metrics of the node.
const OF_NODE: &[OfNode] = &[
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

/// The whole scrape.
pub(crate) fn text(backend: &dyn Backend) -> Result<String, Problem> {
    let stats = node::node_stats(backend)?;
    let mut rows = queues::rows(backend)?;
    rows.sort_unstable_by(|a, b| a.spec.name.cmp(&b.spec.name));
    let mut out = String::with_capacity(4_096 + rows.len() * 1_200);
    put_node(&mut out, backend, &stats);
    put_queues(&mut out, &samples(&rows));
    Ok(out)
}

fn samples(rows: &[QueueRow]) -> Vec<Sample<'_>> {
    let mut found = Vec::with_capacity(rows.len().min(QUEUES_MAX) + 2);
    let (mut temporary, mut other) = (Sample::empty(TEMPORARY), Sample::empty(OTHER));
    let mut has_other = false;
    for row in rows {
        if row.is_temporary {
            temporary.add(row);
        } else if found.len() < QUEUES_MAX {
            let mut sample = Sample::empty(&row.spec.name);
            sample.add(row);
            found.push(sample);
        } else {
            has_other = true;
            other.add(row);
        }
    }
    found.push(temporary);
    if has_other {
        found.push(other);
    }
    found
}

fn put_queues(out: &mut String, samples: &[Sample<'_>]) {
    let labels: Vec<String> = samples.iter().map(|sample| escaped(sample.queue)).collect();
    for (name, kind, help, value) in OF_QUEUES {
        put_head(out, name, kind, help);
        for (sample, label) in samples.iter().zip(&labels) {
            out.push_str(name);
            out.push_str("{queue=\"");
            out.push_str(label);
            out.push_str("\"} ");
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{}", value(sample));
        }
    }
}

fn put_node(out: &mut String, backend: &dyn Backend, stats: &NodeStats) {
    let node = backend.node();
    for (name, kind, help, value) in OF_NODE {
        put_head(out, name, kind, help);
        let _ = writeln!(out, "{name} {}", value(stats));
    }
    put_head(out, "qq_alarm", "gauge", "1 while something is wrong");
    for name in ["memory", "disk", "damaged"] {
        let is_on = stats.alarms.iter().any(|alarm| alarm.name == name);
        let _ = writeln!(out, "qq_alarm{{name=\"{name}\"}} {}", u8::from(is_on));
    }
    put_head(out, "qq_build_info", "gauge", "What runs; always 1");
    let (version, runtime, store) = (
        escaped(&node.version),
        escaped(&node.runtime),
        escaped(&node.store),
    );
    let _ = writeln!(
        out,
        "qq_build_info{{version=\"{version}\",runtime=\"{runtime}\",store=\"{store}\"}} 1"
    );
    let (memory, threads) = backend.process();
    put_head(
        out,
        "process_resident_memory_bytes",
        "gauge",
        "Memory of the process",
    );
    let _ = writeln!(out, "process_resident_memory_bytes {memory}");
    put_head(out, "qq_threads", "gauge", "Threads of the process");
    let _ = writeln!(out, "qq_threads {threads}");
    put_head(
        out,
        "process_start_time_seconds",
        "gauge",
        "When the process started, since the Unix epoch",
    );
    let start_ms = node.started_at_ms;
    let _ = writeln!(
        out,
        "process_start_time_seconds {}.{:03}",
        start_ms / 1_000,
        start_ms % 1_000
    );
}

fn put_head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A label's value as the format wants it.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use qq_core::broker::QueueSpec;

    use super::*;

    fn row(name: &str, is_temporary: bool) -> QueueRow {
        QueueRow {
            spec: Arc::new(QueueSpec::new(name)),
            depth: 1,
            in_flight: 0,
            bytes: 0,
            paged: 0,
            consumers: 0,
            producers: 0,
            is_damaged: false,
            is_temporary,
            totals: Totals::default(),
        }
    }

    #[test]
    fn temporary_queues_and_too_many_share_labels() {
        let mut rows: Vec<QueueRow> = (0..QUEUES_MAX + 5)
            .map(|n| row(&n.to_string(), false))
            .collect();
        rows.extend((0..50).map(|n| row(&format!("_reply.{n}"), true)));
        let samples = samples(&rows);
        assert_eq!(samples.len(), QUEUES_MAX + 2);
        let depth = |name: &str| {
            samples
                .iter()
                .find(|sample| sample.queue == name)
                .map(|sample| sample.depth)
        };
        assert_eq!((depth(TEMPORARY), depth(OTHER)), (Some(50), Some(5)));
    }

    #[test]
    fn mt_01_labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd}\té😀"), "a\\\"b\\\\c\\nd}\té😀");
    }
}
