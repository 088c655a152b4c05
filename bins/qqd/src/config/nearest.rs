//! The nearest known name to a mistyped one.

/// The candidate with the smallest edit distance to `name`, when that is small enough to be a slip: at most a third of
/// the letters, at least 2.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (distance(&name.to_lowercase(), candidate), candidate))
        .filter(|(distance, candidate)| *distance <= limit && *distance < candidate.chars().count())
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance: insertions, deletions and replacements, one row at a time.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_the_textbook_ones() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("flaw", "lawn"), 2);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let known = ["server", "storage", "sasl", "limits", "logging"];
        assert_eq!(nearest("Server", known), Some("server"));
        assert_eq!(nearest("loging", known), Some("logging"));
        assert_eq!(nearest("zookeeper", known), None);
        assert_eq!(nearest("x", ["a", "b"]), None);
    }
}
