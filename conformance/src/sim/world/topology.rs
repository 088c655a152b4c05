//! Exchanges and bindings that come and go while messages pass.

use qq_core::route::{BindingSpec, Datum, ExchangeKind, ExchangeSpec};

use super::World;
use crate::sim::plan::Fault;
use crate::sim::random::Random;
use crate::sim::reference::{Change, Input};
use crate::sim::setup::DEAD_EXCHANGE;

/// Exchanges that always exist.
const GIVEN: [&str; 4] = ["amq.direct", "amq.topic", "amq.fanout", "amq.headers"];
/// Patterns of a topic exchange, some of which are keys as well.
const PATTERNS: [&str; 10] = [
    "#", "*", "a", "a.b", "a.*", "*.b", "#.c", "a.#.c", "*.*", "",
];
/// Arguments of a headers exchange.
const MODES: [&str; 4] = ["all", "any", "all-with-x", "any-with-x"];

impl World {
    /// Whether clients send to exchanges.
    pub(super) fn has_exchanges(&self) -> bool {
        self.plan.has(Fault::Exchanges) || self.plan.has(Fault::Subscriptions)
    }

    /// The name of an exchange that is there, or may be.
    pub(super) fn pick_exchange(&self, random: &mut Random) -> String {
        let own = self.plan.exchanges.iter().map(|spec| spec.name.as_str());
        let names: Vec<_> = own.chain(GIVEN).collect();
        names[random.index(names.len())].to_owned()
    }

    /// What is there before anything happens, and after each start.
    pub(super) fn declare_topology(&mut self) {
        if !self.plan.has(Fault::Exchanges) {
            return;
        }
        let fanout = ExchangeSpec::new(DEAD_EXCHANGE, ExchangeKind::Fanout);
        self.change_topology(Change::Declare(fanout));
        for queue in ["dead.a", "dead.b"] {
            if self.plan.targets.iter().any(|spec| spec.name == queue) {
                let binding = BindingSpec::to_queue(DEAD_EXCHANGE, queue, "");
                self.change_topology(Change::Bind(binding));
            }
        }
        if self.process == 1 {
            let mut random = Random::fork(self.plan.seed, 10, 0);
            for spec in self.plan.exchanges.clone() {
                self.change_topology(Change::Declare(spec));
            }
            for _ in 0..12 {
                let binding = self.pick_binding(&mut random);
                self.change_topology(Change::Bind(binding));
            }
        }
    }

    /// One change of exchanges and bindings.
    pub(super) fn reroute(&mut self, random: &mut Random) {
        self.operations += 1;
        let own = &self.plan.exchanges;
        let change = match random.below(20) {
            0 => Change::Delete(own[random.index(own.len())].name.clone()),
            1..=3 => Change::Declare(own[random.index(own.len())].clone()),
            4..=8 => match self.reference.some_binding(random.draw()) {
                Some(binding) => Change::Unbind(binding),
                None => Change::Unbind(self.pick_binding(random)),
            },
            _ => Change::Bind(self.pick_binding(random)),
        };
        self.change_topology(change);
    }

    fn pick_binding(&self, random: &mut Random) -> BindingSpec {
        let exchange = self.pick_exchange(random);
        let key = PATTERNS[random.index(PATTERNS.len())];
        let mut binding = if random.is_lucky(250) {
            BindingSpec::to_exchange(&exchange, &self.pick_exchange(random), key)
        } else {
            let queue = &self.plan.queues[random.index(self.plan.queues.len())].name;
            BindingSpec::to_queue(&exchange, queue, key)
        };
        if random.is_lucky(600) {
            let mode = Datum::Text(MODES[random.index(4)].to_owned());
            let arguments = &mut binding.arguments;
            arguments.insert("x-match".to_owned(), mode);
            if random.is_lucky(700) {
                let color = Datum::Text(["red", "blue"][random.index(2)].to_owned());
                arguments.insert("color".to_owned(), color);
            }
            if random.is_lucky(400) {
                let size = if random.is_lucky(200) {
                    Datum::Null
                } else {
                    Datum::Int(random.below(4) as i64)
                };
                arguments.insert("size".to_owned(), size);
            }
            if random.is_lucky(300) {
                let number = Datum::Int(random.below(2) as i64);
                arguments.insert("x-number".to_owned(), number);
            }
        }
        binding
    }

    fn change_topology(&mut self, change: Change) {
        let now = self.broker_now();
        let Some(node) = &mut self.node else {
            return;
        };
        let asked = change.clone();
        let result = node.administer(now, |broker| match asked {
            Change::Declare(spec) => broker.declare_exchange(spec).map(|_| ()),
            Change::Delete(name) => broker.delete_exchange(now, &name, false),
            Change::Bind(spec) => broker.bind(spec, None).map(|_| ()),
            Change::Unbind(spec) => broker.unbind(now, &spec, None),
        });
        self.inputs.push(Input::Topology(change, result.is_ok()));
        self.after_node();
    }
}
