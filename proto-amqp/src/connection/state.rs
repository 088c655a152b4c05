//! Where a connection is in its life, and which steps are legal (part 2, 2.4.6; part 5, 5.3.2).
//!
//! All that affects these transitions is in this file's table; the code elsewhere calls [`State::go`], which asserts
//! them. A step that is not in the table is our bug, never the peer's.

/// Life of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing came from the peer.
    HeaderAwaited,
    /// Client: SASL headers crossed, the server lists its mechanisms next.
    MechanismsAwaited,
    /// Server: mechanisms are listed, the client chooses next.
    SaslInitAwaited,
    /// Server: the embedder decides.
    SaslDeciding,
    /// Server: a challenge is out, the client responds next.
    SaslResponseAwaited,
    /// Client: the server decides.
    OutcomeAwaited,
    /// SASL is through, the AMQP header comes next.
    AmqpHeaderAwaited,
    /// AMQP headers crossed.
    OpenAwaited,
    /// Server: the peer's open is there, the embedder decides.
    OpenDeciding,
    /// Both opens crossed.
    Opened,
    /// We closed (or refused in the SASL or header layer) and read on for a short while without listening, so that
    /// what we wrote is not lost to a reset.
    Lingering,
    /// Nothing more will be said or heard; what is buffered may still be written.
    Done,
}

impl State {
    /// The legal steps.
    const fn may_become(self, next: Self) -> bool {
        use State::{
            AmqpHeaderAwaited, Done, HeaderAwaited, Lingering, MechanismsAwaited, OpenAwaited,
            OpenDeciding, Opened, OutcomeAwaited, SaslDeciding, SaslInitAwaited,
            SaslResponseAwaited,
        };
        matches!(
            (self, next),
            (
                HeaderAwaited,
                MechanismsAwaited | SaslInitAwaited | OpenAwaited
            ) | (MechanismsAwaited, OutcomeAwaited)
                | (SaslInitAwaited | SaslResponseAwaited, SaslDeciding)
                | (SaslDeciding, SaslResponseAwaited)
                | (SaslDeciding | OutcomeAwaited, AmqpHeaderAwaited)
                | (AmqpHeaderAwaited, OpenAwaited)
                | (OpenAwaited, OpenDeciding | Opened)
                | (OpenDeciding, Opened)
        ) || (matches!(next, Lingering) && !matches!(self, Done | Lingering))
            || (matches!(next, Done) && !matches!(self, Done))
    }

    /// Takes a step.
    ///
    /// # Panics
    /// When the step is not in the table.
    pub(super) fn go(&mut self, next: Self) {
        assert!(
            self.may_become(next),
            "a connection cannot go from {self:?} to {next:?}"
        );
        *self = next;
    }

    /// The peer is heard.
    pub(super) const fn is_listening(self) -> bool {
        !matches!(self, Self::Lingering | Self::Done)
    }

    /// Input waits for the embedder's answer.
    pub(super) const fn is_deciding(self) -> bool {
        matches!(self, Self::SaslDeciding | Self::OpenDeciding)
    }
}

#[cfg(test)]
mod tests {
    use super::State;

    const ALL: [State; 12] = [
        State::HeaderAwaited,
        State::MechanismsAwaited,
        State::SaslInitAwaited,
        State::SaslDeciding,
        State::SaslResponseAwaited,
        State::OutcomeAwaited,
        State::AmqpHeaderAwaited,
        State::OpenAwaited,
        State::OpenDeciding,
        State::Opened,
        State::Lingering,
        State::Done,
    ];

    #[test]
    fn nothing_leaves_done_and_nothing_but_done_leaves_lingering() {
        for next in ALL {
            assert!(!State::Done.may_become(next));
            assert_eq!(State::Lingering.may_become(next), next == State::Done);
        }
    }

    /// Part 5, 5.3.2: no way around the outcome once the SASL layer began.
    #[test]
    fn sasl_cannot_be_skipped() {
        for from in [
            State::MechanismsAwaited,
            State::SaslInitAwaited,
            State::SaslResponseAwaited,
        ] {
            for next in [
                State::AmqpHeaderAwaited,
                State::OpenAwaited,
                State::OpenDeciding,
                State::Opened,
            ] {
                assert!(!from.may_become(next), "{from:?} to {next:?}");
            }
        }
    }
}
