//! The table against a model that does everything the slow way: patterns by plain recursion, headers by comparing every
//! binding, reachability by walking.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use crate::route::{
    BindingSpec, Datum, ExchangeKind, ExchangeSpec, Exchanges, Headers, QueueRef, Routed, Scalar,
    TableLimits,
};
use crate::vocab::QueueId;

#[derive(Clone, Debug)]
enum Step {
    Bind(BindingSpec),
    Unbind(prop::sample::Index),
    DeleteQueue(u64),
    DeleteExchange(usize),
    Route(usize, String, Vec<(String, Datum)>),
}

const EXCHANGES: [(&str, ExchangeKind, Option<&str>, bool); 6] = [
    ("d", ExchangeKind::Direct, Some("f"), false),
    ("t", ExchangeKind::Topic, None, false),
    ("f", ExchangeKind::Fanout, Some("d"), false),
    ("h", ExchangeKind::Headers, Some("t"), false),
    ("t2", ExchangeKind::Topic, Some("h"), true),
    ("h2", ExchangeKind::Headers, None, true),
];

/// The slow way. Exchanges that exist, and bindings in order.
#[derive(Default)]
struct Model {
    exchanges: BTreeSet<usize>,
    bindings: Vec<BindingSpec>,
}

fn fits_words(pattern: &[&str], key: &[&str]) -> bool {
    match pattern.split_first() {
        None => key.is_empty(),
        Some((&"#", rest)) => (0..=key.len()).any(|skip| fits_words(rest, &key[skip..])),
        Some((word, rest)) => key
            .split_first()
            .is_some_and(|(first, key)| (*word == "*" || word == first) && fits_words(rest, key)),
    }
}

fn fits_topic(pattern: &str, key: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        if text.is_empty() {
            Vec::new()
        } else {
            text.split('.').map(str::to_owned).collect()
        }
    };
    let (pattern, key) = (words(pattern), words(key));
    let pattern: Vec<_> = pattern.iter().map(String::as_str).collect();
    let key: Vec<_> = key.iter().map(String::as_str).collect();
    fits_words(&pattern, &key)
}

/// By value, through decimal text: integers have no fraction, floats that are whole show none either.
fn text_of(datum: &Datum) -> String {
    match datum {
        Datum::Null => "null".to_owned(),
        Datum::Bool(value) => format!("bool {value}"),
        Datum::Int(value) => format!("number {value}"),
        Datum::Uint(value) => format!("number {value}"),
        Datum::Float(value) => format!("number {value}"),
        Datum::Text(value) => format!("text {value}"),
        Datum::Typed(value) => format!("{value:?}"),
    }
}

fn fits_headers(spec: &BindingSpec, headers: &[(String, Datum)]) -> bool {
    let mode = match spec.arguments.get("x-match") {
        Some(Datum::Text(mode)) => mode.as_str(),
        _ => "all",
    };
    let with_x = mode.ends_with("-with-x");
    let mut held = spec
        .arguments
        .iter()
        .filter(|(name, _)| *name != "x-match" && (with_x || !name.starts_with("x-")))
        .map(|(name, wanted)| {
            headers.iter().any(|(key, value)| {
                key == name && (matches!(wanted, Datum::Null) || text_of(wanted) == text_of(value))
            })
        });
    if mode.starts_with("any") {
        held.any(|is_held| is_held)
    } else {
        held.all(|is_held| is_held)
    }
}

fn exchange_at(name: &str) -> usize {
    (EXCHANGES.iter())
        .position(|(known, ..)| *known == name)
        .expect("one of ours")
}

impl Model {
    fn route(&self, start: usize, key: &str, headers: &[(String, Datum)]) -> BTreeSet<String> {
        let mut queues = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut waiting = vec![start];
        while let Some(at) = waiting.pop() {
            if !seen.insert(at) {
                continue;
            }
            let (name, kind, alternate, _) = EXCHANGES[at];
            let taken: Vec<_> = self
                .bindings
                .iter()
                .filter(|spec| spec.exchange == name)
                .filter(|spec| match kind {
                    ExchangeKind::Direct => spec.routing_key == key,
                    ExchangeKind::Topic => fits_topic(&spec.routing_key, key),
                    ExchangeKind::Fanout => true,
                    ExchangeKind::Headers => fits_headers(spec, headers),
                })
                .collect();
            for spec in &taken {
                queues.extend(spec.queue.clone());
                waiting.extend(spec.to_exchange.as_deref().map(exchange_at));
            }
            let alternate = alternate.map(exchange_at);
            if taken.is_empty() {
                waiting.extend(alternate.filter(|at| self.exchanges.contains(at)));
            }
        }
        queues
    }

    /// Takes bindings away and then, as long as there are any, the exchanges that go with their last one.
    fn remove(&mut self, mut is_gone: impl FnMut(&BindingSpec) -> bool) {
        let mut before = self.bindings.clone();
        self.bindings.retain(|spec| !is_gone(spec));
        loop {
            let emptied: Vec<_> = (0..EXCHANGES.len())
                .filter(|at| self.exchanges.contains(at) && EXCHANGES[*at].3)
                .filter(|at| {
                    let from = |spec: &&BindingSpec| spec.exchange == EXCHANGES[*at].0;
                    before.iter().any(|spec| from(&spec))
                        && !self.bindings.iter().any(|spec| from(&spec))
                })
                .collect();
            if emptied.is_empty() {
                return;
            }
            before = self.bindings.clone();
            for at in emptied {
                self.exchanges.remove(&at);
                self.bindings
                    .retain(|spec| spec.to_exchange.as_deref() != Some(EXCHANGES[at].0));
            }
        }
    }
}

fn keys() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec!["a", "b", "c", "", "*", "#"]),
        0..6,
    )
    .prop_map(|words| words.join("."))
}

fn values() -> impl Strategy<Value = Datum> {
    prop_oneof![
        (0_i64..2).prop_map(Datum::Int),
        (0_u64..2).prop_map(Datum::Uint),
        prop::sample::select(vec![0.0, 1.0, 0.5]).prop_map(Datum::Float),
        any::<bool>().prop_map(Datum::Bool),
        prop::sample::select(vec!["0", "1"]).prop_map(Datum::from),
        Just(Datum::Null),
    ]
}

fn names() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["k", "l", "x-m"]).prop_map(str::to_owned)
}

fn bindings() -> impl Strategy<Value = BindingSpec> {
    let modes = prop::option::of(prop::sample::select(vec![
        "all",
        "any",
        "all-with-x",
        "any-with-x",
    ]));
    let ends = (0..EXCHANGES.len(), 0..EXCHANGES.len(), 0_u64..5, 0..4);
    let arguments = prop::collection::btree_map(names(), values(), 0..3);
    (ends, keys(), arguments, modes).prop_map(
        |((from, to, queue, kind), routing_key, mut arguments, mode)| {
            if let Some(mode) = mode {
                arguments.insert("x-match".to_owned(), Datum::from(mode));
            }
            BindingSpec {
                exchange: EXCHANGES[from].0.to_owned(),
                queue: (kind > 0).then(|| queue.to_string()),
                to_exchange: (kind == 0).then(|| EXCHANGES[to].0.to_owned()),
                routing_key,
                arguments,
            }
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let headers = prop::collection::btree_map(names(), values(), 0..3)
        .prop_map(|headers| headers.into_iter().collect());
    let step = prop_oneof![
        6 => bindings().prop_map(Step::Bind),
        2 => any::<prop::sample::Index>().prop_map(Step::Unbind),
        1 => (0_u64..5).prop_map(Step::DeleteQueue),
        1 => (0..EXCHANGES.len()).prop_map(Step::DeleteExchange),
        8 => (0..EXCHANGES.len(), keys(), headers)
            .prop_map(|(at, key, headers)| Step::Route(at, key, headers)),
    ];
    prop::collection::vec(step, 1..60)
}

struct Listed<'a>(&'a [(String, Datum)]);

impl Headers for Listed<'_> {
    fn each(&self, each: &mut dyn FnMut(&str, Scalar<'_>)) {
        for (name, value) in self.0 {
            each(name, value.scalar());
        }
    }
}

fn declare(table: &mut Exchanges, model: &mut Model, at: usize) {
    let (name, kind, alternate, auto_delete) = EXCHANGES[at];
    let mut spec = ExchangeSpec::new(name, kind);
    spec.alternate_exchange = alternate.map(str::to_owned);
    spec.auto_delete = auto_delete;
    table.apply_declare(Arc::new(spec));
    model.exchanges.insert(at);
}

fn run(table: &mut Exchanges, model: &mut Model, step: Step) -> Result<(), TestCaseError> {
    match step {
        Step::Bind(spec) => {
            declare(table, model, exchange_at(&spec.exchange));
            if let Some(to) = &spec.to_exchange {
                declare(table, model, exchange_at(to));
            }
            let is_new = !model.bindings.contains(&spec);
            prop_assert_eq!(table.decide_bind(&spec), Ok(is_new));
            let queue = spec.queue.as_ref().map(|name| {
                let number = name.parse().expect("a number");
                let queue = QueueRef {
                    id: QueueId(number),
                    slot: 0,
                };
                (queue, true)
            });
            prop_assert_eq!(table.apply_bind(Arc::new(spec.clone()), queue), Some(true));
            if is_new {
                model.bindings.push(spec);
            }
        }
        Step::Unbind(which) => {
            if !model.bindings.is_empty() {
                let spec = model.bindings[which.index(model.bindings.len())].clone();
                table.apply_unbind(&spec);
                model.remove(|known| *known == spec);
            }
        }
        Step::DeleteQueue(number) => {
            table.apply_queue_deleted(QueueId(number));
            let name = number.to_string();
            model.remove(|spec| spec.queue.as_deref() == Some(name.as_str()));
        }
        Step::DeleteExchange(at) => {
            let name = EXCHANGES[at].0;
            table.apply_delete(name);
            model.exchanges.remove(&at);
            model.remove(|spec| spec.exchange == name || spec.to_exchange.as_deref() == Some(name));
        }
        Step::Route(at, key, headers) => {
            let Some(id) = table.find(EXCHANGES[at].0) else {
                prop_assert!(!model.exchanges.contains(&at));
                return Ok(());
            };
            let mut out = Vec::new();
            let routed = table.route(id, key.as_bytes(), &Listed(&headers), &mut out);
            prop_assert_eq!(routed == Routed::Unroutable, out.is_empty());
            let found: BTreeSet<_> = out.iter().map(|queue| queue.id.0.to_string()).collect();
            prop_assert_eq!(found.len(), out.len(), "each queue once");
            prop_assert_eq!(found, model.route(at, &key, &headers));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_table_routes_as_the_model_does(steps in steps(), seed in any::<u64>()) {
        let mut table = Exchanges::new(seed, TableLimits::default());
        let mut model = Model::default();
        for at in 0..EXCHANGES.len() {
            declare(&mut table, &mut model, at);
        }
        for step in steps {
            run(&mut table, &mut model, step)?;
            prop_assert_eq!(table.bindings_len(), model.bindings.len());
            let known: BTreeSet<_> = table.exchanges().map(|spec| spec.name.as_str()).collect();
            for (at, (name, ..)) in EXCHANGES.iter().enumerate() {
                prop_assert_eq!(known.contains(name), model.exchanges.contains(&at));
            }
        }
    }
}
