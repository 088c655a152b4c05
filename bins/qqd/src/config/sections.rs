//! The sections of the configuration other than limits and topology: what can be set and what holds when it is not.

use std::net::{IpAddr, Ipv4Addr};

use super::amount::{Size, Span};
use super::key::Key;
use super::raw::Raw;
use super::setting::{Choice, Host, Maybe, Number, Setting, Text, Texts, toml_text};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const HOUR_MS: u64 = 3_600_000;
pub(super) const DAY_MS: u64 = 24 * HOUR_MS;
pub(super) const YEAR_MS: u64 = 366 * DAY_MS;

/// `[server]`: where to listen and how connections behave.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) bind_addr: Host,
    pub(crate) amqp_port: Number,
    pub(crate) max_frame_size: Size,
    pub(crate) idle_timeout: Span,
    pub(crate) io_threads: Number,
    pub(crate) drain_grace: Span,
    pub(crate) senders_second_mode: bool,
    pub(crate) tls_enabled: bool,
    tls_cert: Text,
    tls_key: Text,
    tls_client_ca: Text,
    amqps_port: Number,
    ws_bind_addr: Text,
    pub(crate) binary_enabled: bool,
    pub(crate) binary_port: Number,
    advertised_host: Text,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            bind_addr: Host(LOOPBACK),
            amqp_port: Number::port(5672),
            max_frame_size: Size::new(131_072, 512, 1 << 20),
            idle_timeout: Span::new(30_000, 1_000, DAY_MS).or_off(),
            io_threads: Number::new(0, 0, 256),
            drain_grace: Span::new(5_000, 0, HOUR_MS),
            senders_second_mode: false,
            tls_enabled: false,
            tls_cert: Text::default(),
            tls_key: Text::default(),
            tls_client_ca: Text::default(),
            amqps_port: Number::port(5671),
            ws_bind_addr: Text::default(),
            binary_enabled: true,
            binary_port: Number::port(9876),
            advertised_host: Text::default(),
        }
    }
}

impl Server {
    pub(super) fn keys(&mut self) -> Vec<Key<'_>> {
        vec![
            Key::new("bind_addr", &mut self.bind_addr, "address of all listeners"),
            Key::new(
                "amqp_port",
                &mut self.amqp_port,
                "port for AMQP 1.0; 0 takes any free one and logs it",
            ),
            Key::new(
                "max_frame_size",
                &mut self.max_frame_size,
                "largest frame that is accepted, announced to peers",
            ),
            Key::new(
                "idle_timeout",
                &mut self.idle_timeout,
                "idle-time-out that is announced; a peer that is silent for one and a half times as long is dropped",
            ),
            Key::new(
                "io_threads",
                &mut self.io_threads,
                "threads that serve connections; 0 is one less than there are cores, at least 1",
            ),
            Key::new(
                "drain_grace",
                &mut self.drain_grace,
                "how long a shutdown waits for deliveries that are not settled",
            ),
            Key::new(
                "senders_second_mode",
                &mut self.senders_second_mode,
                "give AMQP senders the receiver settle mode second when they ask for it; off, they get the first",
            ),
            Key::later(
                "tls_enabled",
                &mut self.tls_enabled,
                "serve TLS; true is refused, so that nobody takes plain sockets for encrypted ones",
            ),
            Key::later("tls_cert", &mut self.tls_cert, "certificate chain (PEM)"),
            Key::later("tls_key", &mut self.tls_key, "private key (PEM)"),
            Key::later(
                "tls_client_ca",
                &mut self.tls_client_ca,
                "authorities of client certificates (PEM)",
            ),
            Key::later("amqps_port", &mut self.amqps_port, "port for AMQP over TLS"),
            Key::later(
                "ws_bind_addr",
                &mut self.ws_bind_addr,
                "address and port for AMQP over WebSocket",
            ),
            Key::new(
                "binary_enabled",
                &mut self.binary_enabled,
                "serve QWER-Q, the binary protocol",
            ),
            Key::new(
                "binary_port",
                &mut self.binary_port,
                "port for QWER-Q; 0 takes any free one and logs it",
            ),
            Key::later(
                "advertised_host",
                &mut self.advertised_host,
                "name by which clients reach this node",
            ),
        ]
    }
}

/// The storage back ends of this build, the default first.
const BACKENDS: &[&str] = &[
    #[cfg(feature = "sqlite")]
    "sqlite",
    #[cfg(feature = "memory")]
    "memory",
];

/// The storage back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backend(pub(crate) &'static str);

impl Setting for Backend {
    fn read(&mut self, raw: Raw<'_>) -> Result<(), ()> {
        let text = raw.text().ok_or(())?;
        self.0 = BACKENDS
            .iter()
            .find(|name| name.eq_ignore_ascii_case(text))
            .ok_or(())?;
        Ok(())
    }

    fn allowed(&self) -> String {
        let names: Vec<String> = BACKENDS
            .iter()
            .map(|name| match *name {
                "sqlite" => "\"sqlite\" (which replaces RocksDB)".to_owned(),
                name => toml_text(name),
            })
            .collect();
        let missing = if cfg!(feature = "sqlite") {
            ""
        } else {
            " (\"sqlite\", which replaces RocksDB, is not in this build)"
        };
        names.join(" or ") + missing
    }

    fn show(&self) -> Option<String> {
        Some(toml_text(self.0))
    }
}

/// `[storage]`: where messages are kept.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    pub(crate) backend: Backend,
    pub(crate) path: Text,
    pub(crate) sync_writes: bool,
    pub(crate) cache_size_mb: Number,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            backend: Backend(BACKENDS[0]),
            path: Text::of("./qq-data"),
            sync_writes: true,
            cache_size_mb: Number::new(128, 1, 1 << 20),
        }
    }
}

impl Storage {
    pub(super) fn keys(&mut self) -> Vec<Key<'_>> {
        vec![
            Key::new(
                "backend",
                &mut self.backend,
                "where messages are kept; memory: nothing survives a restart",
            ),
            Key::new(
                "path",
                &mut self.path,
                "directory of the durable store, made when it is missing",
            ),
            Key::new(
                "sync_writes",
                &mut self.sync_writes,
                "confirm only what is on disk; false: what the system has taken, which a power cut or a crash of the system loses",
            ),
            Key::new(
                "cache_size_mb",
                &mut self.cache_size_mb,
                "MiB of memory for messages that are on disk as well, and for pages of the store",
            ),
        ]
    }
}

/// `[logging]`.
#[derive(Clone, Debug)]
pub(crate) struct Logging {
    pub(crate) level: Choice,
    pub(crate) format: Choice,
    pub(crate) file: Text,
}

impl Default for Logging {
    fn default() -> Self {
        Self {
            level: Choice::new("info", &["off", "error", "warn", "info", "debug", "trace"]),
            format: Choice::new("Pretty", &["Pretty", "JSON"]),
            file: Text::default(),
        }
    }
}

impl Logging {
    pub(super) fn keys(&mut self) -> Vec<Key<'_>> {
        vec![
            Key::new(
                "level",
                &mut self.level,
                "what is logged; read again on SIGHUP",
            ),
            Key::new(
                "format",
                &mut self.format,
                "lines for people or JSON objects",
            ),
            Key::new(
                "file",
                &mut self.file,
                "file to append to, opened again on SIGHUP; standard error when not set",
            ),
        ]
    }
}

/// `[sasl]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sasl {
    pub(crate) enabled: bool,
}

impl Sasl {
    pub(super) fn keys(&mut self) -> Vec<Key<'_>> {
        vec![Key::new(
            "enabled",
            &mut self.enabled,
            "every peer must log in with PLAIN; when false, ANONYMOUS and peers without SASL are let in as well",
        )]
    }
}

/// `[auth]`: who may log in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Auth {
    pub(crate) users_file: Text,
    pub(crate) tokens_file: Text,
}

impl Auth {
    pub(super) fn keys(&mut self) -> Vec<Key<'_>> {
        vec![
            Key::new(
                "users_file",
                &mut self.users_file,
                "file with one `name:password` per line; read again on SIGHUP",
            ),
            Key::new(
                "tokens_file",
                &mut self.tokens_file,
                "file with one token per line, any of which opens QWER-Q and the HTTP API; a line `# name: NAME` right above says what it is called in lists; read again on SIGHUP; without it QWER-Q needs none, or, with [sasl] enabled, lets nobody in",
            ),
        ]
    }
}

/// `[management]`.
#[derive(Clone, Debug)]
pub(crate) struct Management {
    pub(crate) enabled: bool,
    pub(crate) bind_addr: Host,
    pub(crate) port: Number,
    pub(crate) prometheus_enabled: bool,
    pub(crate) prometheus_path: Text,
}

impl Default for Management {
    fn default() -> Self {
        Self {
            enabled: true,
            bind_addr: Host(LOOPBACK),
            port: Number::port(8080),
            prometheus_enabled: true,
            prometheus_path: Text::of("/metrics"),
        }
    }
}

impl Management {
    pub(super) fn keys(&mut self) -> Vec<Key<'_>> {
        vec![
            Key::new(
                "enabled",
                &mut self.enabled,
                "serve the HTTP API, the dashboard and metrics",
            ),
            Key::new(
                "bind_addr",
                &mut self.bind_addr,
                "address of the HTTP API; other machines reach it only with [auth] configured",
            ),
            Key::new(
                "port",
                &mut self.port,
                "port of the HTTP API; 0 takes any free one and logs it",
            ),
            Key::new(
                "prometheus_enabled",
                &mut self.prometheus_enabled,
                "serve metrics",
            ),
            Key::new(
                "prometheus_path",
                &mut self.prometheus_path,
                "path of the metrics besides `/metrics`; neither the API nor the dashboard may be there",
            ),
        ]
    }
}

/// `[cluster]`.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    enabled: bool,
    node_id: Text,
    bind_addr: Host,
    cluster_port: Number,
    seeds: Texts,
    election_timeout: Span,
    heartbeat_interval: Span,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            enabled: false,
            node_id: Text::of("node-1"),
            bind_addr: Host(LOOPBACK),
            cluster_port: Number::port(5673),
            seeds: Texts::default(),
            election_timeout: Span::new(1_500, 10, HOUR_MS),
            heartbeat_interval: Span::new(500, 1, HOUR_MS),
        }
    }
}

impl Cluster {
    pub(super) fn keys(&mut self) -> Vec<Key<'_>> {
        vec![
            Key::later("enabled", &mut self.enabled, "be a node of a cluster"),
            Key::later("node_id", &mut self.node_id, "name of this node"),
            Key::later(
                "bind_addr",
                &mut self.bind_addr,
                "address for the other nodes",
            ),
            Key::later(
                "cluster_port",
                &mut self.cluster_port,
                "port for the other nodes",
            ),
            Key::later("seeds", &mut self.seeds, "nodes to ask at the start"),
            Key::later(
                "election_timeout",
                &mut self.election_timeout,
                "silence of the leader before an election",
            ),
            Key::later(
                "heartbeat_interval",
                &mut self.heartbeat_interval,
                "time between signs of life of the leader",
            ),
        ]
    }
}

/// `[defaults]`: what holds for queues that do not say otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    pub(crate) auto_create_queues: bool,
    pub(crate) auto_create_except: Texts,
    pub(crate) durable: bool,
    pub(crate) message_ttl: Maybe<Span>,
    pub(crate) max_length: Maybe<Number>,
    pub(crate) max_bytes: Maybe<Size>,
    pub(crate) overflow: Choice,
    pub(crate) max_deliveries: Number,
    pub(crate) failure_policy: Choice,
    pub(crate) lock_timeout: Maybe<Span>,
    pub(crate) dedup_window: Span,
    pub(crate) schema_mode: Choice,
    pub(crate) schema_compatibility: Choice,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            auto_create_queues: false,
            auto_create_except: Texts::default(),
            durable: true,
            message_ttl: Maybe::unset(Span::new(60_000, 0, YEAR_MS)),
            max_length: Maybe::unset(Number::new(1, 1, 1 << 40)),
            max_bytes: Maybe::unset(Size::new(1, 1, 1 << 50)),
            overflow: Choice::new("reject", &["reject", "drop-head", "reject-dlx"]),
            max_deliveries: Number::new(5, 0, 1_000_000),
            failure_policy: Choice::new("dlq", &["dlq", "drop", "infinite"]),
            lock_timeout: Maybe::unset(Span::new(30_000, 1_000, YEAR_MS)),
            dedup_window: Span::new(300_000, 1_000, YEAR_MS).or_off(),
            schema_mode: Choice::new("permissive", &["permissive", "strict"]),
            schema_compatibility: Choice::new("backward", &["none", "backward", "forward", "full"]),
        }
    }
}

impl Defaults {
    pub(super) fn keys(&mut self) -> Vec<Key<'_>> {
        vec![
            Key::new(
                "auto_create_queues",
                &mut self.auto_create_queues,
                "a link to an unknown name makes a queue of that name, and so does a message to it on an anonymous link",
            ),
            Key::new(
                "auto_create_except",
                &mut self.auto_create_except,
                "names with one of these beginnings are never made that way",
            ),
            Key::new(
                "durable",
                &mut self.durable,
                "queues survive a restart (with a durable store)",
            ),
            Key::new(
                "message_ttl",
                &mut self.message_ttl,
                "messages expire after this time",
            ),
            Key::new(
                "max_length",
                &mut self.max_length,
                "messages that a queue holds",
            ),
            Key::new(
                "max_bytes",
                &mut self.max_bytes,
                "bytes of payload that a queue holds",
            ),
            Key::new(
                "overflow",
                &mut self.overflow,
                "what a full queue does: refuse the new message, drop the oldest, or refuse the new one and keep it as a dead letter",
            ),
            Key::new(
                "max_deliveries",
                &mut self.max_deliveries,
                "failed attempts after which the failure policy applies; 0 is no limit",
            ),
            Key::new(
                "failure_policy",
                &mut self.failure_policy,
                "what becomes of messages that were tried too often, rejected or expired: dead letters (dlq), nothing (drop), or dead letters without a limit of attempts (infinite)",
            ),
            Key::new(
                "lock_timeout",
                &mut self.lock_timeout,
                "how long a consumer may hold a message without settling it",
            ),
            Key::new(
                "dedup_window",
                &mut self.dedup_window,
                "for how long a second message with the same key is known as a duplicate",
            ),
            Key::new(
                "schema_mode",
                &mut self.schema_mode,
                "messages are checked where there is a schema (permissive), or nothing can be published without one (strict)",
            ),
            Key::new(
                "schema_compatibility",
                &mut self.schema_compatibility,
                "what a new version of a schema is held to where its registration does not say: the new version reads what the old one wrote (backward), the old one what the new one writes (forward), both (full) or nothing (none)",
            ),
        ]
    }
}
