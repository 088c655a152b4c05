//! What the configuration means for AMQP connections.

use std::sync::Arc;

use qq_core::face::amqp::{AmqpConfig, AmqpFace, TxnLimits};
use qq_core::face::{Face, FaceFactory, Login};
use qq_proto_amqp::connection::{Config as ConnectionConfig, SaslConfig, SharedBudget};
use qq_proto_amqp::types::{Map, Str, Symbol, Value};

use crate::config::Config;
use crate::login::{Door, SharedUsers};

/// Deliveries that the broker may hand over ahead of the socket, per link: enough to keep a socket busy, few enough that
/// a large credit never means as many messages in memory.
const PERMIT_SLICE: u32 = 256;

/// Makes the faces of the AMQP listener.
pub(crate) fn amqp_factory(config: &Config, users: &SharedUsers) -> FaceFactory {
    let face = Arc::new(amqp_config(config, users));
    Arc::new(move |now, peer| {
        Box::new(AmqpFace::new(now, peer, Arc::clone(&face))) as Box<dyn Face>
    })
}

fn amqp_config(config: &Config, users: &SharedUsers) -> AmqpConfig {
    let door = Door::new(config, users);
    AmqpConfig {
        credit_max: config.limits.link_credit.to(),
        permit_slice: PERMIT_SLICE,
        unanswered_max: config.limits.unanswered_max.to(),
        unanswered_bytes_max: config.limits.unanswered_bytes_max.to(),
        txns: TxnLimits {
            open_max: config.limits.transactions_max.to(),
            idle_timeout: config.limits.transaction_idle_timeout.duration(),
        },
        connection: connection_config(config, mechanisms(config)),
        senders_second: config.server.senders_second_mode,
        queue_defaults: config.auto_create_spec(),
        authenticate: Arc::new(move |login: &Login<'_>| door.answer(login)),
    }
}

/// Strongest first, as clients try them in this order.
fn mechanisms(config: &Config) -> Vec<Symbol> {
    let plain = config
        .auth
        .users_file
        .0
        .is_some()
        .then(|| Symbol::from_static("PLAIN"));
    let anonymous = (!config.sasl.enabled).then(|| Symbol::from_static("ANONYMOUS"));
    plain.into_iter().chain(anonymous).collect()
}

fn connection_config(config: &Config, mechanisms: Vec<Symbol>) -> ConnectionConfig {
    let limits = &config.limits;
    ConnectionConfig {
        container_id: Str::from_static("quark-queue"),
        frame_size_max: config.server.max_frame_size.to(),
        frame_size_before_open_max: limits.frame_size_before_open_max.to(),
        channel_max: limits.sessions_max.to::<u16>() - 1,
        handle_max: limits.links_per_session_max.to::<u32>() - 1,
        links_max: limits.links_max.to(),
        idle_timeout_ms: config.server.idle_timeout.to(),
        idle_timeout_peer_min_ms: limits.idle_timeout_peer_min.to(),
        open_deadline_ms: limits.open_timeout.to(),
        first_bytes_deadline_ms: limits.first_bytes_timeout.to(),
        incoming_window: limits.session_window.to(),
        message_size_max: limits.message_size_max.value(),
        partial_bytes_max: limits.partial_bytes_max.to(),
        partial_bytes_node: Some(SharedBudget::new(limits.partial_bytes_node_max.to())),
        transfers_per_delivery_base: limits.frames_per_message_min.to(),
        transfers_per_delivery_bytes: limits.bytes_per_frame_min.to(),
        no_progress_frames_max: limits.no_progress_frames_max.to(),
        churn_burst: limits.link_churn_burst.to(),
        churn_rate: limits.link_churn_per_second.to(),
        unsent_bytes_max: limits.unsent_bytes_max.to(),
        slow_reader_ms: limits.slow_reader_timeout.to(),
        sasl: SaslConfig {
            required: config.sasl.enabled,
            mechanisms,
            credentials: None,
        },
        offered_capabilities: ["ANONYMOUS-RELAY", "SHARED-SUBS"]
            .map(Symbol::from_static)
            .to_vec(),
        properties: Some(properties()),
        ..ConnectionConfig::default()
    }
}

/// What peers are told about us.
fn properties() -> Map {
    [
        ("product", "Quark-Queue"),
        ("version", env!("CARGO_PKG_VERSION")),
    ]
    .into_iter()
    .map(|(key, value)| {
        (
            Value::Symbol(Symbol::from_static(key)),
            Value::Str(Str::from_static(value)),
        )
    })
    .collect()
}
