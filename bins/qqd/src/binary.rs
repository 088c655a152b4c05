//! What the configuration means for QWER-Q connections.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use qq_core::face::binary::{BinaryConfig, BinaryFace};
use qq_core::face::{Face, FaceFactory, Login};
use qq_proto_binary::connection::{Auth, Config as ConnectionConfig};

use crate::config::{Config, Size};
use crate::login::SharedTokens;

/// Deliveries that the broker may hand over ahead of the socket, per consumer; as for AMQP.
const PERMIT_SLICE: u32 = 256;
/// Consumers of one connection: with the queues that it publishes to they share the 4,096 ports of a face.
const CONSUMERS_MAX: usize = 1_024;
/// Deliveries that one consumer may hold.
const PREFETCH_MAX: u32 = 10_000;
/// After how long a delivery without an answer returns, where its consumer says nothing.
const LOCK_TIMEOUT_MS: u64 = 30_000;
/// After how long without a sign of life a member of a consumer group loses its membership, as the protocol says.
const MEMBER_TIMEOUT_MS: u64 = 10_000;

/// Makes the faces of the QWER-Q listener. `seed` is a number that no peer can guess.
pub(crate) fn binary_factory(config: &Config, tokens: SharedTokens, seed: u64) -> FaceFactory {
    let limits = &config.limits;
    let is_required = tokens
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .is_required();
    let auth = if is_required {
        Auth::Required
    } else {
        Auth::Open
    };
    let usual = ConnectionConfig::default();
    let payload_max = limits.binary_payload_max.value().map(Size::to);
    let face = Arc::new(BinaryConfig {
        connection: ConnectionConfig {
            auth,
            auth_deadline_ms: limits.open_timeout.to(),
            unsent_bytes_max: limits.unsent_bytes_max.to(),
            slow_reader_ms: limits.slow_reader_timeout.to(),
            payload_versioned_max: payload_max.unwrap_or(usual.payload_versioned_max),
            payload_documented_max: payload_max.unwrap_or(usual.payload_documented_max),
            ..usual
        },
        permit_slice: PERMIT_SLICE,
        unanswered_max: limits.unanswered_max.to(),
        unanswered_bytes_max: limits.unanswered_bytes_max.to(),
        consumers_max: limits.links_max.to::<usize>().min(CONSUMERS_MAX),
        prefetch_max: PREFETCH_MAX,
        member_timeout_ms: MEMBER_TIMEOUT_MS,
        lock_timeout_ms: LOCK_TIMEOUT_MS,
        queue_spec: config.auto_create_spec(),
        authenticate: Arc::new(move |login: &Login<'_>| {
            tokens
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .answer(login)
        }),
        seed,
    });
    let serial = AtomicU64::new(0);
    Arc::new(move |now, peer| {
        let serial = serial.fetch_add(1, Ordering::Relaxed);
        Box::new(BinaryFace::new(now, peer, serial, Arc::clone(&face))) as Box<dyn Face>
    })
}
