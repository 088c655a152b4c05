//! Selectors from tokens to a tree, by recursive descent: the grammar of JMS selectors (a subset of SQL-92 conditions)
//! with the few additions of the AMQP filter expressions draft.

use super::FilterError;
use super::field::{Place, jms_place, sql_place};
use super::like::Like;
use super::node::{Comparison, Factor, Letters, Node, Part};
use super::token::{Dialect, Token, Tokens};
use crate::route::{Datum, TypedDatum};

/// Longest text of a selector, bytes. It bounds the number of its nodes, and with that the cost of a message.
pub const SELECTOR_LEN_MAX: usize = 8_192;
/// How deep parentheses, signs and `NOT` may stand in each other.
pub const SELECTOR_DEPTH_MAX: usize = 32;

/// A tree and how many scratch texts its evaluation needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Program {
    pub(super) root: Node,
    pub(super) scratch_len: usize,
    pub(super) dialect: Dialect,
}

/// Reads a whole selector.
///
/// # Errors
/// What is wrong with it, and where.
pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Program, FilterError> {
    if text.len() > SELECTOR_LEN_MAX {
        return Err(FilterError::new(format!(
            "the selector has {} bytes, {SELECTOR_LEN_MAX} are allowed",
            text.len()
        )));
    }
    let mut tokens = Tokens::new(text, dialect);
    let (token, at) = tokens.next()?;
    let mut parser = Parser {
        tokens,
        dialect,
        token,
        at,
        depth: 0,
        scratch_len: 0,
    };
    let root = parser.or()?;
    if parser.token != Token::End {
        return Err(parser.unexpected("the end, AND, OR or an operator"));
    }
    Ok(Program {
        root,
        scratch_len: parser.scratch_len,
        dialect,
    })
}

const RESERVED: [&str; 11] = [
    "NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE",
];

struct Parser<'a> {
    tokens: Tokens<'a>,
    dialect: Dialect,
    /// The token to look at, and where it begins.
    token: Token,
    at: usize,
    depth: usize,
    scratch_len: usize,
}

impl Parser<'_> {
    fn unexpected(&self, expected: &str) -> FilterError {
        self.tokens.error(
            self.at,
            match &self.token {
                Token::End => format!("the selector ends where {expected} is expected"),
                Token::Word(word) => {
                    format!(
                        "{} stands where {expected} is expected",
                        crate::broker::quoted(word)
                    )
                }
                _ => format!("{expected} is expected here"),
            },
        )
    }

    fn advance(&mut self) -> Result<Token, FilterError> {
        let (token, at) = self.tokens.next()?;
        self.at = at;
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(&self.token, Token::Word(found) if found.eq_ignore_ascii_case(word))
    }

    /// Passes a reserved word if it stands here.
    fn pass_word(&mut self, word: &str) -> Result<bool, FilterError> {
        let is_here = self.is_word(word);
        if is_here {
            self.advance()?;
        }
        Ok(is_here)
    }

    fn pass(&mut self, token: &Token) -> Result<bool, FilterError> {
        let is_here = self.token == *token;
        if is_here {
            self.advance()?;
        }
        Ok(is_here)
    }

    fn expect(&mut self, token: &Token, shown: &str) -> Result<(), FilterError> {
        if self.pass(token)? {
            Ok(())
        } else {
            Err(self.unexpected(shown))
        }
    }

    /// Goes one level deeper for as long as `inner` reads.
    fn nested<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, FilterError>,
    ) -> Result<T, FilterError> {
        if self.depth == SELECTOR_DEPTH_MAX {
            return Err(self.tokens.error(
                self.at,
                format!("conditions are nested deeper than {SELECTOR_DEPTH_MAX}"),
            ));
        }
        self.depth += 1;
        let result = inner(self)?;
        self.depth -= 1;
        Ok(result)
    }

    fn or(&mut self) -> Result<Node, FilterError> {
        let first = self.and()?;
        let mut terms = vec![first];
        while self.pass_word("OR")? {
            terms.push(self.and()?);
        }
        Ok(single(terms, Node::Or))
    }

    fn and(&mut self) -> Result<Node, FilterError> {
        let first = self.not()?;
        let mut terms = vec![first];
        while self.pass_word("AND")? {
            terms.push(self.not()?);
        }
        Ok(single(terms, Node::And))
    }

    fn not(&mut self) -> Result<Node, FilterError> {
        if self.pass_word("NOT")? {
            return self.nested(|parser| Ok(Node::Not(Box::new(parser.not()?))));
        }
        self.predicate()
    }

    fn predicate(&mut self) -> Result<Node, FilterError> {
        let value = self.sum()?;
        let comparison = match self.token {
            Token::Equal => Comparison::Equal,
            Token::NotEqual => Comparison::NotEqual,
            Token::Less => Comparison::Less,
            Token::LessEqual => Comparison::LessEqual,
            Token::Greater => Comparison::Greater,
            Token::GreaterEqual => Comparison::GreaterEqual,
            _ => return self.word_predicate(value),
        };
        self.advance()?;
        let other = self.sum()?;
        Ok(Node::Compare(comparison, Box::new((value, other))))
    }

    fn word_predicate(&mut self, value: Node) -> Result<Node, FilterError> {
        if self.pass_word("IS")? {
            let is_negated = self.pass_word("NOT")?;
            if !self.pass_word("NULL")? {
                return Err(self.unexpected("NULL"));
            }
            if !matches!(value, Node::Place(_)) {
                return Err(self
                    .tokens
                    .error(self.at, "only a name stands in front of IS NULL"));
            }
            return Ok(negated(is_negated, Node::IsNull(Box::new(value))));
        }
        let is_negated = self.pass_word("NOT")?;
        if self.pass_word("BETWEEN")? {
            let low = self.sum()?;
            if !self.pass_word("AND")? {
                return Err(self.unexpected("AND"));
            }
            let high = self.sum()?;
            let node = Node::Between(Box::new((value, low, high)));
            return Ok(negated(is_negated, node));
        }
        if self.pass_word("IN")? {
            let list = self.list()?;
            return Ok(negated(is_negated, Node::In(Box::new(value), list)));
        }
        if self.pass_word("LIKE")? {
            let like = self.pattern()?;
            return Ok(negated(is_negated, Node::Like(Box::new(value), like)));
        }
        if is_negated {
            return Err(self.unexpected("BETWEEN, IN or LIKE"));
        }
        Ok(value)
    }

    /// `( literal , ... )`
    fn list(&mut self) -> Result<Vec<Datum>, FilterError> {
        self.expect(&Token::Open, "an opening parenthesis")?;
        let mut list = Vec::new();
        loop {
            list.push(self.literal()?);
            if !self.pass(&Token::Comma)? {
                break;
            }
        }
        self.expect(&Token::Close, "a comma or a closing parenthesis")?;
        Ok(list)
    }

    /// A constant, with a sign if it is a number.
    fn literal(&mut self) -> Result<Datum, FilterError> {
        let is_minus = self.token == Token::Minus;
        if is_minus || self.token == Token::Plus {
            self.advance()?;
        }
        let datum = match self.constant() {
            Some(datum) => datum,
            None => return Err(self.unexpected("a constant")),
        };
        let datum = if is_minus {
            match datum {
                Datum::Int(value) => Datum::Int(-value),
                Datum::Uint(value) if value == i64::MIN.unsigned_abs() => Datum::Int(i64::MIN),
                Datum::Float(value) => Datum::Float(-value),
                _ => return Err(self.unexpected("a number behind the sign")),
            }
        } else {
            datum
        };
        self.advance()?;
        Ok(datum)
    }

    /// The constant that the token is, if it is one.
    fn constant(&self) -> Option<Datum> {
        Some(match &self.token {
            Token::Int(value) => {
                i64::try_from(*value).map_or_else(|_| Datum::Uint(*value), Datum::Int)
            }
            Token::Float(value) => Datum::Float(*value),
            Token::Text(text) => Datum::Text(text.clone()),
            Token::Bytes(bytes) => Datum::Typed(TypedDatum::Binary(bytes.clone())),
            Token::Word(_) if self.is_word("TRUE") => Datum::Bool(true),
            Token::Word(_) if self.is_word("FALSE") => Datum::Bool(false),
            _ => return None,
        })
    }

    /// A text, and perhaps `ESCAPE` with a text of one character.
    fn pattern(&mut self) -> Result<Like, FilterError> {
        let at = self.at;
        let pattern = self.text("a pattern in quotes")?;
        let mut escape = None;
        if self.pass_word("ESCAPE")? {
            let at = self.at;
            let text = self.text("one character in quotes")?;
            let mut chars = text.chars();
            escape = chars.next().filter(|_| chars.next().is_none());
            if escape.is_none() {
                return Err(self.tokens.error(at, "ESCAPE takes one character"));
            }
        }
        Like::new(&pattern, escape).map_err(|text| self.tokens.error(at, text))
    }

    fn text(&mut self, expected: &str) -> Result<String, FilterError> {
        if let Token::Text(text) = &self.token {
            let text = text.clone();
            self.advance()?;
            return Ok(text);
        }
        Err(self.unexpected(expected))
    }

    fn sum(&mut self) -> Result<Node, FilterError> {
        let first = self.product()?;
        let mut rest = Vec::new();
        loop {
            let is_minus = match self.token {
                Token::Plus => false,
                Token::Minus => true,
                _ => break,
            };
            self.advance()?;
            rest.push((is_minus, self.product()?));
        }
        Ok(if rest.is_empty() {
            first
        } else {
            Node::Sum(Box::new(first), rest)
        })
    }

    fn product(&mut self) -> Result<Node, FilterError> {
        let first = self.signed()?;
        let mut rest = Vec::new();
        loop {
            let factor = match self.token {
                Token::Star => Factor::Times,
                Token::Slash => Factor::Over,
                Token::Percent => Factor::Modulo,
                _ => break,
            };
            self.advance()?;
            rest.push((factor, self.signed()?));
        }
        Ok(if rest.is_empty() {
            first
        } else {
            Node::Product(Box::new(first), rest)
        })
    }

    fn signed(&mut self) -> Result<Node, FilterError> {
        if self.pass(&Token::Minus)? {
            return self.nested(|parser| Ok(Node::Negate(Box::new(parser.signed()?))));
        }
        if self.pass(&Token::Plus)? {
            return self.nested(|parser| {
                // Taken from nothing so that a plus in front of what is no number has no value either.
                let zero = Box::new(Node::Const(Datum::Int(0)));
                Ok(Node::Sum(zero, vec![(false, parser.signed()?)]))
            });
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Node, FilterError> {
        if let Some(datum) = self.constant() {
            self.advance()?;
            return Ok(Node::Const(datum));
        }
        if self.pass(&Token::Open)? {
            let inner = self.nested(Self::or)?;
            self.expect(&Token::Close, "a closing parenthesis")?;
            return Ok(inner);
        }
        match &self.token {
            Token::Word(_) if self.is_word("NULL") => Err(self
                .tokens
                .error(self.at, "nothing equals NULL: write IS NULL or IS NOT NULL")),
            Token::Word(word) if is_reserved(word) => Err(self.unexpected("a value")),
            Token::Word(_) | Token::Quoted(_) => self.named(),
            _ => Err(self.unexpected("a value")),
        }
    }

    /// A name: of a place in the message or of a function.
    fn named(&mut self) -> Result<Node, FilterError> {
        let at = self.at;
        let token = self.advance()?;
        if self.dialect == Dialect::Jms {
            return match token {
                // A quoted name is a property, whatever it looks like.
                Token::Quoted(name) => Ok(Node::Place(Place::Property(name.into()))),
                Token::Word(name) if name.ends_with('.') => {
                    Err(self.tokens.error(at, "a name cannot end with a dot"))
                }
                Token::Word(name) => Ok(Node::Place(jms_place(&name))),
                _ => Err(self.tokens.error(at, "a name is expected here")),
            };
        }
        if self.token == Token::Open
            && let Token::Word(name) = &token
        {
            let name = name.to_ascii_uppercase();
            return self.nested(|parser| parser.function(&name, at));
        }
        self.sql_name(token, at).map(Node::Place)
    }

    /// `name` or `section.name`, the first part being read.
    fn sql_name(&mut self, first: Token, at: usize) -> Result<Place, FilterError> {
        let (Token::Word(first) | Token::Quoted(first)) = first else {
            return Err(self.tokens.error(at, "a name is expected here"));
        };
        if !self.pass(&Token::Dot)? {
            return Ok(Place::Property(first.into()));
        }
        match self.advance()? {
            Token::Word(name) | Token::Quoted(name) => {
                sql_place(&first, &name).map_err(|text| self.tokens.error(at, text))
            }
            _ => Err(self.tokens.error(at, "a name is missing behind the dot")),
        }
    }

    /// A function of the draft; its name is read, its parenthesis is not.
    fn function(&mut self, name: &str, at: usize) -> Result<Node, FilterError> {
        self.expect(&Token::Open, "an opening parenthesis")?;
        let node = match name {
            "UTC" => Node::Now,
            "EXISTS" => {
                let at = self.at;
                let first = self.advance()?;
                let place = self.sql_name(first, at)?;
                negated(true, Node::IsNull(Box::new(Node::Place(place))))
            }
            "LOWER" | "UPPER" => {
                let letters = if name == "LOWER" {
                    Letters::Lower
                } else {
                    Letters::Upper
                };
                let text = Box::new(self.sum()?);
                self.scratch_len += 1;
                Node::Letters(letters, text, self.scratch_len - 1)
            }
            "LEFT" | "RIGHT" | "SUBSTRING" => {
                let part = match name {
                    "LEFT" => Part::Left,
                    "RIGHT" => Part::Right,
                    _ => Part::Middle,
                };
                let text = self.sum()?;
                self.expect(&Token::Comma, "a comma")?;
                let number = self.sum()?;
                let len = if part == Part::Middle && self.pass(&Token::Comma)? {
                    Some(self.sum()?)
                } else {
                    None
                };
                Node::Part(part, Box::new((text, number, len)))
            }
            _ => {
                return Err(self.tokens.error(
                    at,
                    format!(
                        "there is no function {}: use UTC, EXISTS, LOWER, UPPER, LEFT, RIGHT or SUBSTRING",
                        crate::broker::quoted(name)
                    ),
                ));
            }
        };
        self.expect(&Token::Close, "a closing parenthesis")?;
        Ok(node)
    }
}

fn is_reserved(word: &str) -> bool {
    RESERVED
        .iter()
        .any(|reserved| word.eq_ignore_ascii_case(reserved))
}

fn single(mut terms: Vec<Node>, many: impl FnOnce(Vec<Node>) -> Node) -> Node {
    match terms.len() {
        1 => terms.remove(0),
        _ => many(terms),
    }
}

fn negated(is_negated: bool, node: Node) -> Node {
    if is_negated {
        Node::Not(Box::new(node))
    } else {
        node
    }
}
