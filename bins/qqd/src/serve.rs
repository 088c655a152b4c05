//! Puts store, broker, faces and runtime together and runs them.

use std::hash::{BuildHasher, Hasher};
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::{Arc, PoisonError, RwLock};

use qq_core::broker::{Broker, BrokerConfig, Limits};
use qq_store_mem::MemStore;

use crate::args::Args;
use crate::config::Config;
use crate::face::{SharedUsers, amqp_factory};
use crate::logging::{self, Log};
use crate::runtime::{self, Clock, Listener, Shutdown};
use crate::users::Users;
use crate::{complain, files, listen, read, signals};

/// Exit code of a broker that stopped by itself.
const EXIT_FAILED: u8 = 1;

/// Serves until a signal or a failure.
pub(crate) fn serve(args: Args, config: &Config, users: Users) -> ExitCode {
    let broker_config = broker_config(config);
    if let Err(refusal) = broker_config.check() {
        return complain([refusal.text]);
    }
    let amqp = match listen::bind("AMQP", config.amqp_address()) {
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
    let reload = reload(args, Arc::clone(&users), log.clone());
    let stop = shutdown.clone();
    let on_stop = move || {
        log::info!("asked to stop: draining");
        stop.trigger();
    };
    if let Err(error) = signals::start(on_stop, reload) {
        return complain([format!("signals cannot be handled: {error}")]);
    }
    announce(config, &amqp, &users);
    let runtime_config = runtime_config(config, amqp, &users);
    let broker = Broker::new(broker_config);
    let ended = runtime::run(
        runtime_config,
        broker,
        Box::new(MemStore::new()),
        shutdown,
        Clock::start(),
    );
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

fn broker_config(config: &Config) -> BrokerConfig {
    let memory_max_bytes = config.memory_max_bytes();
    BrokerConfig {
        limits: Limits {
            queues_max: config.limits.queues_max.to(),
            memory_high_bytes: memory_max_bytes / 5 * 4,
            memory_max_bytes,
        },
        queues: config.queue_specs(),
        auto_create_queues: config.defaults.auto_create_queues,
        auto_create_except: config.defaults.auto_create_except.0.clone(),
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

/// What an operator wants to see first.
fn announce(config: &Config, amqp: &TcpListener, users: &SharedUsers) {
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
        "qqd {} on {}: AMQP on {address}, store memory (nothing survives a restart), {} queues declared, \
         auto-creation of queues {auto_create}, login {login}, {user_count} users",
        env!("CARGO_PKG_VERSION"),
        runtime::NAME,
        config.queue_specs().len(),
    );
    if !address.ip().is_loopback() && !config.sasl.enabled {
        log::warn!(
            "AMQP on {address} is open to everybody who can reach it: set [sasl] enabled and [auth] users_file"
        );
    }
    for remark in &config.remarks {
        log::warn!("{remark}");
    }
}

/// What SIGHUP does: log level, users and log file anew; anything wrong leaves what was.
fn reload(args: Args, users: SharedUsers, log: Log) -> impl Fn() + Send + 'static {
    move || {
        log.reopen();
        match read(&args) {
            Ok((config, fresh)) => {
                logging::set_level(&config.logging);
                let count = fresh.len();
                *users.write().unwrap_or_else(PoisonError::into_inner) = fresh;
                log::info!(
                    "read again: log level {}, {count} users",
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
