//! Who may come in with a token: a file with one token per line.
//!
//! Empty lines and lines that begin with `#` are skipped. Tokens are compared without a hint in the time it takes, and
//! are never printed.

use std::fmt;

use qq_core::face::{Login, LoginAnswer};
use subtle::{Choice, ConstantTimeEq};

use super::lockout::{Lockout, Rules};
use crate::config::{Config, Origin, Problem};

/// The tokens, shared with whoever reads them again.
pub(crate) type SharedTokens = std::sync::Arc<std::sync::Mutex<Tokens>>;

/// The tokens of QWER-Q.
pub(crate) struct Tokens {
    tokens: Vec<String>,
    is_required: bool,
    lockout: Lockout,
}

impl Tokens {
    /// Those of the configuration, and `own`, which the program was started with.
    ///
    /// # Errors
    /// Their file cannot be read.
    pub(crate) fn of(config: &Config, own: Option<&str>) -> Result<Self, Problem> {
        let file = config.auth.tokens_file.0.as_deref();
        let text = match file {
            None => String::new(),
            Some(path) => std::fs::read_to_string(path).map_err(|error| {
                let origin = Origin::File {
                    path: path.to_owned(),
                    line: 0,
                };
                Problem::new(origin, format!("tokens file cannot be read: {error}"))
            })?,
        };
        let limits = &config.limits;
        Ok(Self {
            tokens: text
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .chain(own)
                .map(str::to_owned)
                .collect(),
            // Who asks for a login everywhere else must not be left with an open door here.
            is_required: file.is_some() || own.is_some() || config.sasl.enabled,
            lockout: Lockout::new(Rules {
                delay_min: limits.login_delay_min.duration(),
                delay_max: limits.login_delay_max.duration(),
                per_minute_max: limits.login_failures_per_minute_max.to(),
            }),
        })
    }

    /// Takes the tokens of `fresh`. Whether one is required stays as it was: connections were made for it.
    pub(crate) fn replace(&mut self, fresh: Self) {
        self.tokens = fresh.tokens;
    }

    /// Whether nobody comes in without one.
    pub(crate) fn is_required(&self) -> bool {
        self.is_required
    }

    pub(crate) fn answer(&mut self, login: &Login<'_>) -> LoginAnswer {
        let (now, ip) = (login.now.mono, login.peer.ip);
        if let Some(delay) = self.lockout.is_locked(now, ip) {
            return LoginAnswer::Denied { delay };
        }
        let mut found = Choice::from(0);
        for token in &self.tokens {
            found |= token.as_bytes().ct_eq(login.response);
        }
        if bool::from(found) {
            self.lockout.on_success(ip, b"");
            return LoginAnswer::Accepted;
        }
        let delay = self.lockout.on_failure(now, ip, b"");
        LoginAnswer::Denied { delay }
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_required {
            true => write!(f, "{} tokens", self.tokens.len()),
            false => write!(f, "no token required"),
        }
    }
}
