//! Puts the parts together and takes them apart again.

use std::sync::Arc;

use qq_runtime::{AcceptLoop, Clock, Config, Recovered, RuntimeError, Shutdown, Timer, prepare};

use crate::acceptor::Acceptor;
use crate::io::{IoThreads, Spawner};
use crate::sleep::Sleep;

/// Serves until `shutdown` is triggered and the drain is done. The calling thread becomes the first IO thread.
///
/// # Errors
/// When a thread or socket cannot be had (nothing was served then), when the broker gave up, or when the last flush
/// failed.
pub fn run(
    config: Config,
    recovered: Recovered,
    shutdown: Shutdown,
    clock: Clock,
) -> Result<(), RuntimeError> {
    let (shared, mut driver) = prepare(&config, recovered, shutdown.clone(), clock)?;
    let io = IoThreads::start(config.threads())?;
    let finished = io.run_first(async {
        for listener in config.listeners {
            let mut accept = AcceptLoop::<Acceptor, Spawner, Sleep>::new(
                listener.name,
                Acceptor::new(listener.socket)?,
                listener.factory,
                Arc::clone(&shared),
                io.spawner(),
                shutdown.clone(),
            );
            let accepting = std::future::poll_fn(move |cx| accept.poll(cx));
            io.spawner().spawn(0, accepting);
        }
        let mut timer = Timer::<Sleep>::default();
        // A task of its own: the runtime wakes those without a system call.
        let driving = async move {
            std::future::poll_fn(|cx| {
                let poll = driver.poll(cx);
                if let (true, Some(at)) = (poll.is_pending(), driver.poll_timeout()) {
                    timer.arm(cx, &clock, clock.now().mono, at);
                }
                poll
            })
            .await;
            driver
        };
        Ok::<_, RuntimeError>(io.spawner().run(driving).await)
    });
    io.stop();
    finished?.finish()
}
