//! Signals: SIGTERM and SIGINT drain, SIGHUP reads the configuration again.

use std::io;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Starts the thread that waits for signals. `on_stop` is called for every SIGTERM and SIGINT, `on_hangup` for SIGHUP.
///
/// # Errors
/// When the handlers or the thread cannot be had.
pub(crate) fn start(
    on_stop: impl Fn() + Send + 'static,
    on_hangup: impl Fn() + Send + 'static,
) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if signal == SIGHUP {
                    on_hangup()
                } else {
                    on_stop()
                }
            }
        })?;
    Ok(())
}
