//! Attach: what a peer asks for becomes a spec for the broker, and what the broker gave becomes the reply. The reply
//! states only what is in effect (part 3, 3.5.3).

use bytes::Bytes;
use qq_proto_amqp::connection::LinkReply;
use qq_proto_amqp::performative::{
    Attach, DeliveryState, RcvSettleMode, SndSettleMode, Source, Target, TargetKind,
};
use qq_proto_amqp::types::{Map, Str, Symbol, Value};

use super::outcome::outcome_of;
use super::stream::{self, Beginning};
use crate::filter::FilterSet;
use crate::vocab::{
    Address, ConsumerOpened, ConsumerSpec, ExpiryPolicy, LifetimePolicy, LinkKey, LockSpec,
    NodeKind, Outcome, ProducerOpened, ProducerSpec, Reason, Refusal, StreamRead, StreamStart,
    SubscriptionSpec, TerminusDurability,
};

pub(super) const ACCEPTED: Symbol = Symbol::from_static("amqp:accepted:list");
pub(super) const REJECTED: Symbol = Symbol::from_static("amqp:rejected:list");
pub(super) const RELEASED: Symbol = Symbol::from_static("amqp:released:list");
pub(super) const MODIFIED: Symbol = Symbol::from_static("amqp:modified:list");
const COPY: Symbol = Symbol::from_static("copy");
const MOVE: Symbol = Symbol::from_static("move");
/// Source and target capabilities as the JMS mapping names them.
const SHARED: Symbol = Symbol::from_static("shared");
const GLOBAL: Symbol = Symbol::from_static("global");
const TOPIC: Symbol = Symbol::from_static("topic");
const NEVER: Symbol = Symbol::from_static("never");
const LINK_DETACH: Symbol = Symbol::from_static("link-detach");
const LIFETIME_POLICY: &str = "lifetime-policy";

pub(super) fn producer_spec(container: &Bytes, attach: &Attach) -> Result<ProducerSpec, Refusal> {
    let target = match &attach.target {
        Some(TargetKind::Target(target)) => target,
        Some(TargetKind::Coordinator(_)) => {
            return Err(refusal(
                Reason::NotImplemented,
                "a coordinator is no node; it is for control links",
            ));
        }
        Some(TargetKind::Other(_)) => {
            return Err(refusal(
                Reason::NotImplemented,
                "this broker knows no such kind of target; name a queue",
            ));
        }
        None => {
            return Err(refusal(
                Reason::Invalid,
                "a sender needs a target; this one has none",
            ));
        }
    };
    let address = if target.dynamic {
        Address::Dynamic {
            lifetime: lifetime_of(target.dynamic_node_properties.as_ref()),
        }
    } else {
        match &target.address {
            None => Address::Anonymous,
            Some(address) => address_of(address, &target.capabilities)?,
        }
    };
    Ok(ProducerSpec {
        key: Some(key_of(container, attach)),
        address,
    })
}

pub(super) fn consumer_spec(container: &Bytes, attach: &Attach) -> Result<ConsumerSpec, Refusal> {
    let Some(source) = &attach.source else {
        return Ok(lookup_spec(container, attach));
    };
    let address = if source.dynamic {
        Address::Dynamic {
            lifetime: lifetime_of(source.dynamic_node_properties.as_ref()),
        }
    } else {
        match &source.address {
            None => {
                return Err(refusal(
                    Reason::Invalid,
                    "a receiver's source needs an address or `dynamic`",
                ));
            }
            Some(address) => address_of(address, &source.capabilities)?,
        }
    };
    Ok(ConsumerSpec {
        key: Some(key_of(container, attach)),
        address,
        browse: source.distribution_mode.as_ref() == Some(&COPY),
        settled: attach.snd_settle_mode == SndSettleMode::Settled,
        default_outcome: source
            .default_outcome
            .as_ref()
            .and_then(outcome_of)
            .unwrap_or(Outcome::Released),
        subscription: subscription_of(source),
        filter: filters_of(source)?.spec,
        lock: LockSpec::default(),
        stream: StreamRead {
            start: start_of(source)?.map_or_else(StreamStart::default, |asked| asked.start),
            resumes: None,
        },
    })
}

/// A receiver without a source asks for the subscription that its link's name means, whatever that reads. JMS clients
/// end a subscription so: they look it up and close the link. Where nothing identifies the client, the name ends in
/// `|global`.
fn lookup_spec(container: &Bytes, attach: &Attach) -> ConsumerSpec {
    let is_global = attach.desired_capabilities.contains(&GLOBAL)
        || attach.name.as_bytes().ends_with(b"|global");
    ConsumerSpec {
        key: Some(key_of(container, attach)),
        address: Address::Subscription,
        browse: false,
        settled: attach.snd_settle_mode == SndSettleMode::Settled,
        default_outcome: Outcome::Released,
        filter: None,
        stream: StreamRead::default(),
        subscription: SubscriptionSpec {
            is_shared: is_global || attach.desired_capabilities.contains(&SHARED),
            is_global,
            ..SubscriptionSpec::default()
        },
        lock: LockSpec::default(),
    }
}

fn subscription_of(source: &Source) -> SubscriptionSpec {
    SubscriptionSpec {
        durability: match source.durable {
            0 => TerminusDurability::None,
            1 => TerminusDurability::Configuration,
            _ => TerminusDurability::UnsettledState,
        },
        expiry: match source.expiry_policy.as_str() {
            "never" => ExpiryPolicy::Never,
            "link-detach" => ExpiryPolicy::LinkDetach,
            "connection-close" => ExpiryPolicy::ConnectionClose,
            _ => ExpiryPolicy::SessionEnd,
        },
        is_shared: source.capabilities.contains(&SHARED),
        is_global: source.capabilities.contains(&GLOBAL),
    }
}

/// Whether a sender understands an outcome; a source that lists none takes all (part 3, 3.5.3).
pub(super) fn has_outcome(attach: &Attach, outcome: &Symbol) -> bool {
    attach
        .source
        .as_ref()
        .is_none_or(|source| source.outcomes.is_empty() || source.outcomes.contains(outcome))
}

pub(super) fn producer_reply(
    attach: &Attach,
    opened: &ProducerOpened,
    rcv_settle_mode: RcvSettleMode,
    message_size_max: u64,
) -> LinkReply {
    let asked = match &attach.target {
        Some(TargetKind::Target(target)) => target.clone(),
        _ => Target::default(),
    };
    let address = match opened.kind {
        NodeKind::Anonymous => None,
        _ if asked.dynamic => Some(Value::Str(Str::from(opened.name.as_str()))),
        _ => asked.address.clone(),
    };
    let target = Target {
        address,
        durable: 0,
        expiry_policy: LINK_DETACH,
        timeout: 0,
        dynamic: asked.dynamic,
        dynamic_node_properties: asked.dynamic_node_properties.filter(|_| asked.dynamic),
        capabilities: Vec::new(),
    };
    LinkReply {
        source: attach.source.clone(),
        target: Some(TargetKind::Target(target)),
        snd_settle_mode: attach.snd_settle_mode,
        rcv_settle_mode,
        max_message_size: Some(message_size_max),
        ..LinkReply::default()
    }
}

pub(super) fn consumer_reply(
    attach: &Attach,
    opened: &ConsumerOpened,
    message_size_max: u64,
) -> LinkReply {
    let asked = attach.source.clone().unwrap_or_default();
    // Read without error before the broker was asked.
    let mut effective = filters_of(&asked).map_or_else(|_| Map::new(), |set| set.effective);
    if opened.kind == NodeKind::Stream
        && let Ok(Some(beginning)) = start_of(&asked)
    {
        effective.push(beginning.entry);
    }
    let default_outcome = asked
        .default_outcome
        .filter(|state| outcome_of(state).is_some());
    let held = &opened.subscription;
    let is_exchange = opened.kind == NodeKind::Exchange;
    let capabilities = [
        (TOPIC, is_exchange && asked.capabilities.contains(&TOPIC)),
        (SHARED, held.is_shared),
        (GLOBAL, held.is_global),
    ];
    let capabilities = (capabilities.into_iter())
        .filter_map(|(capability, is_given)| is_given.then_some(capability))
        .collect();
    let source = Source {
        address: if asked.dynamic {
            Some(Value::Str(Str::from(opened.name.as_str())))
        } else {
            // A looked-up subscription says what it reads.
            let found = || Value::Str(Str::from(exchange_address(&opened.name).as_str()));
            Some(asked.address.unwrap_or_else(found))
        },
        durable: u32::from(held.durability != TerminusDurability::None),
        expiry_policy: match held.expiry {
            ExpiryPolicy::Never => NEVER,
            _ => LINK_DETACH,
        },
        timeout: 0,
        dynamic: asked.dynamic,
        dynamic_node_properties: asked.dynamic_node_properties.filter(|_| asked.dynamic),
        distribution_mode: Some(if opened.browse { COPY } else { MOVE }),
        filter: Some(effective).filter(|map| !map.is_empty()),
        default_outcome: Some(default_outcome.unwrap_or(DeliveryState::Released)),
        outcomes: vec![ACCEPTED, REJECTED, RELEASED, MODIFIED],
        capabilities,
    };
    LinkReply {
        source: Some(source),
        target: attach
            .target
            .clone()
            .or_else(|| Some(TargetKind::Target(Target::default()))),
        snd_settle_mode: attach.snd_settle_mode,
        rcv_settle_mode: attach.rcv_settle_mode,
        max_message_size: Some(message_size_max),
        initial_delivery_count: Some(0),
        ..LinkReply::default()
    }
}

/// `/exchanges/NAME` with what is not plain in the name percent-encoded.
fn exchange_address(name: &str) -> String {
    let mut address = String::from("/exchanges/");
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                address.push(char::from(byte));
            }
            _ => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address
}

/// The filters of a source, sorted by what this broker knows of them.
fn filters_of(source: &Source) -> Result<FilterSet, Refusal> {
    let Some(map) = &source.filter else {
        return Ok(FilterSet::default());
    };
    FilterSet::read(map).map_err(|error| refusal(Reason::Invalid, &error.to_string()))
}

/// Where a receiver wants to begin, if its source is a stream.
fn start_of(source: &Source) -> Result<Option<Beginning>, Refusal> {
    match &source.filter {
        Some(map) => stream::start_of(map),
        None => Ok(None),
    }
}

fn key_of(container: &Bytes, attach: &Attach) -> LinkKey {
    LinkKey {
        container: container.clone(),
        name: Bytes::copy_from_slice(attach.name.as_bytes()),
    }
}

/// A plain name with the capability `topic` is an exchange: JMS has topics and queues of the same name.
fn address_of(address: &Value, capabilities: &[Symbol]) -> Result<Address, Refusal> {
    match address {
        Value::Str(text) => Ok(match Address::parse(text)? {
            Address::Name(name) if capabilities.contains(&TOPIC) => {
                Address::Exchange { name, key: None }
            }
            other => other,
        }),
        _ => Err(refusal(Reason::Invalid, "an address must be a string")),
    }
}

/// The lifetime policy of `dynamic-node-properties` (part 3, 3.5.10): a described list 0x2b to 0x2e.
fn lifetime_of(properties: Option<&Map>) -> LifetimePolicy {
    let policy = properties.into_iter().flatten().find_map(|(key, value)| {
        let is_policy = matches!(key, Value::Symbol(name) if name.as_str() == LIFETIME_POLICY);
        is_policy.then_some(value)
    });
    let Some(Value::Described(described)) = policy else {
        return LifetimePolicy::default();
    };
    match &described.descriptor {
        Value::Ulong(0x2c) => LifetimePolicy::DeleteOnNoLinks,
        Value::Ulong(0x2d) => LifetimePolicy::DeleteOnNoMessages,
        Value::Ulong(0x2e) => LifetimePolicy::DeleteOnNoLinksOrMessages,
        Value::Symbol(name) => match name.as_str() {
            "amqp:delete-on-no-links:list" => LifetimePolicy::DeleteOnNoLinks,
            "amqp:delete-on-no-messages:list" => LifetimePolicy::DeleteOnNoMessages,
            "amqp:delete-on-no-links-or-messages:list" => LifetimePolicy::DeleteOnNoLinksOrMessages,
            _ => LifetimePolicy::DeleteOnClose,
        },
        _ => LifetimePolicy::DeleteOnClose,
    }
}

pub(super) fn refusal(reason: Reason, text: &str) -> Refusal {
    Refusal {
        reason,
        text: text.to_owned(),
    }
}
