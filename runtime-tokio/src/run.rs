//! Puts the parts together and takes them apart again.

use std::sync::Arc;

use qq_runtime::{Clock, Config, Recovered, RuntimeError, Shutdown, prepare};

use crate::accept::accept_loop;
use crate::io::IoThreads;
use crate::timer::Timer;

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
            let accept = accept_loop(
                listener,
                Arc::clone(&shared),
                io.spawner(),
                shutdown.clone(),
            )?;
            io.spawner().spawn(0, accept);
        }
        let mut timer = Timer::default();
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
