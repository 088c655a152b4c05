//! Who is let in: users and their passwords, and what wrong ones cost.

mod lockout;
mod tokens;
mod users;

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use qq_core::face::{Login, LoginAnswer};

use crate::config::Config;
use lockout::{Lockout, Rules};
pub(crate) use tokens::{SharedTokens, Tokens};
pub(crate) use users::Users;

/// How often at most a locked address is reported.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// The users, replaced as a whole when their file is read again.
pub(crate) type SharedUsers = Arc<RwLock<Users>>;

/// Answers logins for all listeners.
pub(crate) struct Door {
    is_login_required: bool,
    users: SharedUsers,
    books: Mutex<Books>,
}

struct Books {
    lockout: Lockout,
    report_at: Duration,
}

impl Door {
    pub(crate) fn new(config: &Config, users: &SharedUsers) -> Self {
        let limits = &config.limits;
        let rules = Rules {
            delay_min: limits.login_delay_min.duration(),
            delay_max: limits.login_delay_max.duration(),
            per_minute_max: limits.login_failures_per_minute_max.to(),
        };
        Self {
            is_login_required: config.sasl.enabled,
            users: Arc::clone(users),
            books: Mutex::new(Books {
                lockout: Lockout::new(rules),
                report_at: Duration::ZERO,
            }),
        }
    }

    pub(crate) fn answer(&self, login: &Login<'_>) -> LoginAnswer {
        match login.mechanism {
            "ANONYMOUS" if !self.is_login_required => LoginAnswer::Accepted,
            "PLAIN" => self.answer_plain(login),
            // Nothing was guessed.
            _ => LoginAnswer::Denied {
                delay: Duration::ZERO,
            },
        }
    }

    fn answer_plain(&self, login: &Login<'_>) -> LoginAnswer {
        let (now, ip) = (login.now.mono, login.peer.ip);
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(delay) = books.lockout.is_locked(now, ip) {
            if books.report_at <= now {
                books.report_at = now + REPORT_EVERY;
                log::warn!(
                    "{}: too many failed logins from this address; it is denied for up to a minute",
                    login.peer.address
                );
            }
            return LoginAnswer::Denied { delay };
        }
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        let user = users::plain_user(login.response);
        if users.is_plain_accepted(login.response) {
            books.lockout.on_success(ip, user);
            LoginAnswer::Accepted
        } else {
            let delay = books.lockout.on_failure(now, ip, user);
            LoginAnswer::Denied { delay }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use qq_core::broker::Now;
    use qq_core::face::PeerInfo;

    use super::*;
    use crate::config::{Source, load};

    fn door(toml: &str) -> Door {
        let source = Source::new("test", toml.to_owned());
        let config = load(Some(&source), []).expect("valid");
        let users = Users::parse("users", "ann:s3cret\n").expect("valid");
        Door::new(&config, &SharedUsers::new(RwLock::new(users)))
    }

    fn ask(door: &Door, second: u64, host: u8, mechanism: &str, response: &[u8]) -> LoginAnswer {
        let peer = PeerInfo {
            address: "test".to_owned(),
            ip: Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host))),
        };
        door.answer(&Login {
            now: Now {
                mono: Duration::from_secs(second),
                wall_ms: 0,
            },
            peer: &peer,
            mechanism,
            response,
        })
    }

    fn denied(seconds: u64) -> LoginAnswer {
        LoginAnswer::Denied {
            delay: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn wrong_passwords_cost_time_and_the_right_one_none() {
        let door = door("");
        let plain = |second, response: &[u8]| ask(&door, second, 1, "PLAIN", response);
        assert_eq!(plain(0, b"\0ann\0wrong"), denied(1));
        assert_eq!(plain(1, b"\0ann\0wrong"), denied(2));
        assert_eq!(plain(2, b"\0eve\0wrong"), denied(1));
        assert_eq!(plain(3, b"\0ann\0s3cret"), LoginAnswer::Accepted);
        assert_eq!(plain(4, b"\0ann\0wrong"), denied(1));
        assert_eq!(plain(5, b"nonsense"), denied(1));
    }

    #[test]
    fn beyond_the_limit_of_an_address_even_the_right_password_is_denied_there() {
        let door = door("[limits]\nlogin_failures_per_minute_max = 3\n");
        for second in 0..3 {
            ask(&door, second, 1, "PLAIN", b"\0ann\0wrong");
        }
        let right = |second, host| ask(&door, second, host, "PLAIN", b"\0ann\0s3cret");
        assert_eq!(right(3, 1), denied(8));
        assert_eq!(right(3, 2), LoginAnswer::Accepted);
        // Denials without a look at the password do not prolong it.
        assert_eq!(right(60, 1), LoginAnswer::Accepted);
    }

    #[test]
    fn who_needs_no_password_is_not_counted() {
        let open = door("");
        assert_eq!(ask(&open, 0, 1, "ANONYMOUS", b""), LoginAnswer::Accepted);
        assert_eq!(ask(&open, 0, 1, "EXTERNAL", b""), denied(0));
        let mut closed = door("[limits]\nlogin_failures_per_minute_max = 1\n");
        closed.is_login_required = true;
        assert_eq!(ask(&closed, 0, 1, "ANONYMOUS", b""), denied(0));
        assert_eq!(
            ask(&closed, 0, 1, "PLAIN", b"\0ann\0s3cret"),
            LoginAnswer::Accepted
        );
    }
}
