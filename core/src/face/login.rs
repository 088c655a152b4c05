//! Who may come in: what a face asks when a peer shows its credentials, and what it can be answered.
//!
//! The answer is given at once, but a denial may be told late, so that guessing passwords costs time. Counting the
//! failures is the business of whoever answers: one connection cannot know of the others.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::PeerInfo;
use crate::broker::Now;

/// A peer's credentials.
#[derive(Clone, Copy)]
pub struct Login<'a> {
    /// When they came.
    pub now: Now,
    /// Where they came from.
    pub peer: &'a PeerInfo,
    /// Name of the SASL mechanism, one of those that were offered.
    pub mechanism: &'a str,
    /// The peer's initial response, or that to the last challenge, as the mechanism defines it. It may hold a password:
    /// never to be logged.
    pub response: &'a [u8],
}

/// What becomes of a [`Login`].
#[derive(Clone, Debug, PartialEq)]
pub enum LoginAnswer {
    /// The peer is who it says and may come in.
    Accepted,
    /// So it is, and is told something with that: the proof that we know its password, for instance.
    AcceptedWith {
        /// As the mechanism defines it.
        additional_data: Bytes,
    },
    /// It has to say more.
    Challenge {
        /// What it is asked, as the mechanism defines it.
        challenge: Bytes,
        /// Who decides about the response, which comes in another [`Login`].
        next: LoginStep,
    },
    /// It is not, or may not.
    Denied {
        /// From now until the peer is told. Zero: at once. The peer counts as a stranger meanwhile, and the deadline for
        /// its `open` runs on.
        delay: Duration,
    },
}

/// Decides about credentials. Called on the task of the connection, so it must not wait.
pub type Authenticate = Arc<dyn Fn(&Login<'_>) -> LoginAnswer + Send + Sync>;

/// A later step of a mechanism that takes several: the same decision, with what the steps before it left behind.
#[derive(Clone)]
pub struct LoginStep(pub Authenticate);

impl fmt::Debug for LoginStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginStep")
    }
}

/// Steps are equal when they are the same one.
impl PartialEq for LoginStep {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
