//! Puts the parts together and takes them apart again.

use std::sync::{Arc, Mutex};

use qq_core::broker::Broker;
use qq_core::store::Store;

use crate::accept::accept_loop;
use crate::admission::Admission;
use crate::clock::Clock;
use crate::config::{Config, RuntimeError};
use crate::driver::Driver;
use crate::io::IoThreads;
use crate::peer::Shared;
use crate::post::Inbox;
use crate::shutdown::Shutdown;
use crate::store::StorePort;

/// Recovers the broker from its store, then serves until `shutdown` is triggered and the drain is done. The calling
/// thread becomes the first IO thread.
///
/// # Errors
/// When the store cannot be recovered or a thread or socket cannot be had (nothing was served then), when the broker
/// gave up, or when the last flush failed.
pub fn run(
    mut config: Config,
    mut broker: Broker,
    mut store: Box<dyn Store>,
    shutdown: Shutdown,
    clock: Clock,
) -> Result<(), RuntimeError> {
    store.recover(&mut |op| broker.recover(op))?;
    broker.recovered(clock.now());
    let inbox = Arc::new(Inbox::new());
    let shared = Arc::new(Shared {
        clock,
        inbox: Arc::clone(&inbox),
        admission: Mutex::new(Admission::new(&config, files_max())),
        slow_reader: config.slow_reader,
        read_bytes: config.read_buffer_bytes.max(512),
        transmit_bytes: config.transmit_budget_bytes.max(512),
    });
    let threads = match config.io_threads {
        0 => std::thread::available_parallelism()
            .map_or(1, |cores| cores.get() - 1)
            .max(1),
        given => given,
    };
    let io = IoThreads::start(threads)?;
    let store = StorePort::start(store, inbox)?;
    let mut driver = Driver::new(
        broker,
        store,
        Arc::clone(&shared),
        shutdown.clone(),
        config.drain_grace,
    );
    let finished = io.run_first(async {
        for listener in config.listeners.drain(..) {
            let accept = accept_loop(
                listener,
                Arc::clone(&shared),
                io.spawner(),
                shutdown.clone(),
            )?;
            io.spawner().spawn(0, accept);
        }
        // A task of its own: the runtime wakes those without a system call.
        let driving = async move {
            std::future::poll_fn(|cx| driver.poll(cx)).await;
            driver
        };
        Ok::<_, RuntimeError>(io.spawner().run(driving).await)
    });
    io.stop();
    finished?.finish()
}

/// The soft limit of open files, where the system tells.
fn files_max() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
