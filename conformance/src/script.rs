//! What a script is, what it may fail with, and the macros scripts are written with.

use crate::kit::Kit;

/// What a broker must offer before a script makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// An address that is known not to exist (`Env::missing`).
    Missing,
    /// User and password for SASL PLAIN (`Env::login`).
    Login,
    /// A SASL layer that takes ANONYMOUS.
    Anonymous,
    /// A second queue that is created on first use has to be empty and cheap; always true for
    /// brokers that create queues on attach.
    AutoCreate,
    /// Long waits must cost nothing.
    VirtualTime,
}

/// Why a script did not pass.
#[derive(Debug, Clone)]
pub enum Failure {
    /// The broker broke a clause.
    Broke(String),
    /// The broker says honestly that it lacks an optional feature.
    Unsupported(String),
    /// The broker cannot be reached any more.
    Unreachable(String),
}

/// Result of a script or of a step in it.
pub type Done<T = ()> = Result<T, Failure>;

/// One scripted conversation.
#[derive(Clone, Copy)]
pub struct Script {
    /// Stable id, such as `SF-02`.
    pub id: &'static str,
    /// Ids of the clauses it checks.
    pub clauses: &'static [&'static str],
    /// Area, the name of the module that holds it.
    pub area: &'static str,
    /// What it checks, in a sentence.
    pub what: &'static str,
    /// What the broker must offer.
    pub needs: &'static [Need],
    /// The conversation.
    pub run: fn(&mut Kit) -> Done,
}

impl Script {
    /// A script without needs.
    pub const fn new(
        area: &'static str,
        id: &'static str,
        clauses: &'static [&'static str],
        what: &'static str,
        run: fn(&mut Kit) -> Done,
    ) -> Self {
        Self {
            id,
            clauses,
            area,
            what,
            needs: &[],
            run,
        }
    }

    /// The same script with needs.
    pub const fn needing(mut self, needs: &'static [Need]) -> Self {
        self.needs = needs;
        self
    }
}

/// A broken clause, with text made like `format!`.
#[macro_export]
macro_rules! broke {
    ($($arg:tt)*) => { $crate::script::Failure::Broke(format!($($arg)*)) };
}

/// Fails the script unless the condition holds; the rest is what the broker did, like `format!`.
#[macro_export]
macro_rules! ensure {
    ($cond:expr, $($arg:tt)*) => {
        if !$cond { return Err($crate::broke!($($arg)*)); }
    };
}

/// Fails the script unless both are equal; the text names what was compared.
#[macro_export]
macro_rules! same {
    ($left:expr, $right:expr, $($arg:tt)*) => {{
        let (left, right) = (&$left, &$right);
        if left != right {
            return Err($crate::broke!("{}: {left:?}, expected {right:?}", format!($($arg)*)));
        }
    }};
}
