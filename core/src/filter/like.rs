//! Patterns of `LIKE`: `%` stands for any characters, `_` for one.
//!
//! A pattern is cut at its `%` into segments, and each is looked for behind the one before: the earliest place is as
//! good as any later one, so nothing is ever tried again.

/// Longest text that is searched for a segment with `_`, bytes. Such a search has no linear bound, and one consumer's
/// pattern must not hold up the others.
pub(super) const SLOW_TEXT_LEN_MAX: usize = 65_536;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    /// Any one character.
    One,
}

/// What stands between two `%`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Segment {
    pieces: Vec<Piece>,
    /// How many characters it takes.
    chars: usize,
    has_one: bool,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Like {
    first: Segment,
    middle: Vec<Segment>,
    /// None when there is no `%` at all.
    last: Option<Segment>,
}

impl Segment {
    fn flush(&mut self, text: &mut String) {
        if !text.is_empty() {
            self.pieces
                .push(Piece::Text(std::mem::take(text).into_boxed_str()));
        }
    }

    /// The end of the segment when it stands at a byte of the text.
    fn end_at(&self, text: &str, mut at: usize) -> Option<usize> {
        for piece in &self.pieces {
            let rest = &text[at..];
            at += match piece {
                Piece::Text(wanted) => rest.starts_with(&**wanted).then_some(wanted.len())?,
                Piece::One => rest.chars().next()?.len_utf8(),
            };
        }
        Some(at)
    }

    /// The end of the first place from a byte on where the segment stands.
    fn find_from(&self, text: &str, mut at: usize) -> Option<usize> {
        match self.pieces.first() {
            None => Some(at),
            Some(Piece::Text(wanted)) => loop {
                at += text[at..].find(&**wanted)?;
                if let Some(end) = self.end_at(text, at) {
                    return Some(end);
                }
                at += text[at..].chars().next()?.len_utf8();
            },
            Some(Piece::One) => loop {
                if let Some(end) = self.end_at(text, at) {
                    return Some(end);
                }
                at += text[at..].chars().next()?.len_utf8();
            },
        }
    }

    /// Whether the text ends with the segment, which begins at a byte at the earliest.
    fn is_end_of(&self, text: &str, from: usize) -> bool {
        let start = match self.chars.checked_sub(1) {
            None => return true,
            Some(skip) => text[from..].char_indices().rev().nth(skip),
        };
        start.is_some_and(|(start, _)| self.end_at(text, from + start) == Some(text.len()))
    }
}

impl Like {
    /// Reads a pattern; an error text when its escape has nothing to escape.
    pub(super) fn new(pattern: &str, escape: Option<char>) -> Result<Self, &'static str> {
        let mut segments = Vec::new();
        let mut segment = Segment::default();
        let mut text = String::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            if Some(c) == escape {
                text.push(
                    chars
                        .next()
                        .ok_or("the pattern ends with its escape character")?,
                );
                segment.chars += 1;
            } else if c == '%' {
                segment.flush(&mut text);
                segments.push(std::mem::take(&mut segment));
            } else {
                segment.chars += 1;
                if c == '_' {
                    segment.flush(&mut text);
                    segment.pieces.push(Piece::One);
                    segment.has_one = true;
                } else {
                    text.push(c);
                }
            }
        }
        segment.flush(&mut text);
        if segments.is_empty() {
            return Ok(Self {
                first: segment,
                middle: Vec::new(),
                last: None,
            });
        }
        let first = segments.remove(0);
        Ok(Self {
            first,
            middle: segments,
            last: Some(segment),
        })
    }

    /// Whether a text fits; none when it is too long to try (see [`SLOW_TEXT_LEN_MAX`]).
    pub(super) fn is_match(&self, text: &str) -> Option<bool> {
        let Some(mut at) = self.first.end_at(text, 0) else {
            return Some(false);
        };
        let Some(last) = &self.last else {
            return Some(at == text.len());
        };
        for segment in &self.middle {
            if segment.has_one && text.len() > SLOW_TEXT_LEN_MAX {
                return None;
            }
            match segment.find_from(text, at) {
                Some(end) => at = end,
                None => return Some(false),
            }
        }
        Some(last.is_end_of(text, at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, character by character.
    fn slow(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('%', rest)) => (0..=text.len()).any(|skip| slow(rest, &text[skip..])),
            Some(('_', rest)) => !text.is_empty() && slow(rest, &text[1..]),
            Some((c, rest)) => text.first() == Some(c) && slow(rest, &text[1..]),
        }
    }

    #[test]
    fn escapes_make_characters_plain() {
        let is = |pattern: &str, text: &str| {
            Like::new(pattern, Some('\\'))
                .expect("a pattern")
                .is_match(text)
        };
        assert_eq!(is("\\_%", "_foo"), Some(true));
        assert_eq!(is("\\_%", "bar"), Some(false));
        assert_eq!(is("100\\%", "100%"), Some(true));
        assert_eq!(is("100\\%", "1000"), Some(false));
        assert_eq!(is("\\\\_", "\\x"), Some(true));
        assert!(Like::new("a\\", Some('\\')).is_err());
        let plain = Like::new("a\\", None).expect("no escape, no rule");
        assert_eq!(plain.is_match("a\\"), Some(true));
    }

    #[test]
    fn only_slow_patterns_shun_long_texts() {
        let long = "a".repeat(SLOW_TEXT_LEN_MAX + 1);
        let is = |pattern: &str| Like::new(pattern, None).expect("a pattern").is_match(&long);
        assert_eq!(is("%aa%"), Some(true));
        assert_eq!(is("_%b"), Some(false));
        assert_eq!(is("%a_b%"), None);
    }

    proptest! {
        #[test]
        fn it_finds_what_the_definition_finds(
            pattern in "[ab%_é]{0,8}",
            text in "[abé]{0,10}",
        ) {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let like = Like::new(&pattern, None).expect("no escape");
            prop_assert_eq!(like.is_match(&text), Some(slow(&chars(&pattern), &chars(&text))));
        }
    }
}
