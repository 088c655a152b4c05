//! Who may log in with a password: a file with one `name:password` per line.
//!
//! Empty lines and lines that begin with `#` are skipped; the first colon ends the name. Passwords that begin with `{`
//! are kept for hashed forms and refused. Passwords are compared without a hint in the time it takes, and are never
//! printed.

use std::collections::BTreeMap;
use std::fmt;

use subtle::{Choice, ConstantTimeEq};

use crate::config::{Origin, Problem};

/// Names and passwords.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Users {
    passwords: BTreeMap<String, String>,
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} users", self.passwords.len())
    }
}

impl Users {
    /// Reads the file.
    pub(crate) fn read(path: &str) -> Result<Self, Problem> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(path, &text),
            Err(error) => {
                let origin = Origin::File {
                    path: path.to_owned(),
                    line: 0,
                };
                Err(Problem::new(
                    origin,
                    format!("users file cannot be read: {error}"),
                ))
            }
        }
    }

    pub(super) fn parse(path: &str, text: &str) -> Result<Self, Problem> {
        let mut passwords = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let wrong = |what: &str| {
                let origin = Origin::File {
                    path: path.to_owned(),
                    line: index + 1,
                };
                Err(Problem::new(
                    origin,
                    format!("{what}; a user is written as name:password"),
                ))
            };
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            // The line itself is never quoted: it may be a password without a name.
            let Some((name, password)) = line.split_once(':') else {
                return wrong("no colon in this line");
            };
            if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
                return wrong("a name must have 1 to 255 bytes and no control characters");
            }
            if password.is_empty() || password.contains('\0') {
                return wrong("a password must not be empty or contain a zero byte");
            }
            if password.starts_with('{') {
                return wrong(
                    "passwords that begin with '{' are kept for hashed forms, which this build does not have",
                );
            }
            if passwords
                .insert(name.to_owned(), password.to_owned())
                .is_some()
            {
                return wrong("this name is there twice");
            }
        }
        Ok(Self { passwords })
    }

    /// Names, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.passwords.keys().map(String::as_str)
    }

    pub(crate) fn len(&self) -> usize {
        self.passwords.len()
    }

    /// Whether a response of the PLAIN mechanism (RFC 4616) names a user and its password. An authorization identity is
    /// only accepted when it is the user itself.
    pub(crate) fn is_plain_accepted(&self, response: &[u8]) -> bool {
        let mut parts = response.split(|byte| *byte == 0);
        let (Some(acting_as), Some(name), Some(password), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        let is_own = acting_as.is_empty() || acting_as == name;
        // Every user is compared, so that the time does not tell which names exist.
        let mut found = Choice::from(0);
        for (known, secret) in &self.passwords {
            found |= known.as_bytes().ct_eq(name) & secret.as_bytes().ct_eq(password);
        }
        is_own && !name.is_empty() && bool::from(found)
    }
}

/// The name in a response of the PLAIN mechanism, for the books; empty when there is none.
pub(super) fn plain_user(response: &[u8]) -> &[u8] {
    response.split(|byte| *byte == 0).nth(1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> Users {
        Users::parse("users", "# people\n\nann:s3cret\nbob:a:b\n").expect("the file is right")
    }

    #[test]
    fn the_right_password_is_accepted() {
        let users = users();
        assert_eq!(users.len(), 2);
        for (response, is_accepted) in [
            (&b"\0ann\0s3cret"[..], true),
            (b"ann\0ann\0s3cret", true),
            (b"\0bob\0a:b", true),
            (b"bob\0ann\0s3cret", false),
            (b"\0ann\0s3cre", false),
            (b"\0ann\0s3crets", false),
            (b"\0ann\0a:b", false),
            (b"\0eve\0s3cret", false),
            (b"\0ann\0", false),
            (b"\0\0", false),
            (b"ann\0s3cret", false),
            (b"\0ann\0s3cret\0", false),
            (b"", false),
        ] {
            assert_eq!(
                users.is_plain_accepted(response),
                is_accepted,
                "{response:?}"
            );
        }
    }

    #[test]
    fn a_wrong_line_is_named_without_its_content() {
        for (text, line) in [
            ("ann:x\nhunter2\n", 2),
            (":hunter2\n", 1),
            ("ann:\n", 1),
            ("ann:{SCRAM}hunter2\n", 1),
            ("ann:hunter2\nann:hunter2\n", 2),
        ] {
            let problem = Users::parse("users", text).expect_err(text).to_string();
            assert!(problem.starts_with(&format!("users:{line}: ")), "{problem}");
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }

    #[test]
    fn passwords_are_not_in_debug_output() {
        assert!(!format!("{:?}", users()).contains("s3cret"));
    }
}
