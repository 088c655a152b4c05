//! Selectors against an evaluator that was written apart: its own tree, its own values, the rules of the standard one by
//! one. Trees are written with as few parentheses as the grammar allows, so that binding is tested as well.

use std::collections::BTreeMap;

use proptest::prelude::*;
use qq_proto_amqp::types::Value;

use super::support::{is_passed, selector, text, with_properties};

/// A value as the slow evaluator has it.
#[derive(Clone, Debug, PartialEq)]
enum Slow {
    Null,
    Truth(bool),
    Whole(i64),
    Real(f64),
    Words(String),
}

#[derive(Clone, Debug)]
enum Tree {
    Leaf(Slow),
    Name(&'static str),
    Not(Box<Tree>),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
    Compare(&'static str, Box<Tree>, Box<Tree>),
    Between(bool, Box<Tree>, Box<Tree>, Box<Tree>),
    In(bool, Box<Tree>, Vec<Slow>),
    Like(bool, Box<Tree>, String),
    IsNull(bool, &'static str),
    Minus(Box<Tree>),
    Arithmetic(char, Box<Tree>, Box<Tree>),
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn shown(value: &Slow) -> String {
    match value {
        Slow::Null => panic!("selectors cannot write it"),
        Slow::Truth(value) => value.to_string().to_uppercase(),
        Slow::Whole(value) => value.to_string(),
        Slow::Real(value) => format!("{value:?}"),
        Slow::Words(value) => format!("'{}'", value.replace('\'', "''")),
    }
}

impl Tree {
    /// How tightly the outermost operator binds.
    fn level(&self) -> u8 {
        match self {
            Self::Or(..) => 0,
            Self::And(..) => 1,
            Self::Not(_) => 2,
            Self::Compare(..) | Self::Between(..) | Self::In(..) | Self::Like(..) => 3,
            Self::IsNull(..) => 3,
            Self::Arithmetic('+' | '-', ..) => 4,
            Self::Arithmetic(..) => 5,
            Self::Minus(_) => 6,
            Self::Leaf(_) | Self::Name(_) => 7,
        }
    }

    /// In parentheses where it binds less tightly than it must.
    fn at(&self, level: u8) -> String {
        if self.level() < level {
            format!("({})", self.write())
        } else {
            self.write()
        }
    }

    fn write(&self) -> String {
        let not = |is_negated: &bool| if *is_negated { "NOT " } else { "" };
        match self {
            Self::Leaf(value) => shown(value),
            Self::Name(name) => (*name).to_owned(),
            Self::Not(inner) => format!("NOT {}", inner.at(2)),
            Self::And(a, b) => format!("{} AND {}", a.at(1), b.at(2)),
            Self::Or(a, b) => format!("{} OR {}", a.at(0), b.at(1)),
            Self::Compare(sign, a, b) => format!("{} {sign} {}", a.at(4), b.at(4)),
            Self::Between(is_negated, value, low, high) => format!(
                "{} {}BETWEEN {} AND {}",
                value.at(4),
                not(is_negated),
                low.at(4),
                high.at(4)
            ),
            Self::In(is_negated, value, list) => {
                let list: Vec<_> = list.iter().map(shown).collect();
                format!(
                    "{} {}IN ({})",
                    value.at(4),
                    not(is_negated),
                    list.join(", ")
                )
            }
            Self::Like(is_negated, value, pattern) => format!(
                "{} {}LIKE {}",
                value.at(4),
                not(is_negated),
                shown(&Slow::Words(pattern.clone()))
            ),
            Self::IsNull(is_negated, name) => format!("{name} IS {}NULL", not(is_negated)),
            Self::Minus(inner) => format!("- {}", inner.at(6)),
            Self::Arithmetic(sign, a, b) => {
                let level = self.level();
                format!("{} {sign} {}", a.at(level), b.at(level + 1))
            }
        }
    }

    fn value(&self, names: &BTreeMap<&str, Slow>) -> Slow {
        let truth = |is: Option<bool>| is.map_or(Slow::Null, Slow::Truth);
        let negated = |is_negated: bool, is: Option<bool>| truth(is.map(|is| is != is_negated));
        match self {
            Self::Leaf(value) => value.clone(),
            Self::Name(name) => names.get(name).cloned().unwrap_or(Slow::Null),
            Self::Not(inner) => truth(inner.truth(names).map(|is| !is)),
            // The tables of Jakarta Messaging 3.8.1.2, row by row.
            Self::And(a, b) => truth(match (a.truth(names), b.truth(names)) {
                (Some(true), Some(true)) => Some(true),
                (Some(false), _) | (_, Some(false)) => Some(false),
                _ => None,
            }),
            Self::Or(a, b) => truth(match (a.truth(names), b.truth(names)) {
                (Some(false), Some(false)) => Some(false),
                (Some(true), _) | (_, Some(true)) => Some(true),
                _ => None,
            }),
            Self::Compare(sign, a, b) => truth(compare(sign, &a.value(names), &b.value(names))),
            Self::Between(is_negated, value, low, high) => {
                let as_two = Self::And(
                    Box::new(Self::Compare(">=", value.clone(), low.clone())),
                    Box::new(Self::Compare("<=", value.clone(), high.clone())),
                );
                negated(*is_negated, as_two.truth(names))
            }
            Self::In(is_negated, value, list) => {
                let value = value.value(names);
                let mut any = Some(false);
                for other in list {
                    match compare("=", &value, other) {
                        None => any = None,
                        Some(true) => any = Some(true),
                        Some(false) => {}
                    }
                }
                negated(*is_negated, any)
            }
            Self::Like(is_negated, value, pattern) => match value.value(names) {
                Slow::Words(words) => {
                    let pattern: Vec<_> = pattern.chars().collect();
                    let words: Vec<_> = words.chars().collect();
                    negated(*is_negated, Some(like(&pattern, &words)))
                }
                _ => Slow::Null,
            },
            Self::IsNull(is_negated, name) => {
                let is_null = matches!(names.get(name), None | Some(Slow::Null));
                Slow::Truth(is_null != *is_negated)
            }
            Self::Minus(inner) => arithmetic('*', &Slow::Whole(-1), &inner.value(names)),
            Self::Arithmetic(sign, a, b) => arithmetic(*sign, &a.value(names), &b.value(names)),
        }
    }

    fn truth(&self, names: &BTreeMap<&str, Slow>) -> Option<bool> {
        match self.value(names) {
            Slow::Truth(is) => Some(is),
            _ => None,
        }
    }
}

fn like(pattern: &[char], words: &[char]) -> bool {
    match pattern.split_first() {
        None => words.is_empty(),
        Some(('%', rest)) => (0..=words.len()).any(|skip| like(rest, &words[skip..])),
        Some(('_', rest)) => !words.is_empty() && like(rest, &words[1..]),
        Some((c, rest)) => words.first() == Some(c) && like(rest, &words[1..]),
    }
}

/// Numbers stay small here, so that a double holds each exactly.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn real(value: &Slow) -> Option<f64> {
    match value {
        Slow::Whole(value) => Some(*value as f64),
        Slow::Real(value) => Some(*value),
        _ => None,
    }
}

fn compare(sign: &str, a: &Slow, b: &Slow) -> Option<bool> {
    if *a == Slow::Null || *b == Slow::Null {
        return None;
    }
    if let (Some(a), Some(b)) = (real(a), real(b)) {
        return Some(match sign {
            "=" => a == b,
            "<>" => a != b,
            "<" => a < b,
            "<=" => a <= b,
            ">" => a > b,
            _ => a >= b,
        });
    }
    let is_equal = match (a, b) {
        (Slow::Truth(a), Slow::Truth(b)) => a == b,
        (Slow::Words(a), Slow::Words(b)) => a == b,
        // Of unlike kinds nothing is true, not even that they differ.
        _ => return Some(false),
    };
    Some(match sign {
        "=" => is_equal,
        "<>" => !is_equal,
        _ => false,
    })
}

fn arithmetic(sign: char, a: &Slow, b: &Slow) -> Slow {
    if let (Slow::Whole(a), Slow::Whole(b)) = (a, b) {
        return match sign {
            '+' => Slow::Whole(a + b),
            '-' => Slow::Whole(a - b),
            '*' => Slow::Whole(a * b),
            _ if *b == 0 => Slow::Null,
            _ => Slow::Whole(a / b),
        };
    }
    match (real(a), real(b)) {
        (Some(a), Some(b)) => match sign {
            '+' => Slow::Real(a + b),
            '-' => Slow::Real(a - b),
            '*' => Slow::Real(a * b),
            _ if b == 0.0 => Slow::Null,
            _ => Slow::Real(a / b),
        },
        _ => Slow::Null,
    }
}

fn values() -> impl Strategy<Value = Slow> {
    prop_oneof![
        any::<bool>().prop_map(Slow::Truth),
        (0_i64..4).prop_map(Slow::Whole),
        (0_i32..8).prop_map(|halves| Slow::Real(f64::from(halves) / 2.0)),
        "[ab']{0,2}".prop_map(Slow::Words),
    ]
}

fn numbers() -> impl Strategy<Value = Slow> + Clone {
    prop_oneof![
        (0_i64..4).prop_map(Slow::Whole),
        (0_i32..8).prop_map(|halves| Slow::Real(f64::from(halves) / 2.0)),
    ]
}

/// Calculations that mostly have a value: of anything at all they mostly would not.
fn calculations() -> impl Strategy<Value = Tree> + Clone {
    let leaf = prop_oneof![
        2 => numbers().prop_map(Tree::Leaf),
        1 => prop::sample::select(vec!["a", "b"]).prop_map(Tree::Name),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let one = inner.prop_map(Box::new);
        let signs = prop::sample::select(vec!['+', '-', '*', '/']);
        prop_oneof![
            4 => (signs, one.clone(), one.clone())
                .prop_map(|(sign, a, b)| Tree::Arithmetic(sign, a, b)),
            1 => one.prop_map(Tree::Minus),
        ]
    })
}

fn signs() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["=", "<>", "<", "<=", ">", ">="])
}

fn trees() -> impl Strategy<Value = Tree> {
    let name = prop::sample::select(NAMES.to_vec());
    let number = calculations().prop_map(Box::new);
    let leaf = prop_oneof![
        1 => values().prop_map(Tree::Leaf),
        1 => name.clone().prop_map(Tree::Name),
        1 => (any::<bool>(), name).prop_map(|(is_negated, name)| Tree::IsNull(is_negated, name)),
        4 => (signs(), number.clone(), number.clone())
            .prop_map(|(sign, a, b)| Tree::Compare(sign, a, b)),
        2 => (any::<bool>(), number.clone(), number.clone(), number)
            .prop_map(|(is_negated, a, b, c)| Tree::Between(is_negated, a, b, c)),
    ];
    leaf.prop_recursive(5, 32, 3, |inner| {
        let one = inner.clone().prop_map(Box::new);
        let two = (one.clone(), one.clone());
        let list = prop::collection::vec(values(), 1..4);
        prop_oneof![
            one.clone().prop_map(Tree::Not),
            one.clone().prop_map(Tree::Minus),
            two.clone().prop_map(|(a, b)| Tree::And(a, b)),
            two.clone().prop_map(|(a, b)| Tree::Or(a, b)),
            (signs(), two.clone()).prop_map(|(sign, (a, b))| Tree::Compare(sign, a, b)),
            (any::<bool>(), two.clone(), one.clone())
                .prop_map(|(is_negated, (a, b), c)| Tree::Between(is_negated, a, b, c)),
            (any::<bool>(), one.clone(), list)
                .prop_map(|(is_negated, value, list)| Tree::In(is_negated, value, list)),
            (any::<bool>(), one, "[ab%_]{0,3}")
                .prop_map(|(is_negated, value, pattern)| Tree::Like(is_negated, value, pattern)),
            (prop::sample::select(vec!['+', '-', '*', '/']), two)
                .prop_map(|(sign, (a, b))| Tree::Arithmetic(sign, a, b)),
        ]
    })
}

/// Whether a message with these properties passes, and whether it passes the negation.
fn evaluated(condition: &str, names: &BTreeMap<&str, Slow>) -> (bool, bool) {
    let properties: Vec<_> = names
        .iter()
        .map(|(name, value)| {
            let value = match value {
                Slow::Null => Value::Null,
                Slow::Truth(value) => Value::Bool(*value),
                Slow::Whole(value) => Value::Long(*value),
                Slow::Real(value) => Value::Double(value.to_bits()),
                Slow::Words(value) => text(value),
            };
            (*name, value)
        })
        .collect();
    let message = with_properties(&properties);
    let of = |text: &str| match selector(text) {
        Ok(filter) => is_passed(&filter, &message),
        Err(error) => panic!("{text}: {error}"),
    };
    (of(condition), of(&format!("NOT ({condition})")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_048, ..ProptestConfig::default() })]

    #[test]
    fn the_answer_is_that_of_the_standard(
        tree in trees(),
        known in prop::collection::vec(prop::option::weighted(0.9, numbers()), 2),
        found in prop::collection::vec(prop::option::of(values()), NAMES.len() - 2),
    ) {
        let names: BTreeMap<_, _> = NAMES
            .into_iter()
            .zip(known.into_iter().chain(found))
            .filter_map(|(name, value)| value.map(|value| (name, value)))
            .collect();
        let condition = tree.write();
        let expected = match tree.truth(&names) {
            Some(true) => (true, false),
            Some(false) => (false, true),
            None => (false, false),
        };
        prop_assert_eq!(evaluated(&condition, &names), expected, "{}", condition);
    }

    /// Whatever a peer writes, it compiles or is refused at a place within it.
    #[test]
    fn no_text_makes_it_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "a", "'x'", "1", ".5", "0x", "(", ")", ",", "AND", "OR", "NOT", "IN", "LIKE", "ESCAPE", "BETWEEN", "IS",
            "NULL", "=", "<>", "<", "-", "+", "*", "/", "%", "[", "]", "\"", "'", "é", "UTC", "LEFT", ".", "p.to",
        ]), 0..20),
        has_blanks in any::<bool>(),
    ) {
        let condition = words.join(if has_blanks { " " } else { "" });
        for compile in [selector, super::support::sql] {
            match compile(&condition) {
                Ok(filter) => {
                    let _ = is_passed(&filter, &super::support::order());
                }
                Err(error) => {
                    let column = error.column.expect("selectors have text");
                    prop_assert!((1..=condition.chars().count() + 1).contains(&column));
                }
            }
        }
    }
}
