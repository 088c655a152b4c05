//! Who may come in with a token: a file with one token per line.
//!
//! Empty lines and lines that begin with `#` are skipped; `# name: NAME` right above a token says what it is called, for
//! lists. Tokens are compared without a hint in the time it takes, and
//! are never printed.

use std::fmt;

use qq_core::face::{Login, LoginAnswer};
use qq_http::TokenInfo;
use subtle::{Choice, ConstantTimeEq};

use super::lockout::{Lockout, Rules};
use crate::config::{Config, Origin, Problem};

/// The tokens, shared with whoever reads them again.
pub(crate) type SharedTokens = std::sync::Arc<std::sync::Mutex<Tokens>>;

/// A token and what may be told of it.
struct Token {
    secret: String,
    info: TokenInfo,
}

/// The tokens of QWER-Q.
pub(crate) struct Tokens {
    tokens: Vec<Token>,
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
            tokens: parse(&text)
                .into_iter()
                .chain(own.map(|own| Token {
                    secret: own.to_owned(),
                    info: TokenInfo {
                        name: None,
                        line: None,
                    },
                }))
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

    /// What may be told of them.
    pub(crate) fn infos(&self) -> impl Iterator<Item = TokenInfo> {
        self.tokens.iter().map(|token| token.info.clone())
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
            found |= token.secret.as_bytes().ct_eq(login.response);
        }
        if bool::from(found) {
            self.lockout.on_success(ip, b"");
            return LoginAnswer::Accepted;
        }
        let delay = self.lockout.on_failure(now, ip, b"");
        LoginAnswer::Denied { delay }
    }
}

fn parse(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut name = None;
    for (at, line) in text.lines().map(str::trim).enumerate() {
        if line.starts_with('#') {
            // No other comment is ever shown: it may be a token that somebody switched off.
            let named = line.strip_prefix("# name:").map(str::trim);
            name = named.filter(|name| !name.is_empty()).map(str::to_owned);
        } else if line.is_empty() {
            name = None;
        } else {
            tokens.push(Token {
                secret: line.to_owned(),
                info: TokenInfo {
                    name: name.take(),
                    line: Some(at + 1),
                },
            });
        }
    }
    tokens
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_required {
            true => write!(f, "{} tokens", self.tokens.len()),
            false => write!(f, "no token required"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_right_above_its_token() {
        let text =
            "# name: scraper\nfirst\nsecond\n\n# name: lost\n\n# 0ld-t0ken\n# name:\nthird\n";
        let told: Vec<_> = parse(text)
            .into_iter()
            .map(|token| (token.secret, token.info.name, token.info.line))
            .collect();
        let token = |secret: &str, name: Option<&str>, line| {
            (secret.to_owned(), name.map(str::to_owned), Some(line))
        };
        let expected = [
            token("first", Some("scraper"), 2),
            token("second", None, 3),
            token("third", None, 9),
        ];
        assert_eq!(told, expected);
    }
}
