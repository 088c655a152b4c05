//! The runtime that this build was made for. Both serve the same bytes; tokio wins when both are built in.

#[cfg(feature = "runtime-tokio")]
pub(crate) use qq_runtime_tokio::{
    Clock, Config, Listener, Meter, Operators, Recovered, RuntimeError, Shutdown, metered, run,
};

#[cfg(all(feature = "runtime-smol", not(feature = "runtime-tokio")))]
pub(crate) use qq_runtime_smol::{
    Clock, Config, Listener, Meter, Operators, Recovered, RuntimeError, Shutdown, metered, run,
};

#[cfg(not(any(feature = "runtime-tokio", feature = "runtime-smol")))]
compile_error!("qqd needs a runtime: build with the feature tokio (default) or smol");

/// For logs.
pub(crate) const NAME: &str = if cfg!(feature = "runtime-tokio") {
    "tokio"
} else {
    "smol"
};
