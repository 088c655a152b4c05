//! Metrics in Prometheus' text format 0.0.4: the names of the QWER-Q document with their labels, and `qq_*` for the rest.
//!
//! Queues that come and go with links and connections share one label, and so do those beyond a number, so that no
//! client can make the scrape grow without bound.

mod tables;
mod write;

use std::fmt::Write as _;

use qq_core::admin::{Histogram, NodeStats, QueueRow, Totals};

use crate::api::{node, queues};
use crate::backend::{Backend, StoreNumbers};
use crate::problem::Problem;
use tables::{OF_NODE, OF_QUEUES};
use write::{escaped, put_count, put_head, put_histogram, put_ms};

/// Queues with a label of their own.
const QUEUES_MAX: usize = 10_000;
/// The label of queues that belong to a link or connection; no queue can be declared with such a name.
const TEMPORARY: &str = "_temporary";
/// The label of queues beyond the number.
const OTHER: &str = "_other";

/// What one label counts.
struct Sample {
    /// The name of the queue, as the format wants it.
    label: String,
    depth: u64,
    in_flight: u64,
    bytes: u64,
    paged: u64,
    consumers: u64,
    producers: u64,
    /// When the oldest message came, wall clock.
    oldest_at_ms: Option<i64>,
    latency: Histogram,
    totals: Totals,
}

impl Sample {
    fn empty(queue: &str) -> Self {
        Self {
            label: escaped(queue),
            depth: 0,
            in_flight: 0,
            bytes: 0,
            paged: 0,
            consumers: 0,
            producers: 0,
            oldest_at_ms: None,
            latency: Histogram::default(),
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
        let both = [self.oldest_at_ms, row.oldest_at_ms];
        self.oldest_at_ms = both.into_iter().flatten().min();
        self.latency.add(&row.latency);
        self.totals.add(&row.totals);
    }
}

/// The whole scrape.
pub(crate) fn text(backend: &dyn Backend) -> Result<String, Problem> {
    let stats = node::node_stats(backend)?;
    let mut rows = queues::rows(backend)?;
    rows.sort_unstable_by(|a, b| a.spec.name.cmp(&b.spec.name));
    let mut out = String::with_capacity(4_096 + rows.len() * 2_200);
    put_node(&mut out, backend, &stats);
    let samples = samples(&rows);
    put_queues(&mut out, &samples);
    put_ages(&mut out, &samples, node::now_ms());
    put_latencies(&mut out, &samples);
    Ok(out)
}

fn samples(rows: &[QueueRow]) -> Vec<Sample> {
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

fn put_queues(out: &mut String, samples: &[Sample]) {
    for (name, kind, help, value) in OF_QUEUES {
        put_head(out, name, kind, help);
        for sample in samples {
            out.push_str(name);
            out.push_str("{queue=\"");
            out.push_str(&sample.label);
            out.push_str("\"} ");
            put_count(out, value(sample));
        }
    }
}

/// An empty queue has no oldest message and so no line.
fn put_ages(out: &mut String, samples: &[Sample], now_ms: i64) {
    let name = "qq_queue_oldest_message_age_seconds";
    let help = "How long ago the oldest message came, at most a few seconds too much for queues that grow slowly";
    put_head(out, name, "gauge", help);
    for sample in samples {
        if let Some(at_ms) = sample.oldest_at_ms {
            let age_ms = now_ms.saturating_sub(at_ms).max(0).cast_unsigned();
            let _ = write!(out, "{name}{{queue=\"{}\"}} ", sample.label);
            put_ms(out, age_ms);
        }
    }
}

/// A queue to which nobody published has no lines.
fn put_latencies(out: &mut String, samples: &[Sample]) {
    let name = "qwerq_publish_latency_seconds";
    put_head(out, name, "histogram", "Latency of publish operations");
    for sample in samples.iter().filter(|sample| sample.latency.count() > 0) {
        let label = format!("queue=\"{}\"", sample.label);
        put_histogram(out, name, &label, &sample.latency);
    }
}

/// What was refused, by the limit that was reached.
fn put_refusals(out: &mut String, stats: &NodeStats, kept_out: u64) {
    let name = "qq_limit_refusals_total";
    put_head(
        out,
        name,
        "counter",
        "What was refused, by the limit that was reached",
    );
    let refusals = &stats.refusals;
    for (limit, count) in [
        ("connections", kept_out),
        ("dedup_keys", refusals.dedup_keys),
        ("disk", refusals.disk),
        ("memory", refusals.memory),
        ("queue_full", refusals.queue_full),
        ("queues", refusals.queues),
    ] {
        let _ = writeln!(out, "{name}{{limit=\"{limit}\"}} {count}");
    }
}

/// Of a store with a disk.
fn put_store(out: &mut String, store: &StoreNumbers) {
    for (name, help, histogram) in [
        (
            "qq_store_commit_seconds",
            "How long commits of the store took, each with its sync",
            &store.commits,
        ),
        (
            "qq_store_fetch_seconds",
            "How long reads of bodies took",
            &store.fetches,
        ),
    ] {
        put_head(out, name, "histogram", help);
        put_histogram(out, name, "", histogram);
    }
    for (name, kind, help, value) in [
        (
            "qq_store_failures_total",
            "counter",
            "Commits and reads of the store that failed",
            store.failures,
        ),
        (
            "qq_store_bytes",
            "gauge",
            "Bytes of the files of the store",
            store.file_bytes,
        ),
        (
            "qq_store_wal_bytes",
            "gauge",
            "Bytes of its write-ahead log among them",
            store.journal_bytes,
        ),
    ] {
        put_head(out, name, kind, help);
        let _ = writeln!(out, "{name} {value}");
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
    put_refusals(out, stats, backend.kept_out());
    if let Some(store) = backend.store() {
        put_store(out, &store);
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
    out.push_str("process_start_time_seconds ");
    put_ms(out, u64::try_from(node.started_at_ms).unwrap_or(0));
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
            oldest_at_ms: None,
            latency: Histogram::default(),
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
                .find(|sample| sample.label == name)
                .map(|sample| sample.depth)
        };
        assert_eq!((depth(TEMPORARY), depth(OTHER)), (Some(50), Some(5)));
    }
}
