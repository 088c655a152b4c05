//! Makes a failing run smaller: as long as it still fails alike, it leaves out kinds of trouble, clients and acts.

use super::{Plan, Violation, run};

/// Runs that are tried at most.
const TRIES_MAX: u32 = 400;

struct Shrinker<'a> {
    best: Plan,
    violation: &'a Violation,
    tries: u32,
}

/// The words of a violation without its numbers.
fn wording(violation: &Violation) -> String {
    let line = violation.text.lines().next().unwrap_or_default();
    line.chars()
        .filter(|c| c.is_alphabetic() || *c == ' ')
        .collect()
}

/// The smallest run found that breaks the same rule.
#[must_use]
pub fn shrink(plan: &Plan, violation: &Violation) -> Plan {
    let mut shrinker = Shrinker {
        best: plan.clone(),
        violation,
        tries: 0,
    };
    shrinker.cut_end();
    shrinker.drop_faults();
    shrinker.drop_clients();
    shrinker.cut_end();
    shrinker.skip_acts();
    shrinker.drop_faults();
    shrinker.best
}

impl Shrinker<'_> {
    /// Takes a smaller plan when it fails like the first.
    fn is_taken(&mut self, plan: Plan) -> bool {
        self.tries += 1;
        if self.tries > TRIES_MAX || plan == self.best {
            return false;
        }
        let found = run(&plan).violation;
        let is_alike = found.is_some_and(|found| {
            found.class == self.violation.class && wording(&found) == wording(self.violation)
        });
        if is_alike {
            self.best = plan;
        }
        is_alike
    }

    /// Fewer acts, as in a search for a place in a book.
    fn cut_end(&mut self) {
        let (mut low, mut high) = (1, self.best.acts_max);
        while low < high && self.tries <= TRIES_MAX {
            let middle = low + (high - low) / 2;
            let mut plan = self.best.clone();
            plan.end_after(middle);
            if self.is_taken(plan) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
    }

    fn drop_faults(&mut self) {
        for fault in self.best.faults.clone() {
            let mut plan = self.best.clone();
            plan.faults.retain(|kept| *kept != fault);
            self.is_taken(plan);
        }
    }

    fn drop_clients(&mut self) {
        for client in self.best.clients.clone() {
            let mut plan = self.best.clone();
            plan.clients.retain(|kept| *kept != client);
            if !plan.clients.is_empty() {
                self.is_taken(plan);
            }
        }
    }

    /// Leaves acts out, in large runs first.
    fn skip_acts(&mut self) {
        let mut length = self.best.acts_max / 2;
        while length > 0 && self.tries <= TRIES_MAX {
            let mut first = 0;
            while first < self.best.acts_max {
                let mut plan = self.best.clone();
                let last = (first + length - 1).min(plan.acts_max - 1);
                let is_news = (first..=last).any(|act| !plan.is_skipped(act));
                plan.skip(first, last);
                if is_news {
                    self.is_taken(plan);
                }
                first += length;
            }
            length /= 2;
        }
    }
}
