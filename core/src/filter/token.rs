//! Selectors from characters to tokens.

use super::FilterError;

/// The language that a text is in. They share their grammar and differ in names and in a few literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// JMS selectors: `"x"` is a name, `0x1F` and `017` are numbers.
    Jms,
    /// SQL of the AMQP filter expressions draft: `"x"` is a text, `[x]` a name, `0x1F` are bytes; sections are named
    /// with a dot.
    Sql,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name or a reserved word.
    Word(String),
    /// A name that was written in brackets or quotes, so that it cannot be a reserved word.
    Quoted(String),
    Text(String),
    Int(u64),
    Float(f64),
    Bytes(Vec<u8>),
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Open,
    Close,
    Comma,
    Dot,
    End,
}

/// Cuts tokens off the front of a text.
pub(super) struct Tokens<'a> {
    text: &'a str,
    dialect: Dialect,
    /// Byte at which the next token begins, after blanks.
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str, dialect: Dialect) -> Self {
        Self {
            text,
            dialect,
            at: 0,
        }
    }

    /// An error at a byte of the text.
    pub(super) fn error(&self, at: usize, text: impl Into<String>) -> FilterError {
        let before = self.text.get(..at).unwrap_or(self.text);
        FilterError {
            column: Some(before.chars().count() + 1),
            text: text.into(),
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take_while(&mut self, mut is_part: impl FnMut(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// The next token and the byte at which it begins.
    pub(super) fn next(&mut self) -> Result<(Token, usize), FilterError> {
        self.take_while(char::is_whitespace);
        let start = self.at;
        let Some(first) = self.peek() else {
            return Ok((Token::End, start));
        };
        let token = match first {
            '\'' => Token::Text(self.quoted('\'', "text")?),
            '"' if self.dialect == Dialect::Sql => Token::Text(self.quoted('"', "text")?),
            '"' => Token::Quoted(self.quoted('"', "name")?),
            '[' if self.dialect == Dialect::Sql => Token::Quoted(self.quoted(']', "name")?),
            '0'..='9' => self.number()?,
            '.' if self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number()?,
            _ if is_word_start(first) => {
                let has_dots = self.dialect == Dialect::Jms;
                let word = self.take_while(|c| is_word_part(c) || (has_dots && c == '.'));
                Token::Word(word.to_owned())
            }
            _ => self.symbol(first)?,
        };
        Ok((token, start))
    }

    fn symbol(&mut self, first: char) -> Result<Token, FilterError> {
        let rest = self.rest();
        let (token, len) =
            if rest.starts_with("<>") || (rest.starts_with("!=") && self.dialect == Dialect::Sql) {
                (Token::NotEqual, 2)
            } else if rest.starts_with("<=") {
                (Token::LessEqual, 2)
            } else if rest.starts_with(">=") {
                (Token::GreaterEqual, 2)
            } else {
                let token = match first {
                    '=' => Token::Equal,
                    '<' => Token::Less,
                    '>' => Token::Greater,
                    '+' => Token::Plus,
                    '-' => Token::Minus,
                    '*' => Token::Star,
                    '/' => Token::Slash,
                    '%' if self.dialect == Dialect::Sql => Token::Percent,
                    '(' => Token::Open,
                    ')' => Token::Close,
                    ',' => Token::Comma,
                    '.' if self.dialect == Dialect::Sql => Token::Dot,
                    _ => {
                        return Err(self.error(
                            self.at,
                            format!(
                                "the character '{}' has no meaning here",
                                first.escape_debug()
                            ),
                        ));
                    }
                };
                (token, 1)
            };
        self.at += len;
        Ok(token)
    }

    /// What stands between quotes; the closing one twice stands for itself.
    fn quoted(&mut self, close: char, what: &str) -> Result<String, FilterError> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            text.push_str(self.take_while(|c| c != close));
            if self.peek().is_none() {
                return Err(self.error(start, format!("this {what} has no end")));
            }
            self.at += 1;
            if self.peek() != Some(close) {
                break;
            }
            text.push(close);
            self.at += 1;
        }
        if what == "name" && text.is_empty() {
            return Err(self.error(start, "a name cannot be empty"));
        }
        Ok(text)
    }

    fn number(&mut self) -> Result<Token, FilterError> {
        let start = self.at;
        let rest = self.rest();
        if rest.starts_with("0x") || rest.starts_with("0X") {
            return self.hexadecimal();
        }
        let whole = self.take_while(|c| c.is_ascii_digit());
        let mut is_float = false;
        if self.peek() == Some('.') {
            is_float = true;
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            is_float = true;
            self.at += 1;
            if matches!(self.peek(), Some('+' | '-')) {
                self.at += 1;
            }
            if self.take_while(|c| c.is_ascii_digit()).is_empty() {
                return Err(self.error(start, "this number has an exponent without digits"));
            }
        }
        let text = &self.text[start..self.at];
        let has_suffix = self.dialect == Dialect::Jms;
        if has_suffix && matches!(self.peek(), Some('f' | 'F' | 'd' | 'D')) {
            is_float = true;
            self.at += 1;
        } else if has_suffix && !is_float && matches!(self.peek(), Some('l' | 'L')) {
            self.at += 1;
        }
        self.end_number(start)?;
        if is_float {
            let value: f64 = text
                .parse()
                .map_err(|_| self.error(start, "this is not a number"))?;
            return Ok(Token::Float(value));
        }
        // JMS takes the integer literals of Java, where a leading zero means octal.
        let is_octal = self.dialect == Dialect::Jms && whole.len() > 1 && whole.starts_with('0');
        u64::from_str_radix(whole, if is_octal { 8 } else { 10 })
            .map(Token::Int)
            .map_err(|_| self.error(start, "this is no integer of 64 bits"))
    }

    fn hexadecimal(&mut self) -> Result<Token, FilterError> {
        let start = self.at;
        self.at += 2;
        let digits = self.take_while(|c| c.is_ascii_hexdigit());
        if self.dialect == Dialect::Jms {
            let value = u64::from_str_radix(digits, 16)
                .map_err(|_| self.error(start, "this is no integer of 64 bits"))?;
            if matches!(self.peek(), Some('l' | 'L')) {
                self.at += 1;
            }
            self.end_number(start)?;
            return Ok(Token::Int(value));
        }
        self.end_number(start)?;
        let pairs = digits.as_bytes().chunks_exact(2);
        if digits.is_empty() || !pairs.remainder().is_empty() {
            return Err(self.error(start, "bytes are written as pairs of hex digits"));
        }
        let digit = |c: u8| {
            char::from(c)
                .to_digit(16)
                .and_then(|d| u8::try_from(d).ok())
        };
        let bytes = pairs
            .map(|pair| Some(digit(pair[0])? * 16 + digit(pair[1])?))
            .collect::<Option<Vec<u8>>>();
        bytes
            .map(Token::Bytes)
            .ok_or_else(|| self.error(start, "bytes are written as pairs of hex digits"))
    }

    fn end_number(&self, start: usize) -> Result<(), FilterError> {
        if self.peek().is_some_and(is_word_part) {
            return Err(self.error(start, "a number runs into a name here"));
        }
        Ok(())
    }
}

fn is_word_start(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '$'
}

fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}
