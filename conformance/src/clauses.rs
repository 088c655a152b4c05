//! The clause list: what the standard asks for, one sentence each, in our own words.
//!
//! The data lives in `clauses/*.tsv` so that it can be read and sorted without a compiler.

/// One rule of the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clause {
    /// Section and letter, such as `2.4.5-b`.
    pub id: &'static str,
    /// must, must-not, should or may.
    pub level: &'static str,
    /// Who is bound.
    pub who: &'static str,
    /// The rule.
    pub sentence: &'static str,
}

impl Clause {
    /// The section of the standard.
    pub fn section(&self) -> &'static str {
        self.id.split('-').next().unwrap_or(self.id)
    }
}

const FILES: &[&str] = &[
    include_str!("../clauses/1-types.tsv"),
    include_str!("../clauses/2-transport.tsv"),
    include_str!("../clauses/2-performatives.tsv"),
    include_str!("../clauses/3-messaging.tsv"),
    include_str!("../clauses/4-transactions.tsv"),
    include_str!("../clauses/5-security.tsv"),
];

/// Every clause, in the order of the standard.
pub fn all() -> Vec<Clause> {
    let lines = FILES
        .iter()
        .flat_map(|f| f.lines())
        .filter(|l| !l.starts_with('#'));
    lines
        .map(|line| {
            let mut cells = line.split('\t');
            let mut cell = || {
                cells
                    .next()
                    .unwrap_or_else(|| panic!("short clause line: {line}"))
            };
            Clause {
                id: cell(),
                level: cell(),
                who: cell(),
                sentence: cell(),
            }
        })
        .collect()
}

/// The clause with this id.
pub fn find(id: &str) -> Option<Clause> {
    all().into_iter().find(|c| c.id == id)
}

#[cfg(test)]
mod tests {
    use super::all;

    #[test]
    fn every_line_is_whole_and_unique() {
        let clauses = all();
        assert!(clauses.len() >= 300, "{} clauses", clauses.len());
        for clause in &clauses {
            assert!(
                ["must", "must-not", "should", "may"].contains(&clause.level),
                "{}",
                clause.id
            );
            assert!(
                !clause.who.is_empty() && clause.sentence.len() > 15,
                "{}",
                clause.id
            );
            assert_eq!(
                clauses.iter().filter(|c| c.id == clause.id).count(),
                1,
                "{}",
                clause.id
            );
            let parts: Vec<_> = clause.section().split('.').collect();
            assert!(
                parts.iter().all(|p| p.parse::<u8>().is_ok()),
                "{}",
                clause.id
            );
        }
    }
}
