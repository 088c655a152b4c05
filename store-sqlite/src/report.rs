//! What a check or a rescue found, for people.

use std::fmt;

/// Messages that cannot be had back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lost {
    /// The queue's name, or its number when its definition is lost.
    pub queue: String,
    /// First and last position between which they stood.
    pub positions: (u64, u64),
    /// How many.
    pub messages: u64,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is not as it was written: table, row, queue, position.
    pub damage: Vec<String>,
    /// Messages that are lost by it.
    pub lost: Vec<Lost>,
    /// What else there is to say.
    pub notes: Vec<String>,
    /// Queues that can be read.
    pub queues: u64,
    /// Rows of the journal that can be read.
    pub rows: u64,
    /// Messages that can be read, counted once for each queue that holds them.
    pub messages: u64,
}

impl Report {
    /// Whether everything is as it was written.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty() && self.lost.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} queues, {} messages in {} rows can be read",
            self.queues, self.messages, self.rows
        )?;
        for text in &self.damage {
            writeln!(f, "damaged: {text}")?;
        }
        for lost in &self.lost {
            let (first, last) = lost.positions;
            writeln!(
                f,
                "lost: queue {}: {} messages, positions {first} to {last}",
                lost.queue, lost.messages
            )?;
        }
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        if self.is_sound() {
            writeln!(f, "everything is as it was written")?;
        }
        Ok(())
    }
}
