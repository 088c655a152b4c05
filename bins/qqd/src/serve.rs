//! Puts store, broker, faces and runtime together and runs them.

use std::hash::{BuildHasher, Hasher};
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use qq_core::broker::{Broker, BrokerConfig, Limits};
use qq_core::schema::{Compatibility, RegistryLimits, SchemaMode};
use qq_core::store::{StoreError, StoreFault};

use crate::binary::binary_factory;
use crate::config::Config;
use crate::face::amqp_factory;
use crate::http;
use crate::logging::{self, Log};
use crate::login::{SharedTokens, SharedUsers, Tokens, Users};
use crate::runtime::{self, Clock, Listener, Meter, Recovered, Shutdown};
use crate::{EXIT_FAILED, EXIT_USAGE, Given, complain, files, listen, read, signals, storage};

/// How long settlements that nobody waits for are collected for one sync: some syncs of a slow disk.
const LINGER: Duration = Duration::from_millis(10);

/// What a start needs, all of it possible.
pub(crate) struct Checked {
    broker_config: BrokerConfig,
    tokens: SharedTokens,
    doors: http::Doors,
}

/// Everything that keeps a configuration from being served and can be known without a port or a store.
///
/// # Errors
/// One line.
pub(crate) fn check(given: &Given, config: &Config) -> Result<Checked, String> {
    let broker_config = broker_config(config);
    broker_config.check().map_err(|refusal| refusal.text)?;
    let tokens = Tokens::of(config, given.token.as_deref());
    let tokens = tokens.map_err(|problem| problem.to_string())?;
    let tokens = Arc::new(Mutex::new(tokens));
    let doors = http::Doors::new(config, &tokens);
    let ports = [
        ("server.amqp_port", Some(config.amqp_address())),
        ("server.binary_port", config.binary_address()),
        ("management.port", doors.address(config)?),
    ];
    for (at, (name, address)) in ports.iter().enumerate() {
        let Some(address) = address.filter(|address| address.port() != 0) else {
            continue;
        };
        let same = ports[..at]
            .iter()
            .find(|(_, other)| *other == Some(address));
        if let Some((other, _)) = same {
            return Err(format!("{name} = {}: {other} is the same", address.port()));
        }
    }
    Ok(Checked {
        broker_config,
        tokens,
        doors,
    })
}

/// Serves until a signal or a failure.
pub(crate) fn serve(given: Given, config: &Config, users: Users) -> ExitCode {
    let Checked {
        broker_config,
        tokens,
        doors,
    } = match check(&given, config) {
        Ok(checked) => checked,
        Err(text) => return complain([text]),
    };
    let amqp = match listen::bind("AMQP", ("server", "amqp_port"), config.amqp_address()) {
        Ok(socket) => socket,
        Err(text) => return complain([text]),
    };
    let binary = match config.binary_address() {
        None => None,
        Some(address) => match listen::bind("QWER-Q", ("server", "binary_port"), address) {
            Ok(socket) => Some(socket),
            Err(text) => return complain([text]),
        },
    };
    let management = match doors.bind(config) {
        Ok(socket) => socket,
        Err(text) => return complain([text]),
    };
    let log = match logging::start(&config.logging) {
        Ok(log) => log,
        Err(problem) => return complain([problem]),
    };
    files::raise_limit();
    let shutdown = Shutdown::new();
    let users = Arc::new(RwLock::new(users));
    let reload = reload(given, Arc::clone(&users), Arc::clone(&tokens), log.clone());
    let stop = shutdown.clone();
    let on_stop = move || {
        log::info!("asked to stop: draining");
        stop.trigger();
    };
    if let Err(error) = signals::start(on_stop, reload) {
        return complain([format!("signals cannot be handled: {error}")]);
    }
    let clock = Clock::start();
    let recovered = match recover(config, broker_config, &clock) {
        Ok(recovered) => recovered,
        Err(code) => {
            log.finish();
            return code;
        }
    };
    announce(config, &amqp, &users, &recovered);
    announce_binary(binary.as_ref(), &tokens);
    let mut runtime_config = runtime_config(config, amqp, &users);
    runtime_config
        .listeners
        .extend(binary.map(|socket| Listener {
            name: "QWER-Q".to_owned(),
            socket,
            factory: binary_factory(config, tokens, random()),
        }));
    let operators = Arc::clone(&runtime_config.operators);
    let stored = (recovered.place.as_str(), recovered.meter.clone());
    let front = http::Front::new(config, &users, doors, stored, operators);
    let server = management.and_then(|socket| front.serve(socket));
    let ended = runtime::run(runtime_config, recovered.broker, shutdown, clock);
    if let Some(server) = server {
        server.stop();
    }
    finish(ended, &log)
}

/// Says how the run ended.
fn finish(ended: Result<(), runtime::RuntimeError>, log: &Log) -> ExitCode {
    let code = match ended {
        Ok(()) => {
            log::info!("stopped");
            ExitCode::SUCCESS
        }
        Err(error) => {
            log::error!("{error}");
            ExitCode::from(EXIT_FAILED)
        }
    };
    log.finish();
    code
}

/// A broker as its store left it, and what is said about the store.
struct Stored {
    broker: Recovered,
    place: String,
    warning: Option<&'static str>,
    /// What its disk costs, when it has one.
    meter: Option<Meter>,
}

/// Opens the store and replays it. What is wrong is one line on standard error and, when the log is elsewhere, in the log.
fn recover(
    config: &Config,
    mut broker_config: BrokerConfig,
    clock: &Clock,
) -> Result<Stored, ExitCode> {
    let fail = |error: StoreError, code: u8| {
        let place = match &config.storage.path.0 {
            Some(path) if config.storage.backend.0 == "sqlite" => format!("the store in {path}"),
            _ => "the store".to_owned(),
        };
        let text = error.text;
        let line = match error.fault {
            StoreFault::Damaged => format!(
                "{place} is damaged: {text}; nothing was changed: run qqd --check-store to see all of it, \
                 qqd --salvage to keep what can be trusted"
            ),
            StoreFault::NoRoom | StoreFault::Fatal => format!("{place} cannot be used: {text}"),
        };
        if config.logging.file.0.is_some() {
            log::error!("{line}");
        }
        complain([line]);
        let is_damaged = error.fault == StoreFault::Damaged;
        Err(ExitCode::from(if is_damaged { EXIT_FAILED } else { code }))
    };
    let opened = match storage::open(config) {
        Ok(opened) => opened,
        Err(error) => return fail(error, EXIT_USAGE),
    };
    if opened.paging.is_some() {
        broker_config.linger = LINGER;
    }
    broker_config.paging = opened.paging;
    let (store, meter) = runtime::metered(opened.store);
    match Recovered::new(Broker::new(broker_config), store, clock) {
        Ok(broker) => Ok(Stored {
            broker,
            place: opened.place,
            warning: opened.warning,
            meter,
        }),
        Err(error) => fail(error, EXIT_FAILED),
    }
}

fn broker_config(config: &Config) -> BrokerConfig {
    let memory_max_bytes = config.memory_max_bytes();
    BrokerConfig {
        limits: Limits {
            queues_max: config.limits.queues_max.to(),
            exchanges_max: config.limits.exchanges_max.to(),
            bindings_max: config.limits.bindings_max.to(),
            dedup_keys_max: config.limits.dedup_keys_max.to(),
            memory_high_bytes: memory_max_bytes / 5 * 4,
            memory_max_bytes,
            txn_parts_max: config.limits.transaction_parts_max.to(),
            txn_bytes_max: config.limits.transaction_bytes_max.to(),
        },
        queues: config.queue_specs(),
        exchanges: config.exchange_specs(),
        groups: config.group_specs(),
        bindings: config.binding_specs(),
        auto_create_queues: config.defaults.auto_create_queues,
        auto_create_except: config.defaults.auto_create_except.0.clone(),
        auto_create_spec: config.auto_create_spec(),
        schema_mode: match config.defaults.schema_mode.value() {
            "strict" => SchemaMode::Strict,
            _ => SchemaMode::Permissive,
        },
        schema_compatibility: Compatibility::ALL
            .into_iter()
            .find(|rule| rule.name() == config.defaults.schema_compatibility.value())
            .unwrap_or_default(),
        schema_limits: RegistryLimits {
            versions_max: config.limits.schema_versions_max.to(),
            subjects_max: config.limits.schemas_max.to(),
            bytes_max: config.limits.schemas_max_bytes.to(),
        },
        paging: None,
        linger: Duration::ZERO,
        hash_seed: random(),
    }
}

fn runtime_config(config: &Config, amqp: TcpListener, users: &SharedUsers) -> runtime::Config {
    let limits = &config.limits;
    runtime::Config {
        io_threads: config.server.io_threads.to(),
        listeners: vec![Listener {
            name: "AMQP".to_owned(),
            socket: amqp,
            factory: amqp_factory(config, users),
        }],
        connections_max: limits.connections_max.to(),
        connections_per_ip_max: limits.connections_per_ip_max.to(),
        unauthenticated_max: limits.unauthenticated_max.to(),
        unauthenticated_per_ip_max: limits.unauthenticated_per_ip_max.to(),
        drain_grace: config.server.drain_grace.duration(),
        slow_reader: limits.slow_reader_timeout.duration(),
        ..runtime::Config::default()
    }
}

/// A number that no peer can guess, from the random keys that the standard library makes for its maps.
fn random() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

/// The same about the other protocol.
fn announce_binary(socket: Option<&TcpListener>, tokens: &SharedTokens) {
    let Some(address) = socket.and_then(|socket| socket.local_addr().ok()) else {
        return;
    };
    let tokens = tokens.lock().unwrap_or_else(PoisonError::into_inner);
    log::info!("QWER-Q on {address}, {tokens}");
    if !address.ip().is_loopback() && !tokens.is_required() {
        log::warn!(
            "QWER-Q on {address} is open to everybody who can reach it: set [auth] tokens_file"
        );
    }
}

/// What an operator wants to see first.
fn announce(config: &Config, amqp: &TcpListener, users: &SharedUsers, stored: &Stored) {
    let address = amqp.local_addr().unwrap_or(config.amqp_address());
    let auto_create = if config.defaults.auto_create_queues {
        "on"
    } else {
        "off"
    };
    let login = if config.sasl.enabled {
        "required"
    } else {
        "not required"
    };
    let user_count = users.read().unwrap_or_else(PoisonError::into_inner).len();
    log::info!(
        "qqd {} on {}: AMQP on {address}, store {}: {} messages in {} queues, recovered in {} ms, \
         auto-creation of queues {auto_create}, login {login}, {user_count} users",
        env!("CARGO_PKG_VERSION"),
        runtime::NAME,
        stored.place,
        stored.broker.messages,
        stored.broker.queues,
        stored.broker.took.as_millis(),
    );
    if let Some(warning) = stored.warning {
        log::warn!("{warning}");
    }
    if !address.ip().is_loopback() && !config.sasl.enabled {
        log::warn!(
            "AMQP on {address} is open to everybody who can reach it: set [sasl] enabled and [auth] users_file"
        );
    }
    for remark in &config.remarks {
        log::warn!("{remark}");
    }
}

/// What SIGHUP does: log level, users, tokens and log file anew; anything wrong leaves what was.
fn reload(
    given: Given,
    users: SharedUsers,
    tokens: SharedTokens,
    log: Log,
) -> impl Fn() + Send + 'static {
    move || {
        log.reopen();
        let read = read(&given).and_then(|(config, users)| {
            let fresh = Tokens::of(&config, given.token.as_deref());
            Ok((config, users, fresh.map_err(|problem| vec![problem])?))
        });
        match read {
            Ok((config, fresh, fresh_tokens)) => {
                logging::set_level(&config.logging);
                let count = fresh.len();
                *users.write().unwrap_or_else(PoisonError::into_inner) = fresh;
                let mut tokens = tokens.lock().unwrap_or_else(PoisonError::into_inner);
                tokens.replace(fresh_tokens);
                log::info!(
                    "read again: log level {}, {count} users, {tokens}",
                    config.logging.level.value()
                );
            }
            Err(problems) => {
                for problem in problems {
                    log::error!("not read again: {problem}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Source, load};

    /// The ends of every range, from the reference page: they must fit the types that they are put into.
    #[test]
    fn the_ends_of_every_range_can_be_used() {
        let lowest = "[server]\nmax_frame_size = 512\nidle_timeout = \"1s\"\ndrain_grace = \"0s\"\n[limits]\n\
            connections_max = 1\nconnections_per_ip_max = 1\nunauthenticated_max = 1\nunauthenticated_per_ip_max = 1\n\
            first_bytes_timeout = \"10ms\"\nopen_timeout = \"10ms\"\nframe_size_before_open_max = 512\n\
            idle_timeout_peer_min = \"1ms\"\nsessions_max = 1\nlinks_per_session_max = 1\nlinks_max = 1\n\
            link_churn_burst = 1\nlink_churn_per_second = 1\nno_progress_frames_max = 1\nlink_credit = 1\n\
            session_window = 1\nmessage_size_max = 1\npartial_bytes_max = 1\n\
            partial_bytes_node_max = 1\nframes_per_message_min = 1\nbytes_per_frame_min = 1\n\
            login_delay_min = \"0s\"\nlogin_delay_max = \"0s\"\nlogin_failures_per_minute_max = 1\ndisk_free_min = 0\nunanswered_max = 1\n\
            unanswered_bytes_max = 1\nunsent_bytes_max = \"1KiB\"\nslow_reader_timeout = \"10ms\"\nqueues_max = 1\n\
            schemas_max = 1\nschema_versions_max = 1\nschemas_max_bytes = \"1MiB\"\nmemory_max = \"1MiB\"\n";
        let highest = "[server]\nmax_frame_size = \"1MiB\"\nidle_timeout = \"24h\"\nio_threads = 256\n\
            drain_grace = \"1h\"\n[limits]\n\
            connections_max = 1_000_000\nconnections_per_ip_max = 1_000_000\nunauthenticated_max = 1_000_000\n\
            unauthenticated_per_ip_max = 1_000_000\nfirst_bytes_timeout = \"24h\"\nopen_timeout = \"24h\"\n\
            frame_size_before_open_max = \"1MiB\"\nidle_timeout_peer_min = \"24h\"\nsessions_max = 65_535\n\
            links_per_session_max = 65_536\nlinks_max = 4_096\nlink_churn_burst = 1_000_000\n\
            link_churn_per_second = 1_000_000\nno_progress_frames_max = 1_000_000_000\nlink_credit = 65_536\n\
            session_window = 1_000_000\nmessage_size_max = \"1GiB\"\npartial_bytes_max = \"4GiB\"\n\
            partial_bytes_node_max = \"1024GiB\"\nframes_per_message_min = 1_000_000\nbytes_per_frame_min = \"1MiB\"\n\
            login_delay_min = \"10s\"\nlogin_delay_max = \"10s\"\nlogin_failures_per_minute_max = 10_000\n\
            disk_free_min = \"1048576GiB\"\n\
            unanswered_max = 1_000_000\nunanswered_bytes_max = \"4GiB\"\nunsent_bytes_max = \"4GiB\"\n\
            slow_reader_timeout = \"24h\"\nqueues_max = 10_000_000\n\
            schemas_max = 1_000_000\nschema_versions_max = 10_000\nschemas_max_bytes = \"1024GiB\"\nmemory_max = \"1024GiB\"\n";
        for (text, connections, memory) in [(lowest, 1, 1 << 20), (highest, 1_000_000, 1 << 40)] {
            let source = Source::new("test", text.to_owned());
            let config = load(Some(&source), []).expect("valid");
            let users = SharedUsers::default();
            let socket = TcpListener::bind("127.0.0.1:0").expect("a port is free");
            let runtime = runtime_config(&config, socket, &users);
            assert_eq!(runtime.connections_max, connections);
            assert_eq!(broker_config(&config).limits.memory_max_bytes, memory);
        }
    }
}
