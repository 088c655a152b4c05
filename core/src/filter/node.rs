//! A selector after it was read: a tree whose depth is bounded, because chains of one operator are one node.

use super::field::Place;
use super::like::Like;
use crate::route::Datum;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factor {
    Times,
    Over,
    Modulo,
}

/// A function of texts that makes a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Letters {
    Lower,
    Upper,
}

/// A function of texts that takes a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The first characters.
    Left,
    /// The last characters.
    Right,
    /// Characters from a position, counted from 1.
    Middle,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Const(Datum),
    Place(Place),
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Compare(Comparison, Box<(Node, Node)>),
    /// Value, low, high.
    Between(Box<(Node, Node, Node)>),
    In(Box<Node>, Vec<Datum>),
    Like(Box<Node>, Like),
    IsNull(Box<Node>),
    Negate(Box<Node>),
    /// The first and then, each with whether it is taken away.
    Sum(Box<Node>, Vec<(bool, Node)>),
    Product(Box<Node>, Vec<(Factor, Node)>),
    /// The time of the broker, milliseconds since 1970.
    Now,
    /// Text, and the numbers that a part is made by.
    Part(Part, Box<(Node, Node, Option<Node>)>),
    /// A text in other letters, and which of the scratch texts it goes to.
    Letters(Letters, Box<Node>, usize),
}
