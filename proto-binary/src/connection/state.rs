//! The life of a connection.
//!
//! | from | to | when |
//! | --- | --- | --- |
//! | AuthAwaited | AuthDeciding | server: AUTH came |
//! | AuthAwaited | Open | client: AUTH_RESPONSE said yes |
//! | AuthDeciding | Open | the embedder said yes |
//! | Open | AuthDeciding | server: AUTH came again |
//! | any of these | Lingering | something was said before the end |
//! | any | Done | nothing was, the peer left, the embedder closed, lingering is over |

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing but AUTH is taken (client: nothing but its answer is expected).
    AuthAwaited,
    /// Input is held until the embedder has judged a token.
    AuthDeciding,
    /// Everything is taken.
    Open,
    /// The last words are on their way; input is discarded.
    Lingering,
    /// Over. Output that is left may still be taken.
    Done,
}

impl State {
    /// Input is read and means something.
    pub(super) const fn is_listening(self) -> bool {
        matches!(self, Self::AuthAwaited | Self::AuthDeciding | Self::Open)
    }
}
